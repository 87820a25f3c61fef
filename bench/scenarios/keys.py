"""Submissions over HTTP to a server that requires API keys, beside one that does not."""

import argparse
from pathlib import Path

import goals
from machine import check_binary, machine, warn_of
from program import one_report, print_json, say, value_of
from report import report
from serving import Server, environment, running

KEYS = "[auth]\nrequire_keys = true\n"
JOBS = 10_000
CALLERS = 64


def measure(args: argparse.Namespace, folder: Path) -> list[goals.Outcome]:
    check_binary(args.binary)
    facts = machine(args, folder)
    warn_of(facts)
    measured: goals.Measured = {}
    with (
        running(args.binary, folder / "open") as without,
        running(args.binary, folder / "keys", KEYS) as keyed,
    ):
        servers = [("without keys", without), ("with keys", keyed)]
        for number in range(1, args.passes + 1):
            say(f"keys, pass {number} of {args.passes}")
            for name, server in servers:
                measured.setdefault(name, []).append(submitted(args, name, server))
            # The order alternates, because the second server is measured while the first one's jobs run.
            servers.reverse()
    return report(args, measured, goals.KEYS, {"callers": CALLERS}, facts)


def submitted(args: argparse.Namespace, name: str, server: Server) -> float:
    command = [str(args.binary), "--json", "--server", server.url]
    command += ["--api-key", server.key] if server.key else []
    jobs = args.jobs if args.quick else JOBS
    command += ["bench", "submit", "--jobs", str(jobs), "--concurrency", str(CALLERS)]
    report = one_report(command, environment())
    rate = value_of(report, "jobsPerS")
    say(f"  {name:<24} {goals.quantity(rate, '/s'):>12}")
    if args.json:
        print_json({"type": "result", "name": name, "value": rate, "unit": "/s", "report": report})
    return rate
