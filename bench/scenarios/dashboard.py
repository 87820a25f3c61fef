"""Response times of the dashboard's pages with a million jobs in the store."""

import argparse
import json
import statistics
import time
from pathlib import Path

import comparison
import goals
from program import Failed, one_report, say
from report import Measurements
from serving import Server, call, connect, environment, running

HISTORY = 1_000_000
# Requests per page, sequential.
REQUESTS = 20
# Filters match the oldest jobs, so that a page that scans all jobs reads a million.
FAILED = 200
LABEL = {"customer": "acme"}
PROMISED_MS = 200.0
PAGES = {
    "overview": "/",
    "jobs": "/ui/jobs",
    "jobs by status": "/ui/jobs?status=failed",
    "jobs by kind": "/ui/jobs?kind=demo",
    "jobs by queue": "/ui/jobs?queue=rare",
    "jobs by label": "/ui/jobs?label=customer%3Dacme",
    "jobs by text": "/ui/jobs?q=no+toner",
    "jobs of an hour": "/ui/jobs?since=1h",
}


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    data = folder / "dashboard"
    data.mkdir()
    history = 1_000 if args.quick else HISTORY
    with running(args.binary, data) as server:
        fail_some(server)
    fill(args, data, history)
    with running(args.binary, data) as server:
        for _ in measured.passes("dashboard, "):
            for name, path in PAGES.items():
                took: list[float] = []
                for _ in range(2 if args.quick else REQUESTS):
                    call(connect(server.url), "GET", path, took=took)
                measured.add(name, statistics.median(took), "ms", worst=max(took))
            measured.limit("promised", PROMISED_MS)
    return measured.report(goals.DASHBOARD, {"history": f"{history:,}"})


def fill(args: argparse.Namespace, data: Path, history: int) -> None:
    """Creates finished jobs with an engine in its own process, which is minutes faster than over HTTP."""
    say(f"creating {history:,} finished jobs")
    command = [
        str(args.binary), "bench", "bulk", "--json", "--keep", "--jobs", "1000", "--history", str(history),
        "--database", f"sqlite:{data / 'longhaul.db'}",
    ]  # fmt: skip
    one_report(command, environment())


def fail_some(server: Server) -> None:
    """Creates failed jobs with a label, of another kind and queue than the history."""
    job = {"kind": "demo", "input": {"fail": "no toner left"}, "maxAttempts": 1, "queue": "rare", "labels": LABEL}
    connection = connect(server.url)
    call(connection, "POST", "/v1/jobs/batch", {"jobs": [job] * FAILED})
    deadline = time.monotonic() + 60
    path = f"/v1/jobs?queue=rare&status=failed&limit={FAILED}"
    while len(json.loads(call(connection, "GET", path))["jobs"]) < FAILED:
        if time.monotonic() > deadline:
            raise Failed(f"{FAILED} jobs have not failed within a minute")
        time.sleep(0.1)
