// One browser for all stories. Every page that they open is checked: no console error, no violation of the
// content security policy, no request to another host and no failed request.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

import { browserPath } from "../chromium.mjs";

const modules = resolve(process.env.NODE_MODULES ?? join(import.meta.dirname, "../../.tools/node/node_modules"));
const require = createRequire(join(modules, "x.js"));

/** Path of axe-core, which finds accessibility violations. */
export const axePath = require.resolve("axe-core/axe.min.js");

const TIMEOUT_MS = 15_000;
const WIDE = { width: 1280, height: 900 };
const REFUSED = /^console: Failed to load resource: the server responded with a status of 4/;
let browser;

export async function open() {
  const { chromium } = require("playwright-core");
  // Chromium has no sandbox for root; it opens only pages of the test server.
  // Names under .example lead to this machine, so that stories can have other sites.
  const args = ["--no-sandbox", "--host-resolver-rules=MAP *.example 127.0.0.1"];
  browser = await chromium.launch({ executablePath: browserPath(), args });
}

/** Runs a story with one unchecked page, for pages of other sites. */
export async function browsing(story) {
  const context = await browser.newContext();
  context.setDefaultTimeout(TIMEOUT_MS);
  try {
    await story(await context.newPage());
  } finally {
    await context.close();
  }
}

export async function close() {
  await browser?.close();
}

/** A browser context at one server. */
export class Visitor {
  /** Problems of the pages so far. */
  complaints = [];
  /** Error responses that the story expects. */
  expected = [];

  static async at(server, options = {}) {
    const visitor = new Visitor();
    visitor.server = server;
    visitor.context = await browser.newContext({ baseURL: server.url, viewport: WIDE, ...options });
    visitor.context.setDefaultTimeout(TIMEOUT_MS);
    visitor.listen();
    visitor.page = await visitor.context.newPage();
    return visitor;
  }

  listen() {
    const complain = (text) => this.complaints.push(text);
    this.context.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complain(`console: ${message.text()}`);
    });
    this.context.on("weberror", (error) => complain(`script: ${error.error()}`));
    this.context.on("dialog", (dialog) => {
      complain(`a dialog: ${dialog.message()}`);
      return dialog.dismiss();
    });
    this.context.on("request", (request) => {
      const url = new URL(request.url());
      if (url.protocol !== "data:" && url.origin !== this.server.url) complain(`asked for ${url}`);
    });
    this.context.on("requestfailed", (request) => {
      const why = request.failure()?.errorText;
      // Leaving a page aborts its requests.
      if (why !== "net::ERR_ABORTED") complain(`${request.url()}: ${why}`);
    });
  }

  /** Expects one error response with this status. */
  expectRefusal(status) {
    this.expected.push(`status of ${status}`);
  }

  /** Allows error responses of pages, but not of their resources. */
  expectRefusals() {
    this.mayRefuse = true;
  }

  async visit(path) {
    return this.page.goto(path);
  }

  /** Signs in and waits for the requested page. */
  async signIn(key, path = "/") {
    await this.visit(path);
    await this.page.getByLabel("API key").fill(key);
    await this.page.getByRole("button", { name: "Sign in" }).click();
    await this.page.waitForURL((url) => url.pathname !== "/ui/sign-in");
  }

  /** Closes the context and asserts that no page had a problem. */
  async leave() {
    const left = this.complaints.filter((complaint) => !(this.mayRefuse && REFUSED.test(complaint)));
    for (const expected of this.expected) {
      const place = left.findIndex((complaint) => complaint.includes(expected));
      assert.notEqual(place, -1, `no answer had the ${expected}`);
      left.splice(place, 1);
    }
    await this.context.close();
    assert.deepEqual(left, []);
  }
}

/** Runs a story with one browser context and checks its pages. */
export async function visiting(server, options, story) {
  const visitor = await Visitor.at(server, options);
  try {
    await story(visitor.page, visitor);
  } catch (error) {
    const said = visitor.complaints.length === 0 ? "" : ` (pages complained: ${visitor.complaints.join("; ")})`;
    await visitor.context.close();
    throw new Error(`${error.message}${said}, at ${visitor.page.url()}`, { cause: error });
  }
  await visitor.leave();
}
