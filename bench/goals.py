"""What is held against what, and how much of it is enough. Every goal has its number and reason here.

A goal is a ratio of two things measured in the same pass, because times on their own say more about
the machine than about Longhaul. Each is about a third below what was seen when it was set, so that a
miss is a change of the program and not of the weather. Raise them when Longhaul becomes faster.
"""

import statistics
from typing import NamedTuple

from peers import SYSTEMS, OURS

# Name of a measurement -> its value in each pass.
Measured = dict[str, list[float]]


class Comparison(NamedTuple):
    scenario: str
    ours: str  # name of a measurement, as is `theirs`
    theirs: str
    beside: str  # what `theirs` is, in words
    unit: str = "/s"  # of both: "/s" and " MB/s", more is better; "ms", " s" and " MB", less
    times: float = 1  # what ours is held against is this many of theirs
    goal: float | None = None  # the ratio to reach, or not to exceed where less is better
    slack: float = 0  # taken off ours before the goal is judged, in its unit
    reason: str = ""  # why this goal

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
        reason="20,000 durable submits a second from 256 callers is what we want, on a machine where "
        "plain SQLite inserts 70,000 rows or more. A submit writes two rows and three indexes where "
        "plain SQLite writes one of each; without shared commits it would be a thirtieth.",
    ),
    Comparison(
        "submit in batches of 1,000", "longhaul bulk", "raw insert 100",
        "plain SQLite, 100 rows a commit",
    ),
    Comparison(
        "drain, {concurrency} at once", "longhaul drain", "raw drain 100",
        "plain SQLite, claim and complete by 100", goal=0.12,
        reason="Claim and outcome each rewrite a whole job with its history and two or three of its "
        "indexes, in fair turns over tenants, and run it in between. An eighth of two bare updates "
        "means that both go by the batch; a commit for each would be a fiftieth.",
    ),
    Comparison(
        "three steps, {concurrency} callers", "longhaul steps", "raw insert 100",
        "plain SQLite, 100 rows a commit", goal=0.14,
        reason="10,000 checkpoints a second is what we want, on a machine where plain SQLite inserts "
        "70,000 rows or more. Three of them also pay for the submit, claim and outcome of their job, "
        "so that half of what is written is no checkpoint.",
    ),
    Comparison(
        "idle pickup, p50", "longhaul pickup", "raw fdatasync", "two fdatasyncs, p50",
        unit="ms", times=2, goal=3, slack=1,
        reason="Two commits lie between the submit call and the handler: the submit and the claim. "
        "Thrice the disk's own time for them, and 1 ms for threads to wake up, excludes any polling; "
        "at 0.3 ms for an fdatasync it is the 3 ms that we want.",
    ),
    Comparison(
        "drain with {history} finished", "longhaul drain history", "longhaul drain empty",
        "the same on an empty file", goal=0.70,
        reason="What is finished must not slow down what is pending: a claim looks at due jobs only. "
        "The rest is B-trees one level deeper and pages that left the cache.",
    ),
    Comparison(
        "submit, {peer_callers} callers", "longhaul submit peer", "dbos submit", "DBOS on SQLite",
    ),
    Comparison(
        "drain, {concurrency} at once", "longhaul drain", "dbos drain", "DBOS on SQLite", goal=20,
        reason="The nearest peer that also embeds SQLite and keeps every job. It commits several times "
        "for each; we commit for hundreds at once, which is worth more than the language.",
    ),
    Comparison(
        "three steps, {peer_callers} callers", "longhaul steps peer", "dbos steps", "DBOS on SQLite",
    ),
]  # fmt: skip

