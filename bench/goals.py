"""Comparisons and goals. Every goal has its number and its reason here.

A goal is a ratio of two measurements of the same pass, because absolute times depend on the machine. Each is about a
third below the ratio that was measured when it was set, so that a miss shows a change of the program and not noise.
Raise goals when Longhaul becomes faster.
"""

import statistics
from typing import NamedTuple

from peers import OURS, SYSTEMS

# Name of a measurement -> its value in each pass.
Measured = dict[str, list[float]]


class Comparison(NamedTuple):
    scenario: str
    ours: str  # name of a measurement, as is `theirs`
    theirs: str
    beside: str  # description of `theirs`
    unit: str = "/s"  # of both: "/s" and " MB/s", more is better; "ms", " s" and " MB", less
    times: float = 1  # ours is compared with this many of theirs
    goal: float | None = None  # the ratio to reach, or not to exceed where less is better
    slack: float = 0  # subtracted from ours before the goal is checked, in its unit
    reason: str = ""  # for the goal

    @property
    def less_is_better(self) -> bool:
        return not self.unit.endswith("/s")


SQLITE = [
    Comparison(
        "submit, 1 caller", "longhaul submit 1", "raw insert 1", "plain SQLite, one row a commit",
    ),
    Comparison(
        "submit, {concurrency} callers", "longhaul submit", "raw insert 100",
        "plain SQLite, 100 rows a commit", goal=0.30,
        reason="The target is 20,000 durable submissions a second from 256 callers, on a machine where "
        "plain SQLite inserts 70,000 rows or more. A submission writes two rows and three indexes where "
        "plain SQLite writes one of each; without group commit the ratio would be a thirtieth.",
    ),
    Comparison(
        "submit in batches of 1,000", "longhaul bulk", "raw insert 100",
        "plain SQLite, 100 rows a commit",
    ),
    Comparison(
        "drain, {concurrency} at once", "longhaul drain", "raw drain 100",
        "plain SQLite, claim and complete by 100", goal=0.12,
        reason="Claim and outcome each rewrite a whole job with its history and two or three of its "
        "indexes, round-robin over tenants, and run it in between. An eighth of two bare updates "
        "shows that both are batched; a commit for each would be a fiftieth.",
    ),
    Comparison(
        "three steps, {concurrency} callers", "longhaul steps", "raw insert 100",
        "plain SQLite, 100 rows a commit", goal=0.14,
        reason="The target is 10,000 checkpoints a second, on a machine where plain SQLite inserts "
        "70,000 rows or more. Three of them also pay for the submit, claim and outcome of their job, "
        "so that half of the writes are not checkpoints.",
    ),
    Comparison(
        "idle pickup, p50", "longhaul pickup", "raw fdatasync", "two fdatasyncs, p50",
        unit="ms", times=2, goal=3, slack=1,
        reason="Two commits lie between the submit call and the handler: the submission and the claim. "
        "Three times the disk's time for them, and 1 ms for threads to wake up, excludes any polling; "
        "at 0.3 ms for an fdatasync that is the target of 3 ms.",
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

# Systems and scenarios by their names in peers.py. These goals were set before they were met.
POSTGRES = [
    Comparison(
        "submit, 32 callers", "longhaul submit 32", "river submit 32", "River for Rust", goal=10,
        reason="River commits each submission, so the disk and 32 connections limit it. "
        "Longhaul commits once for all waiting callers, which is worth 10 to 20 times.",
    ),
    Comparison(
        "submit, 256 callers", "longhaul submit 256", "bullmq submit 256", "BullMQ, each write synced",
        goal=2,
        reason="Redis also syncs once for all waiting callers, and is the fastest such peer. Twice that "
        "shows that Postgres is no reason to keep jobs elsewhere.",
    ),
    Comparison(
        "drain", "longhaul drain", "graphile-worker drain", "graphile-worker, batched", goal=1.2,
        reason="Among the fastest drains of the peers on Postgres, and it deletes finished jobs. Longhaul keeps them "
        "and should still be faster.",
    ),
    Comparison(
        "three steps, 50 callers", "longhaul steps 50", "dbos-ts steps 50", "DBOS for TypeScript", goal=10,
        reason="It runs some fourteen transactions for a job of three steps. Longhaul shares them among "
        "50 callers.",
    ),
    Comparison(
        "three steps, one by one, p50", "longhaul steps 1", "dbos-ts steps 1", "DBOS for TypeScript",
        unit="ms", goal=0.5,
        reason="A lone job cannot share commits, so only fewer of them help: a claim, three checkpoints "
        "and a settlement.",
    ),
]  # fmt: skip

POSTGRES += [
    Comparison(
        "idle pickup, p50", f"{OURS} pickup", f"{peer.name} pickup", peer.title, unit="ms", goal=1,
        reason="No peer should start a job sooner, whether by polling, by notification or in the same process.",
    )
    for peer in SYSTEMS
    if peer.name != OURS
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

KEYS = [
    Comparison(
        "submit over HTTP, {callers} callers", "with keys", "without keys", "without keys", goal=0.9,
        reason="A cached key costs a hash and two lookups in memory, beside a request and a durable write.",
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


class Outcome(NamedTuple):
    comparison: Comparison
    ours: float
    theirs: float
    ratios: list[float]
    met: bool | None  # None where there is no goal

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


def compare(measured: Measured, comparisons: list[Comparison]) -> list[Outcome]:
    """Compares measurements. The ratio is the median over the ratios of all passes."""
    outcomes = []
    for comparison in comparisons:
        if comparison.ours not in measured or comparison.theirs not in measured:
            continue
        ours = measured[comparison.ours]
        theirs = [value * comparison.times for value in measured[comparison.theirs]]
        ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
        met = None
        if comparison.goal is not None:
            value = statistics.median(
                (our - comparison.slack) / their for our, their in zip(ours, theirs, strict=True)
            )
            met = value <= comparison.goal if comparison.less_is_better else value >= comparison.goal
        outcomes.append(
            Outcome(comparison, statistics.median(ours), statistics.median(theirs), ratios, met)
        )
    return outcomes


def table(outcomes: list[Outcome], words: dict[str, object], verdicts: bool) -> str:
    """Returns a Markdown table; `words` fill the braces in the scenarios' names."""
    rows = [("scenario", "Longhaul", "beside it", "", "ratio", "goal")]
    rows.append(("---", "---:", "---", "---:", "---:", "---"))
    for outcome in outcomes:
        comparison = outcome.comparison
        rows.append((
            comparison.scenario.format(**words),
            quantity(outcome.ours, comparison.unit),
            comparison.beside,
            quantity(outcome.theirs, comparison.unit),
            ratio(outcome.ratios),
            goal(outcome, verdicts),
        ))  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def as_json(outcome: Outcome, words: dict[str, object]) -> dict:
    comparison = outcome.comparison
    return {
        "scenario": comparison.scenario.format(**words), "ours": outcome.ours,
        "beside": comparison.beside, "theirs": outcome.theirs, "unit": comparison.unit,
        "ratio": outcome.ratio, "ratios": outcome.ratios, "goal": comparison.goal, "met": outcome.met,
    }  # fmt: skip


def quantity(value: float, unit: str) -> str:
    if unit == "ms":
        return f"{value:.2f} ms"
    return f"{value:.1f} s" if unit == " s" else f"{value:,.0f}{unit}"


def ratio(ratios: list[float]) -> str:
    middle = statistics.median(ratios)
    digits = 0 if middle >= 10 else 2 if middle >= 0.1 else 4
    text = f"{middle:.{digits}f}"
    if len(ratios) > 1:
        text += f" ({min(ratios):.{digits}f}–{max(ratios):.{digits}f})"
    return text


def goal(outcome: Outcome, verdict: bool) -> str:
    comparison = outcome.comparison
    if comparison.goal is None:
        return "–"
    sign = "≤" if comparison.less_is_better else "≥"
    slack = f" + {comparison.slack:g} {comparison.unit.strip()}" if comparison.slack else ""
    text = f"{sign} {comparison.goal:g}{slack}"
    if verdict:
        text += " ✓" if outcome.met else " ✗ missed"
    return text
