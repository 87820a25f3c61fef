import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { visiting } from "../browser.mjs";
import { gone, seen } from "../assertions.mjs";
import { controlledServer } from "../controlled_server.mjs";

describe("the keyboard", () => {
  let stage;
  const ids = [];
  before(async () => {
    stage = await controlledServer();
    for (let n = 0; n < 3; n += 1) ids.unshift(await stage.server.run("demo", { result: n }));
  });
  after(async () => {
    await stage?.stop();
  });

  const focused = (page) => page.evaluate(() => document.activeElement.textContent);

  test("j and k move in the list, x selects and Enter opens", async () => {
    await visiting(stage.server, {}, async (page) => {
      await page.goto("/ui/jobs");
      await page.keyboard.press("j");
      assert.equal(await focused(page), ids[0]);
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      // The third row is the last.
      await page.keyboard.press("j");
      assert.equal(await focused(page), ids[2]);
      await page.keyboard.press("k");
      assert.equal(await focused(page), ids[1]);
      await page.keyboard.press("x");
      assert.ok(await page.getByRole("checkbox", { name: `Select ${ids[1]}` }).isChecked());
      await page.keyboard.press("Enter");
      await page.waitForURL(`**/ui/jobs/${ids[1]}`);
    });
  });

  test("slash focuses the search, and Escape leaves it", async () => {
    await visiting(stage.server, {}, async (page) => {
      await page.goto("/ui/jobs");
      await page.keyboard.press("/");
      await page.keyboard.type("jk/?");
      assert.equal(await page.getByLabel("Text").inputValue(), "jk/?");
      await page.keyboard.press("Escape");
      await page.keyboard.press("j");
      assert.equal(await focused(page), ids[0]);
    });
  });

  test("question mark opens the list of shortcuts, and Escape closes it", async () => {
    await visiting(stage.server, {}, async (page) => {
      await page.goto("/");
      await page.keyboard.press("?");
      const list = page.getByRole("dialog", { name: "Keyboard shortcuts" });
      await seen(list.getByText("Next or previous row"));
      await page.keyboard.press("Escape");
      await gone(list);
      for (const [keys, path] of [
        ["gj", "/ui/jobs"],
        ["gs", "/ui/submit"],
        ["go", "/"],
      ]) {
        for (const key of keys) await page.keyboard.press(key);
        await page.waitForURL((url) => url.pathname === path);
      }
    });
  });

  test("a confirmation dialog works by keyboard, and Escape cancels it", async () => {
    const id = await stage.server.submit("demo", {}, { delay: "1h" });
    await visiting(stage.server, {}, async (page) => {
      await page.goto(`/ui/jobs/${id}`);
      await page.getByRole("button", { name: "Cancel…" }).press("Enter");
      const dialog = page.getByRole("dialog", { name: "Cancel this job?" });
      await seen(dialog);
      await page.keyboard.press("Escape");
      await gone(dialog);
      await page.getByRole("button", { name: "Cancel…" }).press("Enter");
      await page.keyboard.press("Tab");
      await page.keyboard.press("Enter");
      await seen(page.locator("#head .headline").getByText("cancelled"));
    });
  });

  test("the first Tab skips the menu", async () => {
    await visiting(stage.server, {}, async (page) => {
      await page.goto("/ui/jobs");
      await page.keyboard.press("Tab");
      assert.equal(await focused(page), "Skip to content");
      await page.keyboard.press("Enter");
      assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    });
  });
});
