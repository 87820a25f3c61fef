"""Comparisons and goals. Every goal has its number and its reason here.

A goal is a ratio of two measurements of the same pass, because absolute times depend on the machine. It is met if the
median of all passes meets it and no pass is more than a fifth away from it: a median alone hides a system that is slow
in every third pass. Goals on SQLite and beside peers on Postgres are targets, which were set before they were met. The
others are about a third below the ratio that was measured when they were set, so that a miss shows a change of the
program and not noise. Raise goals when Longhaul becomes faster.
"""

from comparison import Comparison, Measured
from peers import OURS, SYSTEMS

SQLITE = [
    Comparison(
        "submit, 1 caller", "longhaul submit 1", "raw insert 1", "plain SQLite, one row a commit",
    ),
    Comparison(
        "submit, {concurrency} callers", "longhaul submit", "raw insert 100",
        "plain SQLite, 100 rows a commit", goal=0.5,
        reason="A job with its key, its history and the counts of its queue costs at most twice as much as one "
        "narrow row with one index; without group commit the ratio would be a thirtieth.",
    ),
    Comparison(
        "submit in batches of 1,000", "longhaul bulk", "raw insert 100",
        "plain SQLite, 100 rows a commit",
    ),
    Comparison(
        "drain, {concurrency} at once", "longhaul drain", "raw drain 100",
        "plain SQLite, claim and complete by 100", goal=0.4,
        reason="Claim and settlement are batched, write little more than the columns that change, and overlap "
        "with the handlers. Round-robin over tenants, leases and history may cost as much again as two "
        "bare updates, and half as much on top; a commit for each would be a fiftieth.",
    ),
    Comparison(
        "three steps, {concurrency} callers", "longhaul steps", "raw insert 100",
        "plain SQLite, 100 rows a commit", goal=0.4,
        reason="A checkpoint is one row. Three of them also pay for the submit, claim and settlement of their "
        "job, so that half of the writes are not checkpoints; the rest is for the round trips of the callers.",
    ),
    Comparison(
        "idle pickup, p50", "longhaul pickup", "raw fdatasync", "two fdatasyncs, p50",
        unit="ms", times=2, goal=1, slack=1,
        reason="Submission and claim were two commits when this goal was set; now they are one. "
        "The disk's time for them, and 1 ms for everything else, excludes any polling.",
    ),
    Comparison(
        "drain with {history} finished", "longhaul drain history", "longhaul drain empty",
        "the same on an empty file", goal=0.70,
        reason="Finished jobs must not slow down pending ones: a claim reads due jobs only. "
        "The rest is deeper B-trees and pages that left the cache.",
    ),
    Comparison(
        "submit, {peer_callers} callers", "longhaul submit peer", "dbos submit", "DBOS on SQLite",
    ),
    Comparison(
        "drain, {concurrency} at once", "longhaul drain", "dbos drain", "DBOS on SQLite", goal=20,
        reason="The nearest peer that also embeds SQLite and keeps every job. It commits several times "
        "per job; Longhaul commits hundreds at once, which matters more than the language.",
    ),
    Comparison(
        "three steps, {peer_callers} callers", "longhaul steps peer", "dbos steps", "DBOS on SQLite",
    ),
]  # fmt: skip

# Measurements that are derived from those of the peers; see `derive`.
BEST_BULK = "best peer bulk"
BEST_PICKUP_P99 = "best peer pickup p99"
# Limits of a drained job.
LIMITS = {"drain wal bytes limit": 750.0, "drain wal records limit": 5.0}

