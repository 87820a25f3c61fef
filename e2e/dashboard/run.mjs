// End-to-end stories of the dashboard, run with Chromium against the real binary.
//
// Usage: LONGHAUL_BINARY=… node e2e/dashboard/run.mjs [STORIES…]
//
// Arguments select files in stories/. Screenshots of every page are written to ARTIFACTS/dashboard
// (default: target/artifacts).

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before } from "node:test";

import { browserPath, skip } from "../chromium.mjs";
import { close, open } from "./browser.mjs";

// Limit for a hang; a normal run takes a fraction of it.
const LIMIT_MS = 480_000;

const folder = join(import.meta.dirname, "stories");
const all = readdirSync(folder)
  .map((file) => file.replace(/\.mjs$/, ""))
  .sort();

if (browserPath() === undefined) {
  skip("dashboard");
} else {
  setTimeout(() => {
    console.error(`dashboard: not done after ${LIMIT_MS / 1000} s`);
    process.exit(1);
  }, LIMIT_MS).unref();
  before(open);
  after(close);
  const wanted = process.argv.slice(2);
  for (const name of wanted.length > 0 ? wanted : all) await import(join(folder, `${name}.mjs`));
}
