// Puts the pictures of docs/diagrams that Longhaul drew beside those that mermaid itself draws in chromium.
//
// Usage: node e2e/comparison/sheet.mjs MODULES OUT
//
// scripts/gallery.py has left ours in OUT/gallery. Writes OUT/render-comparison-light.png and -dark.png, to be
// looked at. Fails if a label is missing on either side or cut in ours, if the two are shaped quite differently, or
// if a picture asks for anything from elsewhere. Pixels are not compared: both lay out text with engines of their own.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

import { browserPath, skip } from "../chromium.mjs";

const [modules, out] = process.argv.slice(2).map((path) => resolve(path));
const { chromium } = createRequire(join(modules, "x.js"))("playwright-core");
const mermaidBundle = join(modules, "mermaid", "dist", "mermaid.min.js");
const samples = resolve(import.meta.dirname, "../../docs/diagrams");

// How many times as wide for its height one picture may be as the other.
const ASPECT_MAX = 2;
// How much of its height a text may reach over the edge: the room above and below letters is part of its box.
const CUT_MAX = 0.3;
// What a gantt chart is as wide as. Ours take this for granted.
const PAGE_WIDTH = 800;
// What ours are measured with, so that differences are not those of fonts.
const FONT = "DejaVu Sans, Verdana, sans-serif";
const SCHEMES = {
  light: { theme: "default", background: "#ffffff", ink: "#222222", line: "#dddddd" },
  dark: { theme: "dark", background: "#1e1e2e", ink: "#dddddd", line: "#444455" },
};

const wrong = [];

function ours(file, scheme, ending) {
  return readFileSync(join(out, "gallery", `${file.replace(/\..*/, "")}-${scheme}.${ending}`));
}

// Runs inside of the page.
async function drawByMermaid([id, source, theme, font]) {
  mermaid.initialize({
    startOnLoad: false,
    theme,
    look: "classic",
    fontFamily: font,
    themeVariables: { fontFamily: font },
  });
  const { svg } = await mermaid.render(id, source);
  // As XML, since HTML inside of it need not be that, and an image has to be.
  const root = new DOMParser().parseFromString(svg, "text/html").querySelector("svg");
  return new XMLSerializer().serializeToString(root);
}

// Runs inside of the page: what an SVG says, without its spaces, and its shape.
function read(svg) {
  const root = new DOMParser().parseFromString(svg, "text/html").querySelector("svg");
  const [, , width, height] = root.getAttribute("viewBox").split(/[ ,]+/).map(Number);
  for (const style of root.querySelectorAll("style")) style.remove();
  return { text: root.textContent.replace(/\s+/g, ""), aspect: width / height };
}

// Runs inside of the page: texts of an SVG that its edges cut.
function cut([svg, slack]) {
  document.body.innerHTML = svg;
  const root = document.querySelector("svg");
  const edges = root.getBoundingClientRect();
  const outside = [...root.querySelectorAll("text, use")].filter((element) => {
    const box = element.getBoundingClientRect();
    const beside = Math.max(edges.left - box.left, box.right - edges.right);
    const above = Math.max(edges.top - box.top, box.bottom - edges.bottom);
    // What is only defined, to be shown elsewhere, has no width.
    return box.width > 0 && Math.max(beside, above) > slack * box.height;
  });
  const texts = outside.map((element) => (document.querySelector(element.getAttribute("href")) ?? element).textContent);
  root.remove();
  return texts;
}

function compare(sample, scheme, sides) {
  for (const [side, { text }] of Object.entries(sides)) {
    const missing = sample.labels.filter((label) => !text.includes(label.replace(/\s+/g, "")));
    if (missing.length > 0) wrong.push(`${sample.file}, ${scheme}: not in ${side}: ${missing.join(", ")}`);
  }
  if (sides.theirs === undefined) return;
  const ratio = sides.ours.aspect / sides.theirs.aspect;
  if (Math.max(ratio, 1 / ratio) > ASPECT_MAX) {
    wrong.push(`${sample.file}, ${scheme}: ${ratio.toFixed(2)} times as wide for its height as mermaid's`);
  }
}

const escaped = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
const image = (type, bytes) => `<img src="data:${type};base64,${Buffer.from(bytes).toString("base64")}">`;

function sheet(rows, { background, ink, line }) {
  const heads = ["", "ours, SVG", "ours, PNG", "mermaid’s own"].map((head) => `<th>${head}</th>`).join("");
  return `<!doctype html><meta charset="utf-8"><style>
    body { margin: 16px; background: ${background}; color: ${ink}; font: 16px ${FONT}; }
    table { border-collapse: collapse; table-layout: fixed; width: 1968px; }
    th, td { border: 1px solid ${line}; padding: 8px; text-align: center; }
    th:first-child { width: 130px; overflow-wrap: break-word; }
    td { height: 200px; }
    img { max-width: 100%; max-height: 560px; width: 100%; object-fit: contain; }
  </style><table><tr>${heads}</tr>${rows.join("")}</table>`;
}

async function main() {
  const executablePath = browserPath();
  if (executablePath === undefined) {
    skip("comparison with mermaid");
    return;
  }
  const index = JSON.parse(readFileSync(join(samples, "index.json"), "utf8"));
  const compared = index.filter(({ file, refused }) => file.endsWith(".mmd") && refused === undefined);
  // Root has no sandbox to start it in; what it draws are our own samples.
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const context = await browser.newContext({ viewport: { width: 2000, height: 900 }, offline: true });
  const asked = [];
  context.on("request", (request) => asked.push(request.url()));
  const page = await context.newPage();
  await page.setViewportSize({ width: PAGE_WIDTH, height: 900 });
  await page.addScriptTag({ path: mermaidBundle });
  for (const [scheme, colours] of Object.entries(SCHEMES)) {
    const rows = [];
    for (const sample of compared) {
      const svg = ours(sample.file, scheme, "svg").toString();
      const png = ours(sample.file, scheme, "png");
      const sides = { ours: await page.evaluate(read, svg) };
      const texts = await page.evaluate(cut, [svg, CUT_MAX]);
      if (texts.length > 0) wrong.push(`${sample.file}, ${scheme}: cut at the edge: ${texts.join(", ")}`);
      let cell = escaped(sample.plugin ?? "");
      if (sample.plugin === undefined) {
        const source = readFileSync(join(samples, sample.file), "utf8");
        const id = sample.file.replace(".", "-");
        const theirs = await page.evaluate(drawByMermaid, [id, source, colours.theme, FONT]);
        sides.theirs = await page.evaluate(read, theirs);
        cell = image("image/svg+xml", theirs);
      }
      compare(sample, scheme, sides);
      const cells = [image("image/svg+xml", svg), image("image/png", png), cell];
      rows.push(`<tr><th>${escaped(sample.title)}</th>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`);
    }
    const shown = await context.newPage();
    await shown.setContent(sheet(rows, colours), { waitUntil: "load" });
    await shown.screenshot({ path: join(out, `render-comparison-${scheme}.png`), fullPage: true });
    await shown.close();
  }
  await browser.close();
  wrong.push(...asked.filter((url) => !url.startsWith("data:")).map((url) => `asked for ${url.slice(0, 100)}`));
  for (const line of wrong) console.error(`comparison with mermaid: ${line}`);
  if (wrong.length > 0) process.exitCode = 1;
  else console.log(`comparison with mermaid: ${compared.length} types, see ${out}/render-comparison-light.png`);
}

await main();
