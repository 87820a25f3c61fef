import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { visiting } from "../browser.mjs";
import { absent, confirm, gone, seen } from "../assertions.mjs";
import { eventually, serve } from "../server.mjs";

describe("sign-in, keys and tenants", () => {
  let server;
  before(async () => {
    server = await serve("[auth]\nrequire_keys = true\n");
  });
  after(async () => {
    await server?.stop();
  });

  const newKey = (body) => server.call("POST", "/v1/keys", body);

  test("an unknown key is rejected at the sign-in", async () => {
    await visiting(server, {}, async (page, visitor) => {
      await page.goto("/ui/jobs?status=failed");
      assert.equal(new URL(page.url()).pathname, "/ui/sign-in");
      await absent(page.getByRole("navigation"), page.getByRole("button", { name: "Sign out" }));
      visitor.expectRefusal(401);
      await page.getByLabel("API key").fill("lh_nobody");
      await page.getByRole("button", { name: "Sign in" }).click();
      await seen(page.getByRole("alert").getByText("This key is unknown"));
      await page.getByLabel("API key").fill(server.adminKey);
      await page.getByRole("button", { name: "Sign in" }).click();
      // The sign-in leads back to the requested page.
      await page.waitForURL((url) => url.pathname === "/ui/jobs" && url.search === "?status=failed");
    });
  });

  test("the session cookie is secure, HTTP only and for this host only", async () => {
    await visiting(server, {}, async (page, visitor) => {
      await visitor.signIn(server.adminKey);
      const [cookie, ...others] = await visitor.context.cookies();
      assert.deepEqual(others, []);
      const { name, path, httpOnly, secure, sameSite } = cookie;
      assert.deepEqual(
        { name, path, httpOnly, secure, sameSite },
        { name: "__Host-longhaul", path: "/", httpOnly: true, secure: true, sameSite: "Strict" },
      );
      assert.ok(!cookie.value.includes(server.adminKey));
      assert.equal(await page.evaluate(() => document.cookie), "");
      // The API ignores the cookie.
      visitor.expectRefusal(401);
      assert.equal(await page.evaluate(async () => (await fetch("/v1/jobs")).status), 401);
    });
  });

  test("a read-only key sees no actions and cannot perform them", async () => {
    const { key } = await newKey({ name: "reader", scopes: ["read"] });
    const failed = await server.run("demo", { fail: "for reading" }, { maxAttempts: 1 });
    const running = await server.submit("demo", { sleep: "10m" }, { queue: "slow" });
    await server.until(running, "running");
    await visiting(server, {}, async (page, visitor) => {
      await visitor.signIn(key);
      const menu = page.getByRole("navigation", { name: "Pages" });
      await seen(menu.getByRole("link", { name: "Jobs" }));
      for (const name of ["Submit", "Keys", "Tenants", "Audit"])
        await absent(menu.getByRole("link", { name, exact: true }));
      const change = page.getByRole("button", {
        name: /Cancel|Resume|Fork|Purge|Pause|Resend|Create|Delete|Disable|Enable/,
      });
      for (const path of ["/", "/ui/jobs", `/ui/jobs/${failed}`, `/ui/jobs/${running}`, "/ui/webhooks"]) {
        await page.goto(path);
        await seen(page.locator("h1"));
        await absent(change, page.getByRole("checkbox", { name: /Select/ }));
      }
      await page.goto(`/ui/jobs/${running}`);
      const token = await page.locator("input[name=token]").first().inputValue();
      for (const path of [
        `/ui/jobs/${running}/cancel`,
        `/ui/jobs/${failed}/resume`,
        `/ui/jobs/${failed}/purge`,
        "/ui/queues/slow/pause",
        "/ui/keys",
      ]) {
        visitor.expectRefusal(403);
        assert.equal(await post(page, path, token), 403, path);
      }
      visitor.expectRefusal(403);
      await page.goto("/ui/keys");
      await seen(page.getByText("403"));
    });
    assert.equal((await server.call("GET", `/v1/jobs/${running}`)).status, "running");
    assert.equal((await server.call("GET", `/v1/jobs/${failed}`)).status, "failed");
    await server.call("POST", `/v1/jobs/${running}/cancel`);
  });

  test("a form without a valid token changes nothing", async () => {
    const id = await server.submit("demo", {}, { delay: "1h" });
    await visiting(server, {}, async (page, visitor) => {
      await visitor.signIn(server.adminKey, `/ui/jobs/${id}`);
      const token = await page.locator("input[name=token]").first().inputValue();
      await page.getByRole("button", { name: "Sign out" }).click();
      await visitor.signIn(server.adminKey, `/ui/jobs/${id}`);
      for (const wrong of ["", "x", token]) {
        visitor.expectRefusal(403);
        assert.equal(await post(page, `/ui/jobs/${id}/cancel`, wrong), 403);
      }
    });
    assert.equal((await server.call("GET", `/v1/jobs/${id}`)).status, "pending");
  });

  test("a sign-out ends the session", async () => {
    await visiting(server, {}, async (page, visitor) => {
      await visitor.signIn(server.adminKey, "/ui/keys");
      await page.getByRole("button", { name: "Sign out" }).click();
      await seen(page.getByText("You are signed out."));
      assert.deepEqual(await visitor.context.cookies(), []);
      await page.goto("/ui/keys");
      await seen(page.getByLabel("API key"));
    });
  });

  test("a session ends when its key is revoked or expires", async () => {
    const revoked = await newKey({ name: "leaver", scopes: ["read"] });
    await visiting(server, {}, async (page, visitor) => {
      await visitor.signIn(revoked.key, "/ui/jobs");
      await server.call("DELETE", `/v1/keys/${revoked.id}`);
      // The open page notices it without a reload.
      await seen(page.getByText("Your session has ended."));
      visitor.expectRefusal(401);
      await page.getByLabel("API key").fill(revoked.key);
      await page.getByRole("button", { name: "Sign in" }).click();
      await seen(page.getByRole("alert"));
    });
    const expiresAt = new Date(Date.now() + 2_000).toISOString();
    const brief = await newKey({ name: "visitor of a day", scopes: ["read"], expiresAt });
    await visiting(server, {}, async (page, visitor) => {
      await visitor.signIn(brief.key, "/ui/jobs");
      await seen(page.getByText("Your session has ended."));
    });
  });

  test("a sign-in does not redirect to another site", async () => {
    await visiting(server, {}, async (page, visitor) => {
      await visitor.signIn(server.adminKey, "/ui/sign-in?next=https%3A%2F%2Fexample.com%2F");
      assert.equal(page.url(), `${server.url}/`);
    });
  });

  test("a new key is shown once", async () => {
    await visiting(server, {}, async (page, visitor) => {
      await visitor.signIn(server.adminKey, "/ui/keys");
      await page.getByLabel("Name").fill("night shift");
      await page.getByRole("checkbox", { name: "read" }).check();
      await page.getByLabel("Expires after").fill("90d");
      await page.getByRole("button", { name: "Create key" }).click();
      await seen(page.getByText("Copy it now: it is not shown again."));
      const key = await page.locator("#new-secret").textContent();
      assert.match(key, /^lh_/);
      await server.call("GET", "/v1/jobs", undefined, { key });
      await page.goto("/ui/keys");
      const row = page.getByRole("row").filter({ hasText: "night shift" });
      await seen(row.getByText("read"));
      assert.ok(!(await page.content()).includes(key));
      await confirm(page, row.getByRole("button", { name: "Revoke…" }), "Revoke this key?", "Revoke key");
      await seen(row.getByText("Revoked"));
      await eventually(async () => {
        const tried = await fetch(`${server.url}/v1/jobs`, { headers: { authorization: `Bearer ${key}` } });
        return tried.status === 401 ? true : undefined;
      }, "the revoked key still works");
    });
  });

  test("an admin creates a tenant, views its jobs and suspends it", async () => {
    await visiting(server, {}, async (page, visitor) => {
      await visitor.signIn(server.adminKey, "/ui/tenants");
      await page.getByLabel("Id").fill("globex");
      await page.getByLabel("Name").fill("Globex GmbH");
      await page.getByRole("button", { name: "Create tenant" }).click();
      await seen(page.getByText("Tenant created."));
      const { key } = await newKey({ name: "globex", tenant: "globex", scopes: ["submit", "read"] });
      const theirs = await server.submit("demo", {}, { key, delay: "1h" });
      await page.getByRole("link", { name: "globex" }).click();
      await seen(page.getByText("Viewing tenant"), page.getByRole("link", { name: theirs }));
      await page.getByRole("link", { name: theirs }).click();
      await seen(page.locator("#head").getByText("pending"));
      await page.getByRole("link", { name: "Return to default" }).click();
      await gone(page.getByText("Viewing tenant"));
      await absent(page.getByRole("link", { name: theirs }));
      await page.goto("/ui/tenants");
      const row = page.getByRole("row").filter({ hasText: "Globex GmbH" });
      await row.getByRole("combobox").selectOption("suspended");
      await row.getByRole("button", { name: "Change" }).click();
      await seen(page.getByText("Subscription changed."), row.getByText("since"));
      await page.goto("/ui/audit");
      await seen(page.getByRole("row").filter({ hasText: "tenant.change" }));
    });
  });
});

/** Posts a form without its page. */
function post(page, path, token) {
  return page.evaluate(
    async ([path, token]) => (await fetch(path, { method: "POST", body: new URLSearchParams({ token }) })).status,
    [path, token],
  );
}