# Systems and scenarios by their names in peers.py, costs by those in costs.py.
POSTGRES = [
    Comparison(
        "submit, 32 callers", "longhaul submit 32", "river submit 32", "River for Rust", goal=10,
        reason="River commits each submission, so the disk and 32 connections limit it. "
        "Longhaul commits once for all waiting callers, which is worth 10 to 20 times.",
    ),
    Comparison(
        "submit, 32 callers", "longhaul submit 32", "bullmq submit 32", "BullMQ, each write synced", goal=1.5,
        reason="Redis also syncs once for all waiting callers. With few of them the time of one commit counts "
        "most, and Postgres does more in it: half as fast again shows that group commit makes up for that.",
    ),
    Comparison(
        "submit, 256 callers", "longhaul submit 256", "bullmq submit 256", "BullMQ, each write synced",
        goal=2,
        reason="Redis also syncs once for all waiting callers, and is the fastest such peer. Twice that "
        "shows that Postgres is no reason to keep jobs elsewhere.",
    ),
    Comparison(
        "submit in bulk", "longhaul bulk", "river bulk", "River for Rust", goal=2,
        reason="It inserts row by row inside one transaction; Longhaul sends one statement for a thousand jobs.",
    ),
    Comparison(
        "submit in bulk", "longhaul bulk", BEST_BULK, "the fastest peer", goal=1.2,
        reason="The fast peers send many jobs in one statement, too, so the rows and index entries of a job decide: "
        "graphile-worker and pg-boss write 6 WAL records for each.",
    ),
    Comparison(
        "drain", "longhaul drain", "graphile-worker drain", "graphile-worker, batched", goal=1.2,
        reason="Among the fastest drains of the peers on Postgres, and it deletes finished jobs. Longhaul keeps them "
        "and should still be faster.",
    ),
    Comparison(
        "drain", "longhaul drain", "pg-boss drain", "pg-boss", goal=1.7,
        reason="It also keeps finished jobs, and claims and completes a thousand at once. It writes 11 WAL records "
        "and 1,400 bytes for each; Longhaul's limits are half of that.",
    ),
    Comparison(
        "drain", "longhaul drain", "river drain", "River for Rust", goal=2,
        reason="The nearest peer in language and guarantees: it keeps finished jobs and batches completions.",
    ),
    Comparison(
        "three steps, 50 callers", "longhaul steps 50", "dbos-ts steps 50", "DBOS for TypeScript", goal=10,
        reason="It runs some fourteen transactions for a job of three steps. Longhaul shares them among "
        "50 callers.",
    ),
    Comparison(
        "three steps, 50 callers", "longhaul steps 50", "dbos-rust steps 50", "DBOS for Rust", goal=3,
        reason="Without the cost of JavaScript, the number of commits remains, which Longhaul shares among "
        "50 callers.",
    ),
    Comparison(
        "three steps, one by one, p50", "longhaul steps 1", "dbos-ts steps 1", "DBOS for TypeScript",
        unit="ms", goal=0.4,
        reason="A lone job cannot share commits, so only fewer of them help: a claim, three checkpoints "
        "and a settlement.",
    ),
    Comparison(
        "three steps, one by one, p50", "longhaul steps 1", "dbos-rust steps 1", "DBOS for Rust",
        unit="ms", goal=1,
        reason="It starts the job in the calling process, without a claim. Longhaul claims it and should "
        "still not be slower.",
    ),
    Comparison(
        "CPU of a drained job", "longhaul drain cpu", "graphile-worker drain cpu", "graphile-worker, batched",
        unit=" µs", goal=1,
        reason="Server and client together. It does about half of the work, in JavaScript. A drain keeps all "
        "cores busy, so this decides its speed, and it changes little with the load of the machine.",
    ),
    Comparison(
        "WAL of a drained job", "longhaul drain wal bytes", "drain wal bytes limit", "the limit",
        unit=" B", goal=1,
        reason="A claim and a settlement, with the result and the history, fit into 750 bytes if each row is "
        "written once and few indexes change. Replicas, archives and disks pay for every byte.",
    ),
    Comparison(
        "WAL records of a drained job", "longhaul drain wal records", "drain wal records limit", "the limit",
        unit=" rec.", goal=1,
        reason="Each record is a change of a heap or index page, with its own lock and CPU. graphile-worker, which "
        "deletes finished jobs, writes six.",
    ),
]  # fmt: skip

