"""Submissions over HTTP to a server that requires API keys, beside one that does not."""

import argparse
from pathlib import Path

import comparison
import goals
from program import one_report, value_of
from report import Measurements
from serving import Server, environment, running

KEYS = "[auth]\nrequire_keys = true\n"
JOBS = 10_000
CALLERS = 64


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    with (
        running(args.binary, folder / "open") as without,
        running(args.binary, folder / "keys", KEYS) as keyed,
    ):
        servers = [("without keys", without), ("with keys", keyed)]
        for _ in measured.passes("keys, "):
            for name, server in servers:
                report = submitted(args, server)
                measured.add(name, value_of(report, "jobsPerS"), "/s", report=report)
            # The order alternates, because the second server is measured while the first one's jobs run.
            servers.reverse()
    return measured.report(goals.KEYS, {"callers": CALLERS})


def submitted(args: argparse.Namespace, server: Server) -> dict:
    command = [str(args.binary), "--json", "--server", server.url]
    command += ["--api-key", server.key] if server.key else []
    jobs = args.jobs if args.quick else JOBS
    command += ["bench", "submit", "--jobs", str(jobs), "--concurrency", str(CALLERS)]
    return one_report(command, environment())