# Peers and scenarios by their names in peers.py. These goals were set before they were met.
POSTGRES = [
    Comparison(
        "submit, 32 callers", "longhaul submit 32", "river submit 32", "River for Rust", goal=10,
        reason="River commits for each submit, at most as many a second as the disk and 32 connections "
        "allow. We commit once for all that wait, which is worth 10 to 20 times.",
    ),
    Comparison(
        "submit, 256 callers", "longhaul submit 256", "bullmq submit 256", "BullMQ, each write synced",
        goal=2,
        reason="Redis also syncs once for all that wait, and is the fastest peer that does. Twice that "
        "means that a row in Postgres is no reason to keep jobs elsewhere.",
    ),
    Comparison(
        "drain", "longhaul drain", "graphile-worker drain", "graphile-worker, batched", goal=1.2,
        reason="Among the fastest drains of the peers on Postgres, and it deletes what is finished. We keep it, "
        "and are to be faster still.",
    ),
    Comparison(
        "three steps, 50 callers", "longhaul steps 50", "dbos-ts steps 50", "DBOS for TypeScript", goal=10,
        reason="It makes some fourteen transactions for three steps of one job. Ours share theirs with "
        "49 others.",
    ),
    Comparison(
        "three steps, one by one, p50", "longhaul steps 1", "dbos-ts steps 1", "DBOS for TypeScript",
        unit="ms", goal=0.5,
        reason="With nobody to share a commit with, only fewer of them help: a claim, three checkpoints "
        "and an outcome.",
    ),
]  # fmt: skip

POSTGRES += [
    Comparison(
        "idle pickup, p50", f"{OURS} pickup", f"{peer.name} pickup", peer.title, unit="ms", goal=1,
        reason="Nobody is to start a job sooner than we do, polling, notified or in the same process.",
    )
    for peer in SYSTEMS
    if peer.name != OURS
]  # fmt: skip

PAYLOADS = [
    Comparison(
        "upload of {file_mb} MB", "payload upload", "cp and sha256sum", "`cp` and `sha256sum`",
        unit=" MB/s", goal=0.5,
        reason="An upload reads the file, hashes it and writes it, as these two do. It also goes through "
        "HTTP, is sealed, and is synced before it is answered: that may cost as much again. Where "
        "`sha256sum` does without the processor's own SHA-256, as here, we are ahead.",
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
        reason="No payload is in memory as a whole: 100 MB are enough for a server with buffers for one "
        "upload, one job and one download, however large the file is and however many came before.",
    ),
    Comparison(
        "memory of the server, before", "payload memory idle", "payload file", "the file", unit=" MB",
    ),
]  # fmt: skip

SOCKETS = [
    Comparison(
        f"{what}, p99, beside {{count}} slow peers", f"{name} beside slow", f"{name} calm",
        "without them", unit="ms", goal=2,
        reason="Whoever holds sockets open for nothing is to cost others nothing that they notice. Twice "
        "leaves room for the work of closing them, which falls into the same seconds.",
    )
    for what, name in (("read a job", "read"), ("submit a job", "submit"))
] + [
    Comparison(
        f"last socket closed: {what}", f"{name} closed", f"{name} promised", "what is promised",
        unit=" s", goal=1, slack=0.5,
        reason="This is what config.default.toml says. Half a second is for thousands that are due at once.",
    )
    for what, name in (("says nothing", "idle"), ("half a head", "head"), ("half a body", "body"))
] + [
    Comparison(
        "memory of the server beside them", "memory beside slow", "memory calm", "without them", unit=" MB",
    ),
]  # fmt: skip

KEYS = [
    Comparison(
        "submit over HTTP, {callers} callers", "with keys", "without keys", "without keys", goal=0.9,
        reason="A key that is known costs a hash and two looks into memory, beside a request and a "
        "durable write.",
    ),
]  # fmt: skip

WEBHOOKS = [
    Comparison(
        "deliveries, {rate} jobs/s submitted", "deliveries", "deliveries owed", "three for each job", goal=0.9,
        reason="A receiver that is always there hears of everything as fast as it happens: 1,000 deliveries a "
        "second are no backlog.",
    ),
    Comparison(
        "submit, p99, beside deliveries", "submit p99 with", "submit p99 promised", "what is promised",
        unit="ms", goal=1,
        reason="Whoever submits waits for a durable write, and not for those who are told of it.",
    ),
    Comparison("submit, p99, beside deliveries", "submit p99 with", "submit p99 without", "without", unit="ms"),
    Comparison("submit, p50, beside deliveries", "submit p50 with", "submit p50 without", "without", unit="ms"),
]  # fmt: skip

