"""Submissions over HTTP at a steady rate to a server that delivers every event, beside one without endpoints."""

import argparse
from pathlib import Path

import comparison
import goals
from program import one_report, value_of
from receiver import Receiver, receiving
from report import Measurements
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


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    with (
        receiving(Receiver()) as receiver,
        running(args.binary, folder / "silent") as silent,
        running(args.binary, folder / "telling", LOOPBACK) as telling,
    ):
        command = [str(args.binary), "--json", "--server", telling.url]
        one_report([*command, "endpoints", "create", receiver.url], environment())
        servers = [("without", silent, None), ("with", telling, receiver)]
        for _ in measured.passes("webhooks, "):
            for name, server, subscribed in servers:
                submit(measured, name, server, subscribed)
            measured.limit("submit p99 promised", PROMISED_MS)
            servers.reverse()
    return measured.report(goals.WEBHOOKS, {"rate": JOBS_PER_S})


def submit(measured: Measurements, name: str, server: Server, receiver: Receiver | None) -> None:
    args = measured.args
    jobs = args.jobs if args.quick else JOBS
    if receiver:
        receiver.expect(jobs * EVENTS)
    command = [str(args.binary), "--json", "--server", server.url, "bench", "submit"]
    command += ["--jobs", str(jobs), "--concurrency", str(CALLERS), "--rate", str(JOBS_PER_S)]
    report = one_report(command, environment())
    for p in ("p50", "p99"):
        measured.add(f"submit {p} {name}", value_of(report, f"{p}Ms"), "ms", report=report)
    if receiver:
        measured.add("deliveries owed", value_of(report, "jobsPerS") * EVENTS, "/s", report=report)
        measured.add("deliveries", receiver.rate(PATIENCE_S), "/s", report=report)