POSTGRES += [
    Comparison(
        "idle pickup, p50", f"{OURS} pickup", f"{peer.name} pickup", peer.title, unit="ms", goal=1,
        reason="No peer should start a job sooner, whether by polling, by notification or in the same process.",
    )
    for peer in SYSTEMS
    if peer.name != OURS
] + [
    Comparison(
        "idle pickup, p99", f"{OURS} pickup p99", BEST_PICKUP_P99, "the best peer", unit="ms", goal=2,
        reason="A late wake-up or a missed notification shows in the tail only. A 99th percentile of 200 "
        "pickups is the third-slowest, so it varies: twice the best peer of the pass.",
    ),
]  # fmt: skip

PAYLOADS = [
    Comparison(
        "upload of {file_mb} MB", "payload upload", "cp and sha256sum", "`cp` and `sha256sum`",
        unit=" MB/s", goal=0.5,
        reason="An upload reads the file, hashes it and writes it, as these two do. It also goes through "
        "HTTP, is encrypted, and is synced before the response: that may cost as much again. Where "
        "`sha256sum` does not use the processor's SHA-256, as here, Longhaul is ahead.",
    ),
    Comparison(
        "its job: cp to an artifact", "payload job", "cp and sha256sum", "`cp` and `sha256sum`",
        unit=" MB/s",
    ),
    Comparison(
        "download of the artifact", "payload download", "cp and sha256sum", "`cp` and `sha256sum`",
        unit=" MB/s",
    ),
    Comparison(
        "memory of the server, peak", "payload memory peak", "payload file", "the file",
        unit=" MB", goal=0.25,
        reason="No payload is in memory as a whole: 100 MB are enough for buffers of one upload, one job "
        "and one download, independent of the file's size and of earlier files.",
    ),
    Comparison(
        "memory of the server, before", "payload memory idle", "payload file", "the file", unit=" MB",
    ),
]  # fmt: skip

SOCKETS = [
    Comparison(
        f"{what}, p99, with {{count}} slow clients", f"{name} beside slow", f"{name} calm",
        "without them", unit="ms", goal=2,
        reason="Slow clients must not noticeably slow down others. Twice the time leaves room for closing "
        "their sockets, which happens in the same seconds.",
    )
    for what, name in (("read a job", "read"), ("submit a job", "submit"))
] + [
    Comparison(
        f"last socket closed: {what}", f"{name} closed", f"{name} promised", "the timeout",
        unit=" s", goal=1, slack=0.5,
        reason="The timeouts of the default configuration. Half a second is for thousands that expire at once.",
    )
    for what, name in (("sends nothing", "idle"), ("half a head", "head"), ("half a body", "body"))
] + [
    Comparison(
        "memory of the server with them", "memory beside slow", "memory calm", "without them", unit=" MB",
    ),
]  # fmt: skip

# Absolute, where all other goals are ratios: they are numbers to promise, for a machine of two cores that wrk shares.
HTTP_TARGETS = {
    "sqlite post": 15_000.0, "sqlite get": 25_000.0, "sqlite post server cpu": 70.0,
    "postgres post": 6_000.0, "postgres get": 10_000.0,
}  # fmt: skip

HTTP = [
    Comparison(
        "submit a job, SQLite, {connections} connections", "sqlite post", "sqlite post target", "the target", goal=1,
        reason="Group commit makes the disk's share small, so parsing, checks and one round trip to the writer "
        "decide.",
    ),
    Comparison(
        "CPU of the server for it", "sqlite post server cpu", "sqlite post server cpu target", "the target",
        unit=" µs", goal=1,
        reason="At 15,000 a second it is one core, and leaves the other to the workers. It depends little on the "
        "load of the machine.",
    ),
    Comparison(
        "read a job, SQLite, {connections} connections", "sqlite get", "sqlite get target", "the target", goal=1,
        reason="A lookup by primary key in a file that is in memory. Clients that poll need it most.",
    ),
    Comparison(
        "read a job, SQLite, {connections} connections", "sqlite get", "sqlite livez", "`/livez`, without a store",
    ),
    Comparison(
        "submit a job, Postgres, {connections} connections", "postgres post", "postgres post target", "the target",
        goal=1,
        reason="Postgres shares the two cores, and does most of the work of a submission.",
    ),
    Comparison(
        "CPU of the server for it", "postgres post server cpu", "postgres post postgres cpu", "CPU of Postgres",
        unit=" µs",
    ),
    Comparison(
        "read a job, Postgres, {connections} connections", "postgres get", "postgres get target", "the target", goal=1,
        reason="One statement for each read, or one for several that arrive together.",
    ),
    Comparison(
        "CPU of the server for it", "postgres get server cpu", "postgres get postgres cpu", "CPU of Postgres",
        unit=" µs",
    ),
    Comparison(
        "read a job, Postgres, {connections} connections", "postgres get", "postgres livez",
        "`/livez`, without a store",
    ),
]  # fmt: skip

