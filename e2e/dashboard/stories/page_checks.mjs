// Checks the checks: each problem of a page must fail its story.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { Visitor } from "../browser.mjs";
import { eventually, serve } from "../server.mjs";

describe("page checks", () => {
  let server;
  before(async () => {
    server = await serve();
  });
  after(async () => {
    await server?.stop();
  });

  for (const [problem, pattern, script] of [
    [
      "an inline script",
      /Content Security Policy/,
      "document.body.append(Object.assign(document.createElement('script'), { text: '1' }))",
    ],
    [
      "an inline handler",
      /Content Security Policy/,
      "document.body.setAttribute('onclick', 'alert(1)'); document.body.click()",
    ],
    [
      "an image from another host",
      /Content Security Policy/,
      "document.body.append(Object.assign(new Image(), { src: 'https://example.com/x.png' }))",
    ],
    ["navigation to another host", /asked for http:\/\/127\.0\.0\.1:1\//, "location.href = 'http://127.0.0.1:1/'"],
    ["a missing file", /status of 404/, "fetch('/ui/nothing')"],
    ["a script error", /script: /, "setTimeout(() => { throw new Error('oh') })"],
    ["a dialog", /a dialog: oh/, "setTimeout(() => alert('oh'))"],
  ]) {
    test(`${problem} fails the story`, async () => {
      const visitor = await Visitor.at(server);
      await visitor.visit("/");
      // Some scripts leave the page, so that `evaluate` fails.
      await visitor.page.evaluate(`${script}; 0`).catch(() => undefined);
      await eventually(
        async () => visitor.complaints.find((complaint) => pattern.test(complaint)),
        `${problem} is not reported`,
      );
      await assert.rejects(visitor.leave());
    });
  }
});
