// Seed data for screenshots and page checks: jobs of several kinds, some of them failed, a paused queue, and
// webhook receivers that are down.

import { receive } from "./webhook_receiver.mjs";
import { eventually, serve } from "./server.mjs";

const CONFIG = String.raw`
replica = "eu-west-1a"
[auth]
require_keys = true
[egress]
allow = ["127.0.0.1/32"]
[webhooks]
first_retry = "100ms"
[queues.mail]
running_max = 10
rate = "100/1m"
[kinds.mail-send]
command = ["sh", "-c", '''cat >/dev/null; echo '{"accepted": 1, "messageId": "<20261116.7@mail.example>"}'
''']
queue = "mail"
[kinds.invoice-pdf]
command = ["sh", "-c", '''
cat >/dev/null
cat >&2 <<'END'
reading order 4711
psql: could not connect to server: Connection refused
        Is the server running on host "db-2.internal" and accepting connections on port 5432?
END
exit 75''']
max_attempts = 2
retry_first = "50ms"
queue = "billing"
[kinds.transcode]
command = ["sh", "-c", '''
cat >/dev/null; echo '::phase encoding' >&2; echo '::progress 31/120 frame 7440 of 28800' >&2; exec sleep 600''']
queue = "video"
concurrency = 3
[kinds.nightly-report]
steps = [
  { name = "extract", command = ["sh", "-c", '''sleep 0.3; echo '{"rows": 48213, "tables": ["orders", "customers"]}'
'''] },
  { name = "aggregate", command = ["sh", "-c", '''sleep 0.9; echo '{"groups": 312}'
'''] },
  { name = "publish", command = ["sh", "-c", '''
sleep 0.2; printf 'day,orders\n2026-11-15,48213\n' > $LONGHAUL_ARTIFACTS/orders.csv
echo '{"url": "https://reports.example/2026-11-15"}'
'''] },
]
queue = "reports"
[kinds.scan]
command = ["sh", "-c", '''cat >/dev/null; echo '{"pages": 12, "language": "de"}'
''']
payload = true
`;

const DIAGRAM =
  "flowchart LR\n  Order[Order placed] --> Pay{Paid?}\n  Pay -->|yes| Ship[Ship it]\n  Pay -->|no| Remind[Remind]";
const CUSTOMERS = ["acme", "globex", "initech", "umbrella"];

/** Its server, and the ids that pages are opened with. */
export async function seedServer() {
  const server = await serve(CONFIG);
  const receiver = await receive(({ url }) => (url.startsWith("/down") ? 503 : 204));
  const day = { server, receiver };
  await accounts(day);
  await endpoints(day);
  await jobs(day);
  await deliveries(day);
  return { ...day, stop: () => Promise.all([server.stop(), receiver.stop()]) };
}

async function accounts(day) {
  const { server } = day;
  for (const [id, name] of [
    ["acme", "Acme Ltd"],
    ["globex", "Globex GmbH"],
    ["initech", "Initech"],
  ]) {
    await server.call("POST", "/v1/tenants", { id, name });
  }
  await server.call("PATCH", "/v1/tenants/initech", { subscription: "past_due" });
  await server.call("PATCH", "/v1/tenants/acme", { limits: { requestsPerSecond: 50, pendingMax: 100000 } });
  const expiresAt = "2027-03-31T00:00:00Z";
  const key = (body) => server.call("POST", "/v1/keys", body);
  await key({ name: "billing backend", scopes: ["submit", "read"] });
  await key({ name: "grafana", scopes: ["read"], expiresAt });
  await key({ name: "acme production", tenant: "acme", scopes: ["submit", "read"] });
  const old = await key({ name: "old laptop", scopes: ["admin"] });
  await server.call("DELETE", `/v1/keys/${old.id}`);
  day.reader = (await key({ name: "night shift", scopes: ["read"] })).key;
}

async function endpoints({ server, receiver }) {
  await server.call("POST", "/v1/endpoints", { url: `${receiver.url}/hooks/orders`, description: "orders service" });
  await server.call("POST", "/v1/endpoints", {
    url: `${receiver.url}/down/pager`,
    description: "pager, for failures",
    events: ["job.failed"],
  });
}

async function jobs(day) {
  const { server } = day;
  await server.call("POST", "/v1/queues/newsletter/pause");
  for (let n = 0; n < 18; n += 1) {
    const customer = CUSTOMERS[n % CUSTOMERS.length];
    const labels = { customer, template: n % 3 === 0 ? "welcome" : "receipt" };
    await server.submit("mail-send", { to: `someone@${customer}.example`, order: 4700 + n }, { labels });
  }
  for (let n = 0; n < 7; n += 1) {
    await server.submit(
      "mail-send",
      { campaign: "winter sale", part: n },
      { queue: "newsletter", labels: { campaign: "winter" } },
    );
  }
  for (let n = 0; n < 4; n += 1) {
    day.failed = await server.submit(
      "invoice-pdf",
      { order: 4711 + n, currency: "EUR" },
      {
        labels: { customer: CUSTOMERS[n], region: "eu" },
        idempotencyKey: `invoice-${4711 + n}`,
      },
    );
  }
  day.running = await server.submit("transcode", { file: "lecture-1.mov", height: 1080 });
  for (let n = 2; n <= 5; n += 1)
    day.pending = await server.submit("transcode", { file: `lecture-${n}.mov`, height: 1080 });
  day.pipeline = await server.submit("nightly-report", {
    day: "2026-11-15",
    format: "csv",
    recipients: ["ops@example.com", "cfo@example.com"],
  });
  day.picture = await server.submit("render", { source: DIAGRAM, format: "mermaid", outputType: "svg" });
  await server.submit("demo", { steps: 4, sleep: "10ms" }, { labels: { try: "yes" } });
  await server.submit("demo", { result: 1 }, { delay: "2h", labels: { try: "later" } });
  const stopped = await server.submit("demo", { steps: 2, sleep: "10m" }, { queue: "adhoc" });
  await server.call("POST", `/v1/jobs/${stopped}/cancel`);
  await server.until(day.failed, "failed");
  await server.until(day.pipeline, "completed");
  await server.until(day.picture, "completed");
  await server.until(stopped, "cancelled");
  day.purged = await server.run("scan", {});
  await server.call("DELETE", `/v1/jobs/${day.purged}`);
  await eventually(async () => {
    const job = await server.call("GET", `/v1/jobs/${day.running}`);
    const left = await server.call("GET", "/v1/jobs?kind=mail-send&queue=mail&status=pending&status=running");
    return left.jobs.length === 0 ? job : undefined;
  }, "the mail is not sent");
}

async function deliveries(day) {
  day.delivery = await eventually(async () => {
    const { deliveries } = await day.server.call("GET", "/v1/deliveries?limit=100");
    return deliveries.find(({ error, attempt }) => error && attempt >= 2)?.deliveryId;
  }, "no delivery was tried twice");
}