# Ends of measurements' names -> the target, in the measurement's unit. Absolute, as those of HTTP.
GROWTH_TARGETS = {
    "claim p99": 10.0, "list young": 5.0, "list old": 5.0, "watchers cpu": 2.0, "watchers memory": 150.0,
}  # fmt: skip

GROWTH = [
    comparison
    for store, title in (("sqlite", "SQLite"), ("postgres", "Postgres"))
    for comparison in (
        Comparison(
            f"claim, p99, {{history}} pending and finished, {title}", f"{store} claim p99",
            f"{store} claim p99 target", "the target", unit="ms", goal=1,
            reason="A claim reads due jobs in their order, and must not depend on how many others there are.",
        ),
        Comparison(
            f"a list of 20, young store, {title}", f"{store} list young", f"{store} list young target",
            "the target", unit="ms", goal=1,
            reason="A page of 20 jobs is one range of one index.",
        ),
        Comparison(
            f"a list of 20, with these jobs, {title}", f"{store} list old", f"{store} list old target",
            "the target", unit="ms", goal=1,
            reason="The same range, whatever the age of the store.",
        ),
        *(
            Comparison(
                f"{what}, p99, beside {{list_callers}} lists that match nothing, {title}",
                f"{store} {name} beside lists", f"{store} {name} alone", "without them", unit="ms", goal=2,
                reason="A list examines a bounded number of jobs for each page and runs one at a time for each "
                "tenant, on connections of its own. What remains is its share of the processor.",
            )
            for what, name in (("read a job", "read"), ("submit a job", "submit"), ("run a job", "run"))
        ),
        Comparison(
            f"drain of {{lanes}} queues, {title}", f"{store} drain queues", f"{store} drain one lane",
            "one queue", goal=0.7,
            reason="Round-robin visits each lane for one job, where one lane gives a batch. A claim must find "
            "the lanes with due jobs without a query for each.",
        ),
        Comparison(
            f"drain of {{lanes}} tenants, {title}", f"{store} drain tenants", f"{store} drain one lane",
            "one tenant", goal=0.7,
            reason="As for queues.",
        ),
        Comparison(
            f"CPU of {{watchers}} idle watchers, {title}", f"{store} watchers cpu", f"{store} watchers cpu target",
            "the target", unit=" %", goal=1,
            reason="Percent of a core. A watcher is woken by a change of its job, and costs little while nothing "
            "happens.",
        ),
        Comparison(
            f"memory of the server with them, {title}", f"{store} watchers memory",
            f"{store} watchers memory target", "the target", unit=" MB", goal=1,
            reason="Some 10 kB for each connection, beside what the server needs without them.",
        ),
    )
]  # fmt: skip

KEYS = [
    Comparison(
        "submit over HTTP, {callers} callers", "with keys", "without keys", "without keys", goal=0.9,
        reason="A cached key costs a hash and two lookups in memory, beside a request and a durable write.",
    ),
]  # fmt: skip

FOREIGN_IDS = [
    Comparison(
        "GET of a job, {requests} requests in turns", "foreign id", "unknown id", "an unknown id", unit=" us",
        goal=1.02,
        reason="A response time tells nothing about ids of other tenants. Both make the same lookup by the whole key.",
    ),
]  # fmt: skip

