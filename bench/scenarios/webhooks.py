"""Submissions over HTTP at a steady rate to a server that delivers every event, beside one without endpoints."""

import argparse
from pathlib import Path

import goals
from machine import check_binary, machine, warn_of
from program import one_report, print_json, say, value_of
from receiver import Receiver, receiving
from report import report
from serving import Server, environment, running

LOOPBACK = '[egress]\nallow = ["127.0.0.1/32"]\n'
# Events per job: pending, running, completed.
EVENTS = 3
JOBS_PER_S = 340
JOBS = 3_400
CALLERS = 64
# For deliveries that are pending when the last job is submitted.
PATIENCE_S = 120
PROMISED_MS = 50


def measure(args: argparse.Namespace, folder: Path) -> list[goals.Outcome]:
    check_binary(args.binary)
    facts = machine(args, folder)
    warn_of(facts)
    measured: goals.Measured = {}
    with (
        receiving(Receiver()) as receiver,
        running(args.binary, folder / "silent") as silent,
        running(args.binary, folder / "telling", LOOPBACK) as telling,
    ):
        command = [str(args.binary), "--json", "--server", telling.url]
        one_report([*command, "endpoints", "create", receiver.url], environment())
        servers = [("without", silent, None), ("with", telling, receiver)]
        for number in range(1, args.passes + 1):
            say(f"webhooks, pass {number} of {args.passes}")
            for name, server, subscribed in servers:
                for what, value in submitted(args, name, server, subscribed).items():
                    measured.setdefault(what, []).append(value)
            measured.setdefault("submit p99 promised", []).append(PROMISED_MS)
            servers.reverse()
    return report(args, measured, goals.WEBHOOKS, {"rate": JOBS_PER_S}, facts)


def submitted(
    args: argparse.Namespace, name: str, server: Server, receiver: Receiver | None
) -> dict[str, float]:
    jobs = args.jobs if args.quick else JOBS
    if receiver:
        receiver.expect(jobs * EVENTS)
    command = [str(args.binary), "--json", "--server", server.url, "bench", "submit"]
    command += ["--jobs", str(jobs), "--concurrency", str(CALLERS), "--rate", str(JOBS_PER_S)]
    report = one_report(command, environment())
    values = {f"submit {p} {name}": value_of(report, f"{p}Ms") for p in ("p50", "p99")}
    if receiver:
        values["deliveries owed"] = value_of(report, "jobsPerS") * EVENTS
        values["deliveries"] = receiver.rate(PATIENCE_S)
    for what, value in values.items():
        unit = "/s" if what.startswith("deliveries") else "ms"
        say(f"  {what:<24} {goals.quantity(value, unit):>12}")
        if args.json:
            print_json({"type": "result", "name": what, "value": value, "unit": unit, "report": report})
    return values
