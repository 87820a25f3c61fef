// Assertions about pages. They wait for a condition and never for time.

import assert from "node:assert/strict";

import { eventually } from "./server.mjs";

/** Waits until all of these are visible. */
export async function seen(...locators) {
  for (const locator of locators) await locator.first().waitFor({ state: "visible" });
}

/** Waits until it is hidden. */
export async function gone(locator) {
  await locator.first().waitFor({ state: "hidden" });
}

/** Asserts that none of these is on the loaded page. */
export async function absent(...locators) {
  for (const locator of locators) assert.equal(await locator.count(), 0, `${locator} is there`);
}

/** Waits until the number of matches is `count`. */
export async function counted(locator, count) {
  await eventually(async () => ((await locator.count()) === count ? count : undefined), `not ${count} of ${locator}`);
}

/** Presses a button that asks first, reads what it asks, and says yes. */
export async function confirm(page, button, question, yes) {
  await button.click();
  const dialog = page.getByRole("dialog", { name: question });
  await seen(dialog);
  await dialog.getByRole("button", { name: yes, exact: true }).click();
}

/** Leaves something on the page that a reload would take away. */
export async function mark(page) {
  await page.evaluate(() => {
    window.isStillHere = true;
  });
}

/** The page was never loaded anew since it was marked. */
export async function assertMarked(page) {
  assert.equal(await page.evaluate(() => window.isStillHere), true, "the page was loaded anew");
}
