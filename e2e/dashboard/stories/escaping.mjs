// Every page escapes the texts of callers. An unescaped canary would load an image, open a dialog, violate the
// content security policy or create an element, and each of these fails the story.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { visiting } from "../browser.mjs";
import { seen } from "../assertions.mjs";
import { receive } from "../webhook_receiver.mjs";
import { eventually } from "../server.mjs";
import { controlledServer } from "../controlled_server.mjs";

// 60 characters with the longest of the names: a phase has 64.
const canary = (place) => `${place}"><img src=x onerror=alert(1)><script>alert(1)</script>`;
const LINK = "javascript:alert(1)";
const FILE = 'file"><img src=x onerror=alert(1)>.svg';
const PICTURE =
  '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="alert(1)"><script>alert(1)</script></svg>';

const kinds = (folder) => `
[kinds.bird]
command = ["sh", "-c", '''
cat >/dev/null
cat >&2 <<'END'
::phase ${canary("phase")}
::progress 1/2 ${canary("message")}
END
while ! [ -e '${folder}/gate' ]; do sleep 0.05; done
printf '%s' '${PICTURE}' > "$LONGHAUL_ARTIFACTS"/'${FILE}'
printf '%s' '<script>alert(1)</script>' > "$LONGHAUL_ARTIFACTS"/page.html
''']
[kinds.birds]
steps = [
  { name = "first", command = ["sh", "-c", '''cat >/dev/null; cat <<'END'
{"${canary("key").replaceAll('"', '\\"')}": "${canary("output").replaceAll('"', '\\"')}"}
END
'''] },
  { name = "last", command = ["sh", "-c", "cat >/dev/null"] },
]
`;

