// Pages of other sites at a server that requires no keys: they can neither use it nor read from it, while links to the
// dashboard, pages behind the gateway and pages of configured origins work.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";

import { browsing } from "../browser.mjs";
import { serve } from "../server.mjs";

/** Starts an HTTP server on a free port; `pages` maps paths to content types and bodies. */
async function site(pages) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    const [type, body] = pages[new URL(request.url, "http://x").pathname] ?? ["text/plain", ""];
    response.writeHead(200, { "content-type": type }).end(body);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: server.address().port, requests, stop: () => server.close() };
}

const PROXIED_PAGE = `<!doctype html><link rel="stylesheet" href="/reports/style.css"><h1>Report</h1>
<form method="post" action="/reports/send"><button>Send</button></form>
<script>
  const calls = ["/v1/jobs", "/v1/kinds/demo/jobs"].map((path) =>
    [path, location.origin.replace("report.gateway.localhost", "127.0.0.1") + path].map((url) =>
      fetch(url, { method: "POST", mode: "no-cors", body: '{"kind":"demo","input":{}}' }).catch(() => {}))).flat();
  Promise.all(calls).then(() => document.body.dataset.done = "yes");
</script>`;

describe("other sites", () => {
  let server, upstream, evil, app;
  before(async () => {
    upstream = await site({
      "/report": ["text/html", PROXIED_PAGE],
      "/report/style.css": ["text/css", "h1 { color: rgb(1, 2, 3) }"],
      "/report/send": ["text/html", "<h1>Sent</h1>"],
    });
    evil = await site({ "/": ["text/html", "<!doctype html><title>Evil</title><body></body>"] });
    app = await site({ "/": ["text/html", "<!doctype html><title>App</title>"] });
    server = await serve(`
[http]
cors_origins = ["http://app.example:${app.port}"]
[kinds.report]
http = { url = "http://127.0.0.1:${upstream.port}/report", method = "GET" }
[[proxy]]
path = "/reports"
kind = "report"
mode = "sync"
`);
  });
  after(async () => {
    await server?.stop();
    for (const each of [upstream, evil, app]) each?.stop();
  });

  const jobs = async () => (await server.call("GET", "/v1/jobs")).jobs;

  test("page of another site cannot send anything", () =>
    browsing(async (page) => {
      await page.goto(`http://evil.example:${evil.port}/`);
      let sent = 0;
      const statuses = [];
      page.on("request", (request) => (sent += request.url().startsWith(server.url) ? 1 : 0));
      // Chromium reports no status of a response that Cross-Origin-Resource-Policy keeps from the page.
      page.on("response", (response) => {
        if (response.url().startsWith(server.url)) statuses.push(response.status());
      });
      const outcomes = await page.evaluate(async (url) => {
        const settled = (element, attributes) =>
          new Promise((resolve) => {
            Object.assign(element, { onload: () => resolve("loaded"), onerror: () => resolve("failed") }, attributes);
            document.body.append(element);
          });
        const send = (path, init) =>
          fetch(url + path, { mode: "no-cors", ...init }).then((answer) => answer.type, () => "failed");
        const posts = ["/v1/kinds/demo/jobs", "/v1/jobs", "/v1/queues/default/pause", "/reports", "/render"];
        const outcomes = [];
        for (const path of posts) {
          outcomes.push(await send(path, { method: "POST" }));
          outcomes.push(await send(path, { method: "POST", body: '{"kind":"demo","input":{}}' }));
          outcomes.push(await send(path, { method: "POST", body: new URLSearchParams({ a: "1" }) }));
          navigator.sendBeacon(url + path, "{}");
          const frame = document.createElement("iframe");
          frame.name = `frame${path}`;
          const form = document.createElement("form");
          Object.assign(form, { method: "post", action: url + path, enctype: "text/plain", target: frame.name });
          form.append(Object.assign(document.createElement("input"), { name: '{"kind":"demo","x":"', value: '"}' }));
          document.body.append(form);
          const framed = settled(frame, {});
          form.submit();
          outcomes.push(await framed);
        }
        for (const path of ["/reports", "/v1/jobs", "/ui/jobs"]) {
          outcomes.push(await settled(document.createElement("img"), { src: url + path }));
          outcomes.push(await settled(document.createElement("script"), { src: url + path }));
          outcomes.push(await settled(document.createElement("iframe"), { src: url + path }));
          outcomes.push(await send(path, { mode: "cors" }));
        }
        return outcomes;
      }, server.url);
      assert.ok(outcomes.length > 30 && sent > 30, `${sent} requests were sent`);
      assert.deepEqual([...new Set(statuses)], [403]);
      assert.deepEqual(await jobs(), []);
      assert.deepEqual(upstream.requests, []);
      const { queues } = await server.call("GET", "/v1/queues");
      assert.ok(queues.every((queue) => !queue.paused), JSON.stringify(queues));
    }));

  test("name of another site that resolves to this machine is rejected", () =>
    browsing(async (page) => {
      const { port } = new URL(server.url);
      for (const path of ["/", "/v1/jobs", "/reports", "/docs"]) {
        const response = await page.goto(`http://rebound.example:${port}${path}`);
        assert.equal(response.status(), 421, path);
      }
      assert.deepEqual(upstream.requests, []);
    }));

  test("link of another site opens the dashboard but no page behind the gateway", () =>
    browsing(async (page) => {
      for (const [path, status] of [["/ui/jobs", 200], ["/docs", 200], ["/reports", 403]]) {
        await page.goto(`http://evil.example:${evil.port}/`);
        const link = `<a href="${server.url}${path}">link</a>`;
        await page.evaluate((html) => (document.body.innerHTML = html), link);
        const [response] = await Promise.all([page.waitForNavigation(), page.click("a")]);
        assert.equal(response.status(), status, path);
      }
    }));

  test("page behind the gateway loads its style sheet and sends its form, but cannot use the API", () =>
    browsing(async (page) => {
      assert.equal((await page.goto(`${server.url}/reports`)).status(), 200);
      assert.equal(new URL(page.url()).hostname, "report.gateway.localhost");
      await page.waitForSelector("body[data-done]");
      const colour = await page.evaluate(() => getComputedStyle(document.querySelector("h1")).color);
      assert.equal(colour, "rgb(1, 2, 3)");
      await page.click("button");
      await page.waitForSelector("h1:text('Sent')");
      assert.deepEqual([...new Set((await jobs()).map((job) => job.kind))], ["report"]);
    }));

  test("page of a configured origin calls the API", () =>
    browsing(async (page) => {
      await page.goto(`http://app.example:${app.port}/`);
      const status = await page.evaluate(async (url) => {
        const headers = { "content-type": "application/json", "idempotency-key": "from-the-app" };
        const body = JSON.stringify({ kind: "demo", input: {} });
        return (await fetch(`${url}/v1/jobs`, { method: "POST", headers, body })).status;
      }, server.url);
      assert.equal(status, 202);
    }));
});
