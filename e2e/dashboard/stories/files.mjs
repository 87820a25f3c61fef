import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";

import { visiting } from "../browser.mjs";
import { seen } from "../assertions.mjs";
import { controlledServer } from "../controlled_server.mjs";

const BYTES = 600_000;
const BYTES_PER_S = 400_000;
const DIAGRAM = { source: "flowchart LR\n A-->B", format: "mermaid", outputType: "svg" };

describe("payloads, artifacts and texts", () => {
  let stage;
  before(async () => {
    stage = await controlledServer();
  });
  after(async () => {
    await stage?.stop();
  });

  test("a payload upload shows its progress and reaches the job", async () => {
    await visiting(stage.server, {}, async (page, visitor) => {
      await page.goto("/ui/submit/count-bytes");
      await page
        .getByLabel("Payload")
        .setInputFiles({ name: "scan.pdf", mimeType: "application/pdf", buffer: Buffer.alloc(BYTES, 7) });
      // A slow connection, so that the progress bar is visible.
      const line = await visitor.context.newCDPSession(page);
      await line.send("Network.enable");
      await line.send("Network.emulateNetworkConditions", {
        offline: false,
        latency: 0,
        downloadThroughput: -1,
        uploadThroughput: BYTES_PER_S,
      });
      await page.getByRole("button", { name: "Submit job" }).click();
      const progress = page.getByRole("progressbar", { name: "Upload" });
      await seen(progress);
      await page.waitForFunction(() => {
        const { value } = document.querySelector("[data-progress]") ?? {};
        return value > 0 && value < 100;
      });
      await seen(page.locator("#head .headline").getByText("completed"), page.locator("#result").getByText(`${BYTES}`));
      await seen(
        page.getByText("The payload is deleted"),
        page.locator("#receipt").getByText("payload", { exact: true }),
      );
    });
  });

  test("an image artifact has a preview and a download", async () => {
    const id = await stage.server.run("render", DIAGRAM);
    await visiting(stage.server, { acceptDownloads: true }, async (page, visitor) => {
      await page.goto(`/ui/jobs/${id}`);
      const picture = page.getByRole("img", { name: /^Preview of / });
      await picture.scrollIntoViewIfNeeded();
      await page.waitForFunction(() => document.querySelector("#artifacts img").naturalWidth > 0);
      const link = page
        .locator("#artifacts")
        .getByRole("link", { name: /\.svg$/ })
        .last();
      const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
      assert.match(readFileSync(await download.path(), "utf8"), /<svg/);
      // Opened by its URL, it does not run as a page of this server either.
      const answer = await visitor.context.request.get(await link.getAttribute("href"));
      assert.equal(answer.headers()["content-disposition"].split(";")[0], "attachment");
      assert.match(answer.headers()["content-security-policy"], /sandbox/);
    });
  });

  test("inputs and results are shown as a tree, copied and downloaded", async () => {
    const input = { result: { deep: { er: [1, { last: "of all" }] }, number: 12345678901234567890n.toString() } };
    const id = await stage.server.run("demo", input);
    await visiting(
      stage.server,
      { acceptDownloads: true, permissions: ["clipboard-read", "clipboard-write"] },
      async (page) => {
        await page.goto(`/ui/jobs/${id}`);
        const result = page.locator("#result");
        await seen(result.getByText("12345678901234567890"));
        await result.getByRole("button", { name: "Copy" }).click();
        await seen(result.getByRole("button", { name: "Copied" }));
        const copied = await page.evaluate(() => navigator.clipboard.readText());
        assert.deepEqual(JSON.parse(copied), input.result);
        const [download] = await Promise.all([
          page.waitForEvent("download"),
          page.locator("#input").getByRole("link", { name: "Download" }).click(),
        ]);
        assert.deepEqual(JSON.parse(readFileSync(await download.path(), "utf8")), input);
      },
    );
  });
});
