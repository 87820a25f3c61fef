import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, test } from "node:test";
import { promisify } from "node:util";

import { visiting } from "../browser.mjs";
import { absent, assertMarked, mark, seen } from "../assertions.mjs";
import { serve } from "../server.mjs";

describe("empty store", () => {
  test("the overview shows a submit command and then its job", async () => {
    const server = await serve();
    try {
      await visiting(server, {}, async (page) => {
        await page.goto("/");
        await absent(page.getByRole("button", { name: "Sign out" }));
        await seen(page.getByText("No jobs yet"), page.getByText("All clear."));
        const command = await page.locator(".empty code").first().textContent();
        await mark(page);
        await run(command, server);
        await seen(page.getByRole("link", { name: /completed/ }).filter({ hasText: "1" }));
        await absent(page.getByText("No jobs yet"));
        await assertMarked(page);
      });
    } finally {
      await server.stop();
    }
  });

  test("every page of an empty store has a hint", async () => {
    const server = await serve();
    try {
      await visiting(server, {}, async (page) => {
        for (const [path, text] of [
          ["/ui/jobs", "No jobs yet"],
          ["/ui/webhooks", "longhaul endpoints create"],
          ["/ui/keys", "No API keys. Authentication is off"],
          ["/ui/tenants", "Tenant"],
          ["/ui/usage", "longhaul usage"],
          ["/ui/audit", "No entries"],
          ["/ui/submit", "demo"],
        ]) {
          await page.goto(path);
          assert.match(await page.locator("main").textContent(), new RegExp(text), path);
        }
      });
    } finally {
      await server.stop();
    }
  });
});

/** Runs a command of a page in a shell. */
async function run(command, server) {
  assert.match(command, /^longhaul submit /);
  const script = command.replace(/^longhaul/, '"$LONGHAUL_BINARY"');
  await promisify(execFile)("sh", ["-c", script], { env: { ...process.env, LONGHAUL_SERVER: server.url } });
}
