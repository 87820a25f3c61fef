import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, test } from "node:test";
import { promisify } from "node:util";

import { visiting } from "../browser.mjs";
import { absent, assertMarked, mark, seen } from "../assertions.mjs";
import { serve } from "../server.mjs";

describe("the first visit", () => {
  test("an empty store teaches the next command, and shows the job that it makes", async () => {
    const server = await serve();
    try {
      await visiting(server, {}, async (page) => {
        await page.goto("/");
        await absent(page.getByRole("button", { name: "Sign out" }));
        await seen(page.getByText("No jobs yet"), page.getByText("All clear."));
        const taught = await page.locator(".empty code").first().textContent();
        await mark(page);
        await run(taught, server);
        await seen(page.getByRole("link", { name: /completed/ }).filter({ hasText: "1" }));
        await absent(page.getByText("No jobs yet"));
        await assertMarked(page);
      });
    } finally {
      await server.stop();
    }
  });

  test("every page of an empty store says what to do about it", async () => {
    const server = await serve();
    try {
      await visiting(server, {}, async (page) => {
        for (const [path, said] of [
          ["/ui/jobs", "No jobs yet"],
          ["/ui/webhooks", "longhaul endpoints create"],
          ["/ui/keys", "There is no key"],
          ["/ui/tenants", "Tenant"],
          ["/ui/usage", "longhaul usage"],
          ["/ui/audit", "Nothing was done yet"],
          ["/ui/submit", "demo"],
        ]) {
          await page.goto(path);
          assert.match(await page.locator("main").textContent(), new RegExp(said), path);
        }
      });
    } finally {
      await server.stop();
    }
  });
});

/** Types a command of a page into a shell. */
async function run(command, server) {
  assert.match(command, /^longhaul submit /);
  const script = command.replace(/^longhaul/, '"$LONGHAUL_BINARY"');
  await promisify(execFile)("sh", ["-c", script], { env: { ...process.env, LONGHAUL_SERVER: server.url } });
}
