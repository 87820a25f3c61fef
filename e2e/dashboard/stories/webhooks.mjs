import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { visiting } from "../browser.mjs";
import { absent, confirm, counted, seen } from "../assertions.mjs";
import { eventually } from "../server.mjs";
import { receive } from "../webhook_receiver.mjs";
import { controlledServer } from "../controlled_server.mjs";

// As the page says it of a job, or of a delivery.
const ARRIVED = /^(completed|arrived)$/;

// The rows of deliveries that lead to this job or delivery, however much of its id they show.
const told = (page, id) => page.locator("#deliveries tbody tr").filter({ has: page.locator(`a[href*="${id}"]`) });

describe("webhooks", () => {
  let shop;
  let receiver;
  let broken;
  // What the receiver answers, by path.
  const answers = {};
  before(async () => {
    shop = await controlledServer();
    broken = await receive(() => 503);
    receiver = await receive(({ url }) => (answers[url]?.length > 1 ? answers[url].shift() : answers[url]?.[0]) ?? 204);
  });
  after(async () => {
    await shop?.stop();
    await receiver?.stop();
    await broken?.stop();
  });

  test("a receiver fails: each delivery says why, and one arrives after all", async () => {
    answers["/shaky"] = [503, 204];
    const { server } = shop;
    // On a port of its own: a receiver that keeps failing is left alone with all of its paths.
    await server.call("POST", "/v1/endpoints", { url: `${broken.url}/down`, events: ["job.completed"] });
    await visiting(server, {}, async (page) => {
      await page.goto("/ui/webhooks");
      const form = page.getByRole("form", { name: "Create endpoint" });
      await form.getByLabel("URL").fill(`${receiver.url}/shaky`);
      await form.getByLabel("Description").fill("orders service");
      await form.getByLabel("Events").fill("job.completed");
      await form.getByRole("button", { name: "Create endpoint" }).click();
      await seen(page.getByText("it is not shown again"));
      const secret = await page.locator("#new-secret").textContent();
      await page.goto("/ui/webhooks");
      assert.ok(!(await page.content()).includes(secret));
      await seen(page.getByText("orders service"));
      const job = await server.run("demo", {});
      const { endpoints } = await server.call("GET", "/v1/endpoints");
      const deliveries = await eventually(async () => {
        const { deliveries } = await server.call("GET", `/v1/jobs/${job}/deliveries`);
        return deliveries.length === 2 ? deliveries : undefined;
      }, "not both endpoints are told");
      // The row of what is owed to this path.
      const owed = (path) => {
        const { id } = endpoints.find(({ url }) => url.endsWith(path));
        const { deliveryId } = deliveries.find(({ endpointId }) => endpointId === id);
        return told(page, deliveryId);
      };
      await seen(owed("/down").getByText(/503|left alone/));
      await seen(owed("/shaky").locator(".status").getByText(ARRIVED));
      await owed("/shaky").getByRole("link").first().click();
      const answer = (status) => page.getByRole("cell", { name: status, exact: true });
      await seen(answer("503"), answer("204"), page.getByText("said by the receiver"));
      await seen(page.locator("#delivery .headline").getByText(ARRIVED));
    });
  });

  test("a delivery that was given up is found, and arrives when it is sent again", async () => {
    // 410: the receiver wants nothing more, so that it is not tried again.
    answers["/once"] = [410, 204];
    const job = await shop.server.run(
      "demo",
      {},
      { webhook: { url: `${receiver.url}/once`, events: ["job.completed"] } },
    );
    await visiting(shop.server, {}, async (page) => {
      await page.goto("/");
      await seen(page.getByText("webhook deliveries failed"));
      await page.getByRole("link", { name: "Show failed deliveries" }).click();
      const row = told(page, job).filter({ hasText: "/once" });
      await seen(row.getByText("410"));
      const before = receiver.taken.filter((path) => path === "/once").length;
      await row.getByRole("button", { name: "Resend" }).click();
      await seen(page.getByText("Delivery queued."));
      await seen(page.locator("#delivery .headline").getByText(ARRIVED));
      assert.equal(receiver.taken.filter((path) => path === "/once").length, before + 1);
      await page.goto(`/ui/jobs/${job}`);
      const again = page.locator("#deliveries tbody tr").filter({ hasText: "/once" });
      await counted(again, 1);
      await seen(again.getByText(ARRIVED));
    });
  });

  test("an endpoint gets a test, is switched off and on, and deleted", async () => {
    const { server } = shop;
    await server.call("POST", "/v1/endpoints", { url: `${receiver.url}/tried`, events: ["job.failed"] });
    await visiting(server, {}, async (page) => {
      await page.goto("/ui/webhooks");
      const row = page.getByRole("row").filter({ hasText: "/tried" }).first();
      await row.getByRole("button", { name: "Send test" }).click();
      await seen(page.getByText("Test delivery queued"));
      await eventually(async () => receiver.taken.find((path) => path === "/tried"), "no test arrived");
      await row.getByRole("button", { name: "Disable" }).click();
      await seen(page.getByText("Endpoint disabled."), row.getByText("Disabled", { exact: true }));
      await row.getByRole("button", { name: "Enable" }).click();
      await seen(page.getByText("Endpoint enabled."));
      await confirm(page, row.getByRole("button", { name: "Delete…" }), "Delete this endpoint?", "Delete endpoint");
      await seen(page.getByText("Endpoint deleted."));
      await absent(page.getByRole("button", { name: "Send test" }).and(row.getByRole("button")));
    });
  });

  test("an address that no webhook may have is refused with why", async () => {
    await visiting(shop.server, {}, async (page, visitor) => {
      await page.goto("/ui/webhooks");
      visitor.expectRefusal(422);
      await page
        .getByRole("form", { name: "Create endpoint" })
        .getByLabel("URL")
        .fill("http://169.254.169.254/latest");
      await page.getByRole("button", { name: "Create endpoint" }).click();
      await seen(page.getByText("422"));
    });
  });
});