describe("escaping", () => {
  let stage;
  let receiver;
  before(async () => {
    stage = await controlledServer(kinds);
    receiver = await receive(() => 503, canary("answer"));
  });
  after(async () => {
    await stage?.stop();
    await receiver?.stop();
  });

  /** Asserts that the canaries are on the page as text and have created no element. */
  async function harmless(page, ...texts) {
    const shown = await page.evaluate(() => {
      const fields = [...document.querySelectorAll("input, textarea")].map((field) => field.value);
      return [document.body.textContent, ...fields].join("\n");
    });
    for (const text of texts) assert.ok(shown.includes(text), `${text} is not shown at ${page.url()}`);
    const out = await page.evaluate(() => {
      const found = document.querySelectorAll(
        'img[src="x"], script:not([src="/ui/app.js"]), [onerror], [onload], a[href^="javascript:" i]',
      );
      return [...found].map((element) => element.outerHTML);
    });
    assert.deepEqual(out, [], page.url());
  }

  test("labels, keys, inputs, results and errors are escaped", async () => {
    const { server } = stage;
    const key = 'key"><img/src=x/onerror=alert(1)>';
    const labels = { [canary("name")]: canary("value"), link: LINK };
    const text = { [canary("field")]: [canary("item"), LINK] };
    const done = await server.run("demo", { result: text }, { labels, idempotencyKey: key });
    const failed = await server.run("demo", { fail: canary("error") }, { labels, maxAttempts: 2 });
    await visiting(server, {}, async (page) => {
      await page.goto("/ui/jobs");
      await harmless(page, canary("error"), `link=${LINK}`);
      await page.goto(`/ui/jobs/${done}`);
      await harmless(page, key, canary("field"), canary("item"), LINK, `${canary("name")}=${canary("value")}`);
      await page.locator("#facts").getByRole("link", { name: LINK }).click();
      await seen(page.getByRole("link", { name: done }));
      await harmless(page, `link=${LINK}`);
      await page.goto(`/ui/jobs/${failed}`);
      await page.locator("#history summary").click();
      await harmless(page, canary("error"));
      await page.goto("/");
      await harmless(page, canary("error"));
    });
  });

  test("progress, phases, steps and artifact names are escaped", async () => {
    const { server } = stage;
    stage.removeFile("gate");
    const id = await server.submit("bird", {});
    await server.until(id, "running");
    await visiting(server, {}, async (page, visitor) => {
      await page.goto(`/ui/jobs/${id}`);
      await seen(page.locator("#head").getByText(canary("message")), page.locator("#head").getByText(canary("phase")));
      await harmless(page, canary("message"), canary("phase"));
      await page.goto("/ui/jobs");
      await harmless(page, canary("message"));
      await page.goto(`/ui/jobs/${id}`);
      stage.createFile("gate");
      await seen(page.locator("#artifacts").getByRole("link", { name: "page.html" }));
      await harmless(page, FILE, canary("phase"));
      const preview = page.getByRole("img", { name: `Preview of ${FILE}` });
      await preview.scrollIntoViewIfNeeded();
      await page.waitForFunction(() => document.querySelector("#artifacts img").complete);
      for (const name of [FILE, "page.html"]) {
        const answer = await visitor.context.request.get(`/ui/jobs/${id}/artifacts/${encodeURIComponent(name)}`);
        assert.match(answer.headers()["content-disposition"], /^attachment/);
        assert.match(answer.headers()["content-security-policy"], /sandbox/);
      }
      const steps = await server.run("birds", {});
      await page.goto(`/ui/jobs/${steps}`);
      await page.locator("#timeline summary").first().click();
      await harmless(page, canary("key"), canary("output"));
      await page.getByRole("button", { name: "Fork from here…" }).first().click();
      await harmless(page);
      await page
        .getByRole("dialog", { name: "Fork from this step?" })
        .getByRole("button", { name: "Fork job" })
        .click();
      await seen(page.getByText("Job forked."));
      await harmless(page);
    });
  });

  test("account names, endpoint names and responses are escaped", async () => {
    const { server } = stage;
    await server.call("POST", "/v1/tenants", { id: "bird", name: canary("tenant name") });
    await server.call("POST", "/v1/keys", { name: canary("key name"), tenant: "bird", scopes: ["read"] });
    const { id } = await server.call("POST", "/v1/endpoints", {
      url: `${receiver.url}/url"><img/src=x/onerror=alert(1)>`,
      description: canary("description"),
    });
    const { url } = await server.call("GET", `/v1/endpoints/${id}`);
    const job = await server.run("demo", {});
    const { deliveryId } = await eventually(async () => {
      const { deliveries } = await server.call("GET", `/v1/jobs/${job}/deliveries`);
      return deliveries.find((delivery) => delivery.error);
    }, "no receiver refused anything");
    await visiting(server, {}, async (page) => {
      for (const [path, ...texts] of [
        ["/ui/keys", canary("key name")],
        ["/ui/tenants", canary("tenant name")],
        ["/ui/webhooks", canary("description"), url],
        [`/ui/deliveries/${deliveryId}`, canary("answer")],
        [`/ui/jobs/${job}`],
        ["/ui/audit", JSON.stringify(canary("key name")), url],
        ["/ui/usage"],
        ["/"],
      ]) {
        await page.goto(path);
        await harmless(page, ...texts);
      }
    });
    await server.call("DELETE", `/v1/endpoints/${id}`);
  });

  test("query parameters and path segments are escaped", async () => {
    const id = await stage.server.run("demo", {});
    const asked = {
      "/": ["tenant", "did", "count", "nobody"],
      "/ui/jobs": [
        "status",
        "kind",
        "queue",
        "label",
        "since",
        "tenant",
        "q",
        "cursor",
        "limit",
        "did",
        "count",
        "nobody",
      ],
      [`/ui/jobs/${id}`]: ["tenant", "did", "count", "nobody"],
      "/ui/submit/demo": ["as", "did", "tenant"],
      "/ui/webhooks": ["status", "cursor", "did"],
      "/ui/keys": ["tenant", "cursor", "limit"],
      "/ui/tenants": ["cursor", "limit"],
      "/ui/usage": ["span", "tenant"],
      "/ui/audit": ["target", "tenant", "cursor"],
      "/ui/sign-in": ["next", "did"],
    };
    const value = canary("asked");
    await visiting(stage.server, {}, async (page, visitor) => {
      visitor.expectRefusals();
      for (const [path, names] of Object.entries(asked)) {
        for (const name of names) {
          await page.goto(`${path}?${new URLSearchParams({ [name]: value })}`);
          await harmless(page);
        }
      }
      await page.goto(`/ui/jobs?${new URLSearchParams({ q: value, label: `a=${value}` })}`);
      await harmless(page, value, `a=${value}`);
      await page.goto(`/ui/sign-in?${new URLSearchParams({ next: LINK })}`);
      await harmless(page);
      const part = encodeURIComponent(value);
      for (const path of [`/ui/jobs/${part}`, `/ui/submit/${part}`, `/ui/deliveries/${part}`, `/ui/${part}`]) {
        await page.goto(path);
        await harmless(page);
      }
    });
  });

  test("form values are escaped", async () => {
    await visiting(stage.server, {}, async (page, visitor) => {
      visitor.expectRefusals();
      await page.goto("/ui/submit/gated");
      await page.getByLabel("Input").fill(canary("written"));
      await page.getByText("Queue, idempotency key, labels and more").click();
      for (const name of ["Queue", "Idempotency key", "Priority", "Delay", "Labels"])
        await page.getByLabel(name).fill(canary(name));
      await page.getByRole("button", { name: "Submit job" }).click();
      await seen(page.getByRole("alert"));
      await harmless(page, ...["written", "Queue", "Idempotency key", "Priority", "Delay", "Labels"].map(canary));
      await page.goto("/ui/keys");
      await page.getByLabel("Name").fill(canary("new"));
      await page.getByLabel("Tenant").fill(canary("tenant"));
      await page.getByRole("checkbox", { name: "read" }).check();
      await page.getByRole("button", { name: "Create key" }).click();
      await page.waitForLoadState();
      await harmless(page);
      await page.goto("/ui/webhooks");
      await page.getByRole("form", { name: "Create endpoint" }).getByLabel("URL").fill(LINK);
      await page.getByRole("button", { name: "Create endpoint" }).click();
      await page.waitForLoadState();
      await harmless(page);
    });
  });
});
