// The browser that tests need, and the end of tests that cannot run without it.

import { existsSync } from "node:fs";

/** Returns the path of an installed browser. */
export function browserPath() {
  const found = ["chromium", "chromium-browser", "google-chrome"].map((name) => `/usr/bin/${name}`);
  return [process.env.CHROMIUM, ...found].find((path) => path && existsSync(path));
}

/**
 * Ends tests on a machine without a browser. They fail, so that pages that were never opened do not pass, unless
 * TEST_MAY_SKIP is set.
 */
export function skip(name) {
  if (process.env.TEST_MAY_SKIP === undefined) {
    console.error(`${name}: cannot run here, there is no chromium; TEST_MAY_SKIP=1 skips such tests`);
    process.exitCode = 1;
  } else {
    console.log(`${name}: skipped, there is no chromium`);
  }
}
