import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { visiting } from "../browser.mjs";
import { absent, confirm, counted, seen } from "../assertions.mjs";
import { eventually } from "../server.mjs";
import { receive } from "../webhook_receiver.mjs";
import { controlledServer } from "../controlled_server.mjs";

// Status words of a delivered event.
const DELIVERED = /^(completed|arrived)$/;

// Rows of deliveries that link to this job or delivery.
const deliveryRows = (page, id) => page.locator("#deliveries tbody tr").filter({ has: page.locator(`a[href*="${id}"]`) });

describe("webhooks", () => {
  let stage;
  let receiver;
  let broken;
  // Response statuses of the receiver, by path.
  const statuses = {};
  before(async () => {
    stage = await controlledServer();
    broken = await receive(() => 503);
    receiver = await receive(({ url }) => (statuses[url]?.length > 1 ? statuses[url].shift() : statuses[url]?.[0]) ?? 204);
  });
  after(async () => {
    await stage?.stop();
    await receiver?.stop();
    await broken?.stop();
  });

  test("failed deliveries show their error, and a retry succeeds", async () => {
    statuses["/shaky"] = [503, 204];
    const { server } = stage;
    // A separate port, because the circuit breaker counts failures per host and port.
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
      }, "not both endpoints have deliveries");
      const rowOf = (path) => {
        const { id } = endpoints.find(({ url }) => url.endsWith(path));
        const { deliveryId } = deliveries.find(({ endpointId }) => endpointId === id);
        return deliveryRows(page, deliveryId);
      };
      await seen(rowOf("/down").getByText(/503|circuit|left alone/i));
      await seen(rowOf("/shaky").locator(".status").getByText(DELIVERED));
      await rowOf("/shaky").getByRole("link").first().click();
      const response = (status) => page.getByRole("cell", { name: status, exact: true });
      await seen(response("503"), response("204"), page.getByText("said by the receiver"));
      await seen(page.locator("#delivery .headline").getByText(DELIVERED));
    });
  });

  test("a failed delivery is found and resent", async () => {
    // 410 ends the delivery without retries.
    statuses["/once"] = [410, 204];
    const job = await stage.server.run(
      "demo",
      {},
      { webhook: { url: `${receiver.url}/once`, events: ["job.completed"] } },
    );
    await visiting(stage.server, {}, async (page) => {
      await page.goto("/");
      await seen(page.getByText("webhook deliveries failed"));
      await page.getByRole("link", { name: "Show failed deliveries" }).click();
      const row = deliveryRows(page, job).filter({ hasText: "/once" });
      await seen(row.getByText("410"));
      const before = receiver.taken.filter((path) => path === "/once").length;
      await row.getByRole("button", { name: "Resend" }).click();
      await seen(page.getByText("Delivery queued."));
      await seen(page.locator("#delivery .headline").getByText(DELIVERED));
      assert.equal(receiver.taken.filter((path) => path === "/once").length, before + 1);
      await page.goto(`/ui/jobs/${job}`);
      const again = page.locator("#deliveries tbody tr").filter({ hasText: "/once" });
      await counted(again, 1);
      await seen(again.getByText(DELIVERED));
    });
  });

  test("an endpoint is tested, disabled, enabled and deleted", async () => {
    const { server } = stage;
    await server.call("POST", "/v1/endpoints", { url: `${receiver.url}/tried`, events: ["job.failed"] });
    await visiting(server, {}, async (page) => {
      await page.goto("/ui/webhooks");
      const row = page.getByRole("row").filter({ hasText: "/tried" }).first();
      await row.getByRole("button", { name: "Send test" }).click();
      await seen(page.getByText("Test delivery queued"));
      await eventually(async () => receiver.taken.find((path) => path === "/tried"), "no test delivery arrived");
      await row.getByRole("button", { name: "Disable" }).click();
      await seen(page.getByText("Endpoint disabled."), row.getByText("Disabled", { exact: true }));
      await row.getByRole("button", { name: "Enable" }).click();
      await seen(page.getByText("Endpoint enabled."));
      await confirm(page, row.getByRole("button", { name: "Delete…" }), "Delete this endpoint?", "Delete endpoint");
      await seen(page.getByText("Endpoint deleted."));
      await absent(page.getByRole("button", { name: "Send test" }).and(row.getByRole("button")));
    });
  });

  test("a forbidden webhook URL is rejected with the reason", async () => {
    await visiting(stage.server, {}, async (page, visitor) => {
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