HANGING = [
    Comparison(
        "told, p99, beside {hanging} that hang", "told p99 beside", "told p99 calm", "without them",
        unit="ms", goal=2, slack=20,
        reason="Receivers that hang are to cost others nothing. They do cost the machine: each of {rate} jobs "
        "a second is told to a hundred receivers, and that is what 20 ms are for.",
    ),
    Comparison("told, p50, beside {hanging} that hang", "told p50 beside", "told p50 calm", "without them", unit="ms"),
]  # fmt: skip

PROXY = [
    Comparison(
        "an endpoint of 100 ms, p50, {callers} callers", "proxied p50", "direct p50", "the endpoint itself",
        unit="ms", goal=1, slack=5,
        reason="Three durable writes and a file lie between a caller and the endpoint. 5 ms is what nobody "
        "notices beside an endpoint that is worth being made durable.",
    ),
    Comparison(
        "an endpoint of 100 ms, p99, {callers} callers", "proxied p99", "direct p99", "the endpoint itself",
        unit="ms",
    ),
]  # fmt: skip

RENDER = [
    Comparison(
        "a small flowchart, p50", "render p50", "render promised", "what is promised", unit="ms", goal=1,
        reason="A picture that is there within a frame or two of a screen can be asked for while a page is "
        "made. The commits of submit, claim and end are in it.",
    ),
    Comparison("a small flowchart, p95", "render p95", "render promised", "what is promised", unit="ms"),
    Comparison(
        "a small flowchart, p50", "render p50", "mermaid-cli p50", "mermaid-cli, a browser each", unit="ms",
        goal=0.05,
        reason="What a browser costs is why diagrams are drawn without one: a twentieth is what is promised.",
    ),
    Comparison(
        "a small flowchart, p50", "render p50", "mermaid open p50", "mermaid-cli's function, browser kept open",
        unit="ms",
    ),
]  # fmt: skip

DASHBOARD = [
    Comparison(
        f"{what}, {{history}} jobs", name, "promised", "what is promised", unit="ms", goal=1,
        reason="Whoever was paged sees a page at once, however long the history is. 200 ms is for the whole page.",
    )
    for what, name in (
        ("overview", "overview"),
        ("list of jobs", "jobs"),
        ("list by status", "jobs by status"),
        ("list by a text", "jobs by text"),
        ("list of the last hour", "jobs of an hour"),
    )
] + [
    # No goal: what hardly any job matches is looked for in all of them, here as in the API's list.
    Comparison(f"list by {what}, {{history}} jobs", f"jobs by {what}", "promised", "what is promised", unit="ms")
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


def judge(measured: Measured, comparisons: list[Comparison]) -> list[Outcome]:
    """Compares what was measured. The ratio is the median over the passes of the ratio inside each."""
    outcomes = []
    for comparison in comparisons:
        if comparison.ours not in measured or comparison.theirs not in measured:
            continue
        ours = measured[comparison.ours]
        theirs = [value * comparison.times for value in measured[comparison.theirs]]
        ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
        met = None
        if comparison.goal is not None:
            judged = statistics.median(
                (our - comparison.slack) / their for our, their in zip(ours, theirs, strict=True)
            )
            met = judged <= comparison.goal if comparison.less_is_better else judged >= comparison.goal
        outcomes.append(
            Outcome(comparison, statistics.median(ours), statistics.median(theirs), ratios, met)
        )
    return outcomes


def table(outcomes: list[Outcome], words: dict[str, object], verdicts: bool) -> str:
    """The outcomes in Markdown; `words` fills the braces in the scenarios' names."""
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
    said = f"{sign} {comparison.goal:g}{slack}"
    if verdict:
        said += " ✓" if outcome.met else " ✗ missed"
    return said
