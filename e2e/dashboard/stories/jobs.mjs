import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { visiting } from "../browser.mjs";
import { absent, assertMarked, confirm, counted, gone, mark, seen } from "../assertions.mjs";
import { controlledServer } from "../controlled_server.mjs";

describe("jobs", () => {
  let stage;
  before(async () => {
    stage = await controlledServer();
  });
  after(async () => {
    await stage?.stop();
  });

  const rows = (page) => page.locator("tbody tr[data-row]");
  const headline = (page, word) => page.locator("#head .headline").getByText(word, { exact: true });

  test("a submitted job is shown live until it finishes", async () => {
    stage.removeFile("gate");
    await visiting(stage.server, {}, async (page) => {
      await page.goto("/ui/submit");
      await page.getByRole("link", { name: "gated" }).click();
      await page.getByLabel("Input").fill('{"order": 4711}');
      await page.getByText("Queue, idempotency key, labels and more").click();
      await page.getByLabel("Labels").fill("customer=acme\nregion=eu");
      await page.getByLabel("Idempotency key").fill("order-4711");
      await page.getByRole("button", { name: "Submit job" }).click();
      await seen(page.getByText("Job submitted."), headline(page, "running"), page.getByText("half of it"));
      await seen(
        page.locator("#head").getByText("waiting"),
        page.getByText("customer=acme"),
        page.getByText("order-4711"),
      );
      await mark(page);
      stage.createFile("gate");
      await seen(headline(page, "completed"), page.locator("#result").getByText("true"));
      await gone(page.getByRole("button", { name: "Cancel…" }));
      await assertMarked(page);
      // The notice is removed from the URL.
      assert.equal(new URL(page.url()).search, "");
    });
  });

  test("an invalid input is reported beside the form", async () => {
    await visiting(stage.server, {}, async (page, visitor) => {
      await page.goto("/ui/submit/gated");
      await page.getByLabel("Input").fill('{"order": ');
      visitor.expectRefusal(400);
      await page.getByRole("button", { name: "Submit job" }).click();
      await seen(page.getByRole("alert"));
      assert.equal(await page.getByLabel("Input").inputValue(), '{"order": ');
    });
  });

  test("a failed job is found by filters, shows its error and is resumed", async () => {
    const { server } = stage;
    stage.removeFile("mended");
    const failed = await server.run("printer", { pages: 3 }, { labels: { floor: "2" } });
    await server.run("pipeline", {});
    await server.run("demo", { fail: "something else" }, { maxAttempts: 1 });
    await visiting(server, {}, async (page) => {
      await page.goto("/ui/jobs");
      await page.getByRole("checkbox", { name: "failed" }).check();
      await page.getByLabel("Kind").selectOption("printer");
      await page.getByLabel("Label").fill("floor=2");
      await page.getByRole("button", { name: "Filter", exact: true }).click();
      await counted(rows(page), 1);
      const query = new URL(page.url()).searchParams;
      assert.deepEqual([query.get("status"), query.get("kind"), query.get("label")], ["failed", "printer", "floor=2"]);
      await seen(rows(page).getByText("the printer is on fire"));
      await page.getByRole("link", { name: failed }).click();
      await seen(
        headline(page, "failed"),
        page.getByRole("note", { name: "Error" }).getByText("the printer is on fire"),
      );
      await mark(page);
      stage.createFile("mended");
      await confirm(page, page.getByRole("button", { name: "Resume…" }), "Resume this job?", "Resume job");
      await seen(page.getByText("Job queued"), headline(page, "completed"));
      await seen(page.locator("#result").getByText("3", { exact: true }));
    });
  });

  test("a job is found by error text, idempotency key and id", async () => {
    const { server } = stage;
    const id = await server.run("demo", { fail: "no toner left" }, { maxAttempts: 1, idempotencyKey: "print-77" });
    await visiting(server, {}, async (page) => {
      await page.goto("/ui/jobs");
      for (const text of ["toner", "print-77", id]) {
        await page.getByLabel("Text").fill(text);
        await page.getByLabel("Text").press("Enter");
        await page.waitForURL((url) => url.searchParams.get("q") === text);
        await counted(rows(page), 1);
        await seen(page.getByRole("link", { name: id }));
      }
      await page.getByLabel("Text").fill("no such text");
      await page.getByLabel("Text").press("Enter");
      await page.getByRole("link", { name: "Show all jobs" }).click();
      await seen(page.getByRole("link", { name: id }));
    });
  });

  test("a fork from the second step copies the first and runs the others", async () => {
    const { server } = stage;
    const id = await server.run("pipeline", { day: "monday" });
    await visiting(server, {}, async (page) => {
      await page.goto(`/ui/jobs/${id}`);
      const second = page.getByRole("row").filter({ hasText: "second" });
      await confirm(
        page,
        second.getByRole("button", { name: "Fork from here…" }),
        "Fork from this step?",
        "Fork job",
      );
      await seen(page.getByText("Job forked."), headline(page, "completed"));
      assert.notEqual(new URL(page.url()).pathname, `/ui/jobs/${id}`);
      const step = (name) => page.locator("#timeline tr.step").filter({ hasText: name });
      await seen(step("third"));
      await seen(step("first").getByText("Copied from the forked job"));
      await seen(step("second").locator("svg"), step("third").locator("svg"));
      await page.getByRole("link", { name: id }).click();
      await absent(page.getByText("Copied from the forked job"));
    });
  });

  test("bulk cancel changes the selected jobs, then all matching jobs", async () => {
    const { server } = stage;
    await server.call("POST", "/v1/queues/bulk/pause");
    const ids = [];
    for (let n = 0; n < 5; n += 1) ids.push(await server.submit("demo", {}, { queue: "bulk", labels: { n: `${n}` } }));
    await visiting(server, {}, async (page) => {
      await page.goto("/ui/jobs?queue=bulk&status=pending");
      await counted(rows(page), 5);
      const bar = page.getByRole("group", { name: "Change selected jobs" });
      await bar.getByRole("button", { name: "Cancel…" }).click();
      assert.ok(await page.getByRole("button", { name: "Cancel selected" }).isDisabled());
      await page.getByRole("button", { name: "Keep as is" }).first().click();
      for (const id of ids.slice(0, 2)) await page.getByRole("checkbox", { name: `Select ${id}` }).check();
      await seen(page.getByText("2 jobs selected"));
      await confirm(page, bar.getByRole("button", { name: "Cancel…" }), "Cancel jobs?", "Cancel 2 selected");
      await seen(page.getByText("Cancelled 2 jobs."));
      await counted(rows(page), 3);
      await confirm(
        page,
        bar.getByRole("button", { name: "Cancel…" }),
        "Cancel jobs?",
        "Cancel all 3 matching",
      );
      await seen(page.getByText("Cancelled 3 jobs."), page.getByText("No matching jobs."));
    });
    for (const id of ids) await server.until(id, "cancelled");
    await server.call("POST", "/v1/queues/bulk/resume");
  });

  test("Enter in the list triggers no bulk action", async () => {
    const { server } = stage;
    await server.call("POST", "/v1/queues/mistake/pause");
    const id = await server.submit("demo", {}, { queue: "mistake" });
    await visiting(server, {}, async (page) => {
      await page.goto("/ui/jobs?queue=mistake");
      const box = page.getByRole("checkbox", { name: `Select ${id}` });
      await box.check();
      await box.press("Enter");
      // The next page is rendered after any effect of the key.
      await page.goto(`/ui/jobs/${id}`);
      await seen(headline(page, "pending"));
    });
    await server.call("POST", `/v1/jobs/${id}/cancel`);
  });

  test("the job page cancels a running job and purges a finished one", async () => {
    const { server } = stage;
    const id = await server.submit("demo", { sleep: "10m" });
    await server.until(id, "running");
    await visiting(server, {}, async (page, visitor) => {
      await page.goto(`/ui/jobs/${id}`);
      await confirm(page, page.getByRole("button", { name: "Cancel…" }), "Cancel this job?", "Cancel job");
      await seen(headline(page, "cancelled"));
      await confirm(page, page.getByRole("button", { name: "Purge…" }), "Purge this job?", "Purge job");
      await seen(page.getByText("Job purged."));
      await absent(page.getByRole("link", { name: id }));
      visitor.expectRefusal(410);
      await page.goto(`/ui/jobs/${id}`);
      await seen(page.getByText("This job no longer exists"));
    });
  });

  test("a queue is paused and resumed", async () => {
    const { server } = stage;
    stage.removeFile("gate");
    const first = await server.submit("gated", {}, { queue: "press" });
    await server.until(first, "running");
    await visiting(server, {}, async (page) => {
      await page.goto("/");
      await page.getByRole("button", { name: "Pause press" }).click();
      await seen(page.getByText("Queue paused."));
      const held = await server.submit("demo", {}, { queue: "press" });
      await seen(page.getByText("with 1 pending job"));
      stage.createFile("gate");
      await server.until(first, "completed");
      await page.getByRole("button", { name: "Resume press" }).click();
      await seen(page.getByText("Queue resumed."));
      await server.until(held, "completed");
    });
  });

  test("the list updates live and keeps the selection", async () => {
    const { server } = stage;
    const first = await server.run("demo", {}, { labels: { fresh: "yes" } });
    await visiting(server, {}, async (page) => {
      await page.goto("/ui/jobs?label=fresh%3Dyes");
      await page.getByRole("checkbox", { name: `Select ${first}` }).check();
      await mark(page);
      const second = await server.run("demo", {}, { labels: { fresh: "yes" } });
      await seen(page.getByRole("link", { name: second }));
      assert.ok(await page.getByRole("checkbox", { name: `Select ${first}` }).isChecked());
      await assertMarked(page);
    });
  });
});
