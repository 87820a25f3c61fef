// The real binary with a folder of its own, and a client for its API.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

// Whatever becomes of the stories, no server outlives them.
const children = new Set();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

const STOP_MS = 10_000;
const WAIT_MS = 30_000;

/** A server that answers on a port of its own, with what `config` says. */
export async function serve(config = "") {
  const folder = mkdtempSync(join(tmpdir(), "longhaul-dashboard-"));
  const file = join(folder, "longhaul.toml");
  writeFileSync(file, config);
  // No settings from the environment of the test.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("LONGHAUL_")));
  const words = ["--json", "serve", "--listen", "127.0.0.1:0", "--data", join(folder, "data"), "--config", file];
  const child = spawn(process.env.LONGHAUL_BINARY, words, {
    // A story does not wait for running jobs at its end.
    env: { ...env, LONGHAUL_LOG_LEVEL: "error", LONGHAUL_WORKER_STOP_GRACE: "200ms" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.add(child);
  const ended = once(child, "exit").finally(() => children.delete(child));
  const line = await Promise.race([once(createInterface(child.stdout), "line"), ended.then(() => undefined)]);
  if (line === undefined) throw new Error(`the server did not start: ${words.join(" ")}`);
  const { url, adminKey } = JSON.parse(line[0]);
  return new Server(url.replace(/\/$/, ""), adminKey ?? undefined, async () => {
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    await ended;
    clearTimeout(late);
    rmSync(folder, { recursive: true, force: true });
  });
}

class Server {
  constructor(url, adminKey, stop) {
    Object.assign(this, { url, adminKey, stop });
  }

  /** Calls the API, by default with the admin key, and throws on an error response. */
  async call(method, path, body, { key = this.adminKey, headers = {} } = {}) {
    const answer = await fetch(this.url + path, {
      method,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  /** Submits a job and returns its id. */
  async submit(kind, input, { idempotencyKey, key, ...more } = {}) {
    const headers = idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey };
    const job = await this.call("POST", "/v1/jobs", { kind, input, ...more }, { key, headers });
    return job.jobId;
  }

  /** Returns a job once it has one of these statuses. */
  async until(id, ...statuses) {
    return eventually(
      async () => {
        const job = await this.call("GET", `/v1/jobs/${id}`);
        return statuses.includes(job.status) ? job : undefined;
      },
      `${id} is not ${statuses.join(" or ")}`,
    );
  }

  /** Submits a job and waits until it has finished. */
  async run(kind, input, more) {
    const id = await this.submit(kind, input, more);
    await this.until(id, "completed", "failed", "cancelled");
    return id;
  }
}

/** Polls `look` until it returns a value. */
export async function eventually(look, otherwise) {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > deadline) throw new Error(otherwise);
    // The polling interval; the condition decides when to stop.
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
