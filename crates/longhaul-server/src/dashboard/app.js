// Progressive enhancement of the pages: local times, live updates, keyboard shortcuts, selections and uploads.
// Pages work without it, and it inserts only HTML that the server rendered.
"use strict";

(() => {
  const REFRESH_MS = 4000;
  const AFTER_EVENT_MS = 400;
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // --- times in the viewer's time zone ---

  const parts = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const thisYear = new Intl.DateTimeFormat(undefined, parts);
  const anyYear = new Intl.DateTimeFormat(undefined, { year: "numeric", ...parts });

  function localTimes(root) {
    for (const time of all("time[datetime]", root)) {
      const at = new Date(time.dateTime);
      const clock = at.getFullYear() === new Date().getFullYear() ? thisYear : anyYear;
      if (!Number.isNaN(at.getTime())) time.textContent = clock.format(at);
    }
  }

  // --- selections ---

  function countSelected() {
    for (const label of all("[data-selected]")) {
      const name = label.dataset.selected;
      const boxes = all(`input[type=checkbox][name="${name}"]`);
      const count = boxes.filter((box) => box.checked).length;
      label.textContent = count === 0 ? "No jobs selected" : count === 1 ? "1 job selected" : `${count} jobs selected`;
      const whole = document.querySelector(`[data-all="${name}"]`);
      if (whole) {
        whole.checked = count > 0 && count === boxes.length;
        whole.indeterminate = count > 0 && count < boxes.length;
      }
      for (const button of all('button[name=which][value=selected]')) {
        button.disabled = count === 0;
        button.textContent = count === 0 ? `${button.dataset.verb} selected` : `${button.dataset.verb} ${count} selected`;
      }
    }
  }

  document.addEventListener("change", (event) => {
    const name = event.target.dataset && event.target.dataset.all;
    if (name) for (const box of all(`input[type=checkbox][name="${name}"]`)) box.checked = event.target.checked;
    countSelected();
  });

  // --- copying ---

  async function copy(button, text) {
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Cannot copy";
    }
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-of]");
    if (!button) return;
    if (button.dataset.copyOf) return copy(button, document.getElementById(button.dataset.copyOf).textContent);
    const response = await fetch(button.dataset.copy);
    if (response.ok) copy(button, await response.text());
  });

  // --- live updates: replaces sections with the server's current HTML of this page ---

  const seen = new Map();
  let refreshing = false;

  // Keeps a section while the viewer types, selects text or has a dialog open in it.
  function isBusy(part) {
    const at = document.activeElement;
    const types = part.contains(at) && at.matches("input:not([type=checkbox]), textarea, select");
    return types || part.querySelector(":popover-open") !== null || String(getSelection()).length > 0;
  }

  function replace(part, fresh) {
    const open = new Map(all("details[id]", part).map((one) => [one.id, one.open]));
    const checked = new Set(all("input[type=checkbox]", part).filter((box) => box.checked).map((box) => `${box.name} ${box.value}`));
    const at = part.contains(document.activeElement) ? document.activeElement : null;
    const again = at && (at.id ? `#${CSS.escape(at.id)}` : at.matches("a[href]") ? `a[href="${CSS.escape(at.getAttribute("href"))}"]` : null);
    const row = part.querySelector("tr.current");
    const scrolled = all(".scroll", part).map((one) => one.scrollLeft);
    part.replaceWith(fresh);
    for (const one of all("details[id]", fresh)) if (open.has(one.id)) one.open = open.get(one.id);
    for (const box of all("input[type=checkbox]", fresh)) if (checked.has(`${box.name} ${box.value}`)) box.checked = true;
    all(".scroll", fresh).forEach((one, index) => { one.scrollLeft = scrolled[index] || 0; });
    if (row) for (const one of all("tr[data-row]", fresh)) one.classList.toggle("current", one.dataset.row === row.dataset.row);
    localTimes(fresh);
    countSelected();
    const focused = again && fresh.querySelector(again);
    if (focused) focused.focus({ preventScroll: true });
  }

  async function refresh() {
    const parts = all("[data-live][id]");
    if (refreshing || parts.length === 0) return;
    refreshing = true;
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" } });
      if (response.redirected && new URL(response.url).pathname !== location.pathname) return location.assign(response.url);
      if (!response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      for (const part of parts) {
        const fresh = page.getElementById(part.id);
        if (!fresh || fresh.outerHTML === seen.get(part.id) || isBusy(part)) continue;
        seen.set(part.id, fresh.outerHTML);
        replace(part, document.adoptNode(fresh));
      }
    } catch {
      // The server is unreachable. The page stays as it is until the next attempt.
    } finally {
      refreshing = false;
    }
  }

  // Slow pages are refreshed less often, so that they take at most a tenth of the time.
  async function again(tookMs = 0) {
    await new Promise((done) => setTimeout(done, Math.max(REFRESH_MS, 10 * tookMs)));
    const began = performance.now();
    if (!document.hidden) await refresh();
    again(performance.now() - began);
  }

  function keepFresh() {
    for (const part of all("[data-live][id]")) seen.set(part.id, part.outerHTML);
    const job = document.querySelector("[data-events]");
    if (job) return watch(job.dataset.events);
    if (document.getElementById("job")) return;
    if (seen.size > 0) again();
    document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  }

  // Refreshes the page on each event of the job, at most every AFTER_EVENT_MS.
  function watch(url) {
    let due = null;
    const soon = () => {
      if (due === null) due = setTimeout(() => { due = null; refresh(); }, AFTER_EVENT_MS);
    };
    const events = new EventSource(url);
    events.addEventListener("job", (event) => {
      soon();
      if (["completed", "failed", "cancelled"].includes(JSON.parse(event.data).status)) {
        events.close();
        // Deliveries and the receipt change shortly after the job finishes.
        setTimeout(refresh, 2 * REFRESH_MS);
      }
    });
    addEventListener("pagehide", () => events.close());
  }

  // --- keyboard shortcuts ---

  let before = "";

  function step(by) {
    const rows = all("tr[data-row]");
    if (rows.length === 0) return;
    const here = rows.findIndex((row) => row.classList.contains("current"));
    const next = here < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, here + by));
    for (const row of rows) row.classList.remove("current");
    const row = rows[next];
    row.classList.add("current");
    row.scrollIntoView({ block: "nearest" });
    const link = row.querySelector("a[href]");
    if (link) link.focus({ preventScroll: true });
  }

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    x: () => {
      const box = document.querySelector("tr.current input[type=checkbox]");
      if (box) box.click();
    },
    "/": () => document.getElementById("search") && document.getElementById("search").focus(),
    "?": () => document.getElementById("keyboard").showModal(),
    "g o": () => location.assign("/"),
    "g j": () => location.assign("/ui/jobs"),
    "g s": () => location.assign("/ui/submit"),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input:not([type=checkbox]), textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const pressed = keys[`${before} ${event.key}`] || keys[event.key];
    before = event.key;
    if (!pressed) return;
    event.preventDefault();
    pressed();
  });

  // --- uploads with a progress bar ---

  function upload(event) {
    const form = event.target;
    const file = form.querySelector("input[type=file]");
    if (!file || file.files.length === 0) return;
    event.preventDefault();
    const progress = form.querySelector("[data-progress]");
    const button = form.querySelector("button.primary");
    progress.hidden = false;
    button.disabled = true;
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.setRequestHeader("accept", "text/html");
    request.upload.addEventListener("progress", (sent) => {
      if (sent.lengthComputable) progress.value = (100 * sent.loaded) / sent.total;
    });
    request.addEventListener("load", () => {
      if (request.status < 400) return location.assign(request.responseURL);
      const page = new DOMParser().parseFromString(request.responseText, "text/html");
      document.querySelector("main").replaceWith(document.adoptNode(page.querySelector("main")));
      begin(document);
    });
    request.addEventListener("error", () => {
      button.disabled = false;
      progress.hidden = true;
    });
    request.send(new FormData(form));
  }

  function begin(root) {
    localTimes(root);
    countSelected();
    for (const form of all("form[data-upload]", root)) form.addEventListener("submit", upload);
  }

  begin(document);
  // Removes the notice from the URL, so that a reload does not show it again.
  const url = new URL(location.href);
  if (url.searchParams.has("did")) {
    url.searchParams.delete("did");
    url.searchParams.delete("count");
    history.replaceState(null, "", url);
  }
  keepFresh();
})();
