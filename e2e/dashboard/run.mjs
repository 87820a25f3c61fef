// Stories of people in front of the dashboard, told by Debian's chromium against the real binary.
//
// Usage: LONGHAUL_BINARY=… node e2e/dashboard/run.mjs [STORIES…]
//
// Names of files in stories/ tell only those. Pictures of every page are left in ARTIFACTS/dashboard
// (target/artifacts unless ARTIFACTS says otherwise), to be looked at.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before } from "node:test";

import { browserPath, close, open } from "./browser.mjs";

// For a hang: all of it takes a fraction.
const LIMIT_MS = 480_000;

const folder = join(import.meta.dirname, "stories");
const all = readdirSync(folder)
  .map((file) => file.replace(/\.mjs$/, ""))
  .sort();

if (browserPath() === undefined) {
  console.log("dashboard: skipped, there is no chromium");
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
