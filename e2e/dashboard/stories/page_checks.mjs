// That the stories would notice: without this, pages that are never found fault with could as well not be looked at.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { Visitor } from "../browser.mjs";
import { eventually, serve } from "../server.mjs";

describe("what is wrong with a page", () => {
  let server;
  before(async () => {
    server = await serve();
  });
  after(async () => {
    await server?.stop();
  });

  for (const [what, said, harm] of [
    [
      "script in the page",
      /Content Security Policy/,
      "document.body.append(Object.assign(document.createElement('script'), { text: '1' }))",
    ],
    [
      "a handler in the page",
      /Content Security Policy/,
      "document.body.setAttribute('onclick', 'alert(1)'); document.body.click()",
    ],
    [
      "an image from elsewhere",
      /Content Security Policy/,
      "document.body.append(Object.assign(new Image(), { src: 'https://example.com/x.png' }))",
    ],
    ["a page from elsewhere", /asked for http:\/\/127\.0\.0\.1:1\//, "location.href = 'http://127.0.0.1:1/'"],
    ["a file that is not there", /status of 404/, "fetch('/ui/nothing')"],
    ["an error", /script: /, "setTimeout(() => { throw new Error('oh') })"],
    ["a dialog", /a dialog: oh/, "setTimeout(() => alert('oh'))"],
  ]) {
    test(`${what} is noticed`, async () => {
      const visitor = await Visitor.at(server);
      await visitor.visit("/");
      // Some of it takes its page away, and with it the answer.
      await visitor.page.evaluate(`${harm}; 0`).catch(() => undefined);
      await eventually(
        async () => visitor.complaints.find((complaint) => said.test(complaint)),
        `${what} is not noticed`,
      );
      await assert.rejects(visitor.leave());
    });
  }
});