WEBHOOKS = [
    Comparison(
        "deliveries, {rate} jobs/s submitted", "deliveries", "deliveries owed", "three for each job", goal=0.9,
        reason="An endpoint that responds gets events as fast as they happen: 1,000 deliveries a "
        "second cause no backlog.",
    ),
    Comparison(
        "submit, p99, during deliveries", "submit p99 with", "submit p99 promised", "the limit",
        unit="ms", goal=1,
        reason="A submission waits for a durable write, and not for deliveries.",
    ),
    Comparison("submit, p99, during deliveries", "submit p99 with", "submit p99 without", "without", unit="ms"),
    Comparison("submit, p50, during deliveries", "submit p50 with", "submit p50 without", "without", unit="ms"),
]  # fmt: skip

HANGING = [
    Comparison(
        "delivery, p99, with {hanging} endpoints that hang", "latency p99 beside", "latency p99 calm", "without them",
        unit="ms", goal=2, slack=20,
        reason="Endpoints that hang must not delay others. They do cost the machine: each of {rate} jobs "
        "a second has a hundred deliveries; 20 ms are for that.",
    ),
    Comparison("delivery, p50, with {hanging} endpoints that hang", "latency p50 beside", "latency p50 calm", "without them", unit="ms"),
]  # fmt: skip

PROXY = [
    Comparison(
        "an endpoint of 100 ms, p50, {callers} callers", "proxied p50", "direct p50", "the endpoint itself",
        unit="ms", goal=1, slack=5,
        reason="Three durable writes lie between a client and the endpoint. 5 ms does not matter for an "
        "endpoint that is slow enough to be made durable.",
    ),
    Comparison(
        "an endpoint of 100 ms, p99, {callers} callers", "proxied p99", "direct p99", "the endpoint itself",
        unit="ms",
    ),
]  # fmt: skip

RENDER = [
    Comparison(
        "a small flowchart, p50", "render p50", "render promised", "the limit", unit="ms", goal=1,
        reason="An image within a frame or two of a screen can be requested while a page is rendered. "
        "The commits of submit, claim and settle are included.",
    ),
    Comparison("a small flowchart, p95", "render p95", "render promised", "the limit", unit="ms"),
    Comparison(
        "a small flowchart, p50", "render p50", "mermaid-cli p50", "mermaid-cli, a browser each", unit="ms",
        goal=0.05,
        reason="Longhaul renders without a browser because of its cost: the promise is a twentieth.",
    ),
    Comparison(
        "a small flowchart, p50", "render p50", "mermaid open p50", "mermaid-cli's function, browser kept open",
        unit="ms",
    ),
]  # fmt: skip

DASHBOARD = [
    Comparison(
        f"{what}, {{history}} jobs", name, "promised", "the limit", unit="ms", goal=1,
        reason="An operator on call sees a page at once, independent of the history. 200 ms is for the whole page.",
    )
    for what, name in (
        ("overview", "overview"),
        ("list of jobs", "jobs"),
        ("list by status", "jobs by status"),
        ("list by a text", "jobs by text"),
        ("list of the last hour", "jobs of an hour"),
    )
] + [
    # No goal: a filter that hardly any job matches reads all of them, as the API's list does.
    Comparison(f"list by {what}, {{history}} jobs", f"jobs by {what}", "promised", "the limit", unit="ms")
    for what in ("kind", "queue", "label")
]  # fmt: skip


def derive(measured: Measured) -> None:
    """Adds the best peer of each pass, and limits, to the measurements on Postgres."""
    peers = [peer.name for peer in SYSTEMS if peer.name != OURS]
    for name, suffix, best in ((BEST_BULK, "bulk", max), (BEST_PICKUP_P99, "pickup p99", min)):
        passes = [measured[f"{peer} {suffix}"] for peer in peers if f"{peer} {suffix}" in measured]
        if passes:
            measured[name] = [best(values) for values in zip(*passes, strict=True)]
    for name, limit in LIMITS.items():
        measured[name] = [limit] * len(measured.get(f"{OURS} {name.removesuffix(' limit')}", []))
