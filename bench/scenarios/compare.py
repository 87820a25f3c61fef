"""Two builds of Longhaul in alternating passes, on SQLite and on Postgres: shows what a change costs."""

import argparse
import contextlib
import os
from pathlib import Path
from typing import NamedTuple

import comparison
from machine import check_binary
from program import one_report, print_json, say, value_of
from report import Measurements
from services import postgres

INPUT_BYTES = 100
RATIO_MIN = 0.97
REASON = "A change that is not about speed keeps it. 3 % is within what one machine varies between passes."


class Case(NamedTuple):
    name: str
    scenario: str  # of `longhaul bench`
    share: float  # of --jobs, so that each case takes about a second
    concurrency: int
    field: str = "jobsPerS"
    unit: str = "/s"


SQLITE = [
    Case("submit, 1 caller", "submit", 0.04, 1),
    Case("submit, 256 callers", "submit", 1, 256),
    Case("submit in batches", "bulk", 1, 256),
    Case("drain, 256 at once", "drain", 1, 256),
    Case("three steps, 256 callers", "steps", 0.5, 256, "stepsPerS"),
    Case("idle pickup, p50", "latency", 0.003, 1, "p50Ms", "ms"),
]
POSTGRES = [
    Case("submit, 32 callers", "submit", 1, 32),
    Case("submit, 256 callers", "submit", 1, 256),
    Case("submit in bulk", "bulk", 2, 1),
    Case("drain, 1,000 at once", "drain", 2, 1000),
    Case("three steps, 50 callers", "steps", 0.25, 50, "stepsPerS"),
    Case("three steps, one by one, p50", "steps", 0.003, 1, "p50Ms", "ms"),
    Case("idle pickup, p50", "latency", 0.003, 1, "p50Ms", "ms"),
]


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    binaries = {"old": args.compare.absolute(), "new": args.binary}
    check_binary(binaries["old"])
    measured = Measurements(args, folder)
    with postgres(folder) as cluster:
        for number in measured.passes():
            for store, cases in (("SQLite", SQLITE), ("Postgres", POSTGRES)):
                for case in cases:
                    # The order changes with each pass, because the second of a pair finds a warmer machine.
                    for build in ("old", "new") if number % 2 else ("new", "old"):
                        sqlite = contextlib.nullcontext(f"sqlite:{folder / 'compare.db'}")
                        with cluster.empty_database("bench") if store == "Postgres" else sqlite as url:
                            value = one(args, binaries[build], case, url)
                        measured.limit(f"{build} {store} {case.name}", value)
                        say(f"  {build} {store:<9} {case.name:<30} {comparison.quantity(value, case.unit):>12}")
    comparisons = [
        comparison.Comparison(
            f"{store}: {case.name}", f"new {store} {case.name}", f"old {store} {case.name}", "old build",
            unit=case.unit, goal=RATIO_MIN if case.unit == "/s" else round(1 / RATIO_MIN, 3), reason=REASON,
        )
        for store, cases in (("SQLite", SQLITE), ("Postgres", POSTGRES))
        for case in cases
    ]  # fmt: skip
    return measured.report(comparisons, {})


def one(args: argparse.Namespace, binary: Path, case: Case, url: str) -> float:
    command = [
        str(binary), "bench", case.scenario, "--json", "--jobs", str(max(20, int(args.jobs * case.share))),
        "--concurrency", str(case.concurrency), "--input-bytes", str(INPUT_BYTES), "--database", url,
    ]  # fmt: skip
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LONGHAUL_", "PG", "DATABASE_URL"))}
    result = one_report(command, env)
    if args.json:
        print_json({"type": "result", "binary": str(binary), "name": case.name, "report": result})
    return value_of(result, case.field)
