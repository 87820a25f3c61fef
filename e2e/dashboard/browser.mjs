// One browser for all stories. Whatever page they open, it has to be a good one: without an error on its
// console, a breach of its policy, a request to anybody else or one that fails.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const modules = resolve(process.env.NODE_MODULES ?? join(import.meta.dirname, "../../.tools/node/node_modules"));
const require = createRequire(join(modules, "x.js"));

/** Where axe-core is, which looks for what keeps people from using a page. */
export const axePath = require.resolve("axe-core/axe.min.js");

const TIMEOUT_MS = 15_000;
const WIDE = { width: 1280, height: 900 };
const REFUSED = /^console: Failed to load resource: the server responded with a status of 4/;
let browser;

/** Where Debian has its browser, if it does. */
export function browserPath() {
  const found = ["chromium", "chromium-browser", "google-chrome"].map((name) => `/usr/bin/${name}`);
  return [process.env.CHROMIUM, ...found].find((path) => path && existsSync(path));
}

export async function open() {
  const { chromium } = require("playwright-core");
  // Root has no sandbox to start it in; what it shows are our own pages.
  browser = await chromium.launch({ executablePath: browserPath(), args: ["--no-sandbox"] });
}

export async function close() {
  await browser?.close();
}

/** Somebody with a browser of their own, at a server. */
export class Visitor {
  /** What is wrong with the pages so far. */
  complaints = [];
  /** Refusals that the story is about. */
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
      // Whoever leaves a page leaves what it was asking for.
      if (why !== "net::ERR_ABORTED") complain(`${request.url()}: ${why}`);
    });
  }

  /** Says that the next refusal with this status is what the story is about. */
  expectRefusal(status) {
    this.expected.push(`status of ${status}`);
  }

  /** Says that pages may refuse from here on. What they are made of may not. */
  expectRefusals() {
    this.mayRefuse = true;
  }

  async visit(path) {
    return this.page.goto(path);
  }

  /** Signs in, and is where it wanted to be. */
  async signIn(key, path = "/") {
    await this.visit(path);
    await this.page.getByLabel("API key").fill(key);
    await this.page.getByRole("button", { name: "Sign in" }).click();
    await this.page.waitForURL((url) => url.pathname !== "/ui/sign-in");
  }

  /** Nothing was wrong with any page that was seen. */
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

/** Tells a story of one visitor, and looks at what was wrong with its pages. */
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
