// Renders with mermaid-cli's function in one browser that stays open, without the cost of starting it.
//
// Usage: node warm.mjs CHROMIUM <SOURCES   an array of texts in JSON; prints {"ms": […]}, without the first

import { text } from "node:stream/consumers";
import { renderMermaid } from "@mermaid-js/mermaid-cli";
import puppeteer from "puppeteer";

const sources = JSON.parse(await text(process.stdin));
const browser = await puppeteer.launch({ executablePath: process.argv[2], args: ["--no-sandbox"] });
const ms = [];
for (const source of sources) {
  const begun = performance.now();
  await renderMermaid(browser, source, "svg");
  ms.push(performance.now() - begun);
}
await browser.close();
console.log(JSON.stringify({ ms: ms.slice(1) }));
