// Every page is accessible: without script, on a phone, in other time zones, and with a screen reader.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { axePath, visiting } from "../browser.mjs";
import { seedServer } from "../seed_data.mjs";
import { pages, REFUSING } from "../pages.mjs";
import { absent, confirm, seen } from "../assertions.mjs";

const NARROW = { width: 390, height: 844 };
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
// All rules in the light scheme, only colour rules in the dark one, because nothing else differs.
const RULES = {
  light: { type: "tag", values: TAGS },
  dark: { type: "rule", values: ["color-contrast", "link-in-text-block"] },
};
const screenshots = join(process.env.ARTIFACTS ?? join(import.meta.dirname, "../../../target/artifacts"), "dashboard");

// A dialog covers one screen, and the API reference is too long for a full-page screenshot.
const SCREENS = new Set(["api", "job-fork", "jobs-purge", "keyboard"]);
const picture = (page, name, how) =>
  page.screenshot({ path: join(screenshots, `${name}-${how}.png`), fullPage: !SCREENS.has(name) });

describe("accessibility", () => {
  let day;
  before(async () => {
    mkdirSync(screenshots, { recursive: true });
    day = await seedServer();
  });
  after(async () => {
    await day?.stop();
  });

  /** Opens the sign-in page and then every page as an administrator. */
  async function everyPage(options, look) {
    await visiting(day.server, options, async (page, visitor) => {
      await page.goto("/");
      await look(page, "sign-in");
      await visitor.signIn(day.server.adminKey);
      for (const [name, path] of Object.entries(pages(day))) {
        if (REFUSING.has(name)) visitor.expectRefusal(name === "job-purged" ? 410 : 404);
        await page.goto(path);
        await look(page, name);
      }
    });
  }

  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds no violation on any page in ${colorScheme}`, async () => {
      const found = [];
      const check = async (page, name) => {
        await picture(page, name, colorScheme);
        found.push(...(await violations(page, RULES[colorScheme])).map((violation) => `${name}: ${violation}`));
      };
      await everyPage({ colorScheme }, check);
      await visiting(day.server, { colorScheme }, async (page, visitor) => {
        await visitor.signIn(day.server.adminKey, `/ui/jobs/${day.pipeline}`);
        await page.getByRole("button", { name: "Fork from here…" }).nth(1).click();
        await seen(page.getByRole("dialog"));
        await check(page, "job-fork");
        await page.goto("/ui/jobs");
        await page.getByRole("button", { name: "Purge…" }).click();
        await seen(page.getByRole("dialog"));
        await check(page, "jobs-purge");
        await page.goto("/ui/jobs");
        await page.keyboard.press("j");
        await page.keyboard.press("x");
        await page.keyboard.press("?");
        await check(page, "keyboard");
        await page.goto("/ui/keys");
        await page.getByLabel("Name").fill(`made in ${colorScheme}`);
        await page.getByRole("checkbox", { name: "read" }).check();
        await page.getByRole("button", { name: "Create key" }).click();
        await seen(page.locator("#new-secret"));
        await check(page, "keys-made");
      });
      assert.deepEqual(found, []);
    });
  }

  test("no page scrolls sideways on a phone", async () => {
    const wide = [];
    await everyPage({ viewport: NARROW, hasTouch: true, isMobile: true }, async (page, name) => {
      await picture(page, name, "narrow");
      const [width, room] = await page.evaluate(() => [
        document.documentElement.scrollWidth,
        document.documentElement.clientWidth,
      ]);
      if (width > NARROW.width || width > room) wide.push(`${name}: ${width}`);
    });
    assert.deepEqual(wide, []);
  });

  test("pages and actions work without script", async () => {
    await everyPage({ javaScriptEnabled: false }, async (page, name) => {
      assert.notEqual((await page.locator("h1").first().textContent()).trim(), "", name);
      // Without script, times are in UTC.
      for (const time of await page.locator("time").allTextContents()) assert.match(time, /UTC$/);
    });
    const id = await day.server.submit("demo", {}, { delay: "1h", labels: { script: "none" } });
    await visiting(day.server, { javaScriptEnabled: false }, async (page, visitor) => {
      await visitor.signIn(day.server.adminKey, "/ui/jobs");
      await page.getByLabel("Label").fill("script=none");
      await page.getByRole("button", { name: "Filter", exact: true }).click();
      await page.getByRole("link", { name: id }).click();
      await confirm(page, page.getByRole("button", { name: "Cancel…" }), "Cancel this job?", "Cancel job");
      await seen(page.getByText("Job cancelled."));
    });
    await day.server.until(id, "cancelled");
  });

  test("times are in the viewer's time zone with a UTC tooltip", async () => {
    const { createdAt } = await day.server.call("GET", `/v1/jobs/${day.failed}`);
    const there = new Intl.DateTimeFormat("en-GB", {
      timeZone: "Asia/Tokyo",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
    await visiting(day.server, { timezoneId: "Asia/Tokyo", locale: "en-GB" }, async (page, visitor) => {
      await visitor.signIn(day.server.adminKey, `/ui/jobs/${day.failed}`);
      const accepted = page.locator("#facts time").first();
      assert.ok((await accepted.textContent()).includes(there.format(new Date(createdAt))));
      assert.equal(Date.parse(await accepted.getAttribute("title")), Date.parse(createdAt));
      assert.match(await accepted.getAttribute("title"), /Z$/);
      await absent(page.locator("time").filter({ hasText: "UTC" }));
    });
  });
});

/** Returns the violations that axe-core finds. It is evaluated directly, because the page's policy blocks scripts. */
async function violations(page, runOnly) {
  await page.evaluate(readFileSync(axePath, "utf8"));
  const { violations } = await page.evaluate(
    (runOnly) => window.axe.run(document, { runOnly, resultTypes: ["violations"] }),
    runOnly,
  );
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id} at ${target.join(" ")}`));
}
