"""Requests over HTTP by wrk: liveness, reads and submissions, on SQLite and on Postgres."""

import argparse
import contextlib
import json
import shutil
from pathlib import Path
from typing import Iterator, NamedTuple

import cpu
import comparison
import goals
from program import Failed, one_report, say, value_of
from report import Measurements
from serving import Server, call, connect, environment, running
from services import Postgres, has_postgres, install, postgres

CONNECTIONS = 64
SECONDS = 5
SCRIPT = Path(__file__).resolve().parent.parent / "http.lua"
# Jobs to read, in calls of the largest batch.
BATCHES = 5
BATCH = 1_000
# A paused queue, because a server on SQLite cannot run without workers.
QUEUE = "held"
JOB = {"kind": "demo", "input": {"result": "x" * 100}, "queue": QUEUE}
US = 1_000_000


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    if args.quick and not shutil.which("wrk"):
        say("http: skipped, because wrk is not installed (scripts/setup-bench wrk)")
        return []
    install("wrk")
    measured = Measurements(args, folder)
    with contextlib.ExitStack() as stack:
        clusters: list[Postgres | None] = [None]
        if has_postgres() or not args.quick:
            clusters.append(stack.enter_context(postgres(folder)))
        for _ in measured.passes("http, "):
            for cluster in clusters:
                with served(args, folder, cluster) as subject:
                    one_pass(measured, folder, subject)
            # The order alternates, because the second store finds a warmer machine.
            clusters.reverse()
    return measured.report(goals.HTTP, {"connections": CONNECTIONS})


class Subject(NamedTuple):
    store: str
    server: Server
    postmaster: int | None

    def cpu_s(self) -> dict[str, float]:
        times = {"server cpu": cpu.of_process(self.server.pid)}
        if self.postmaster:
            times["postgres cpu"] = cpu.of_family(self.postmaster)
        return times


@contextlib.contextmanager
def served(args: argparse.Namespace, folder: Path, cluster: Postgres | None) -> Iterator[Subject]:
    """Starts a server on an empty store, so that all passes find the same."""
    data = folder / "http"
    if cluster:
        with (
            cluster.empty_database("http") as url,
            running(args.binary, data, options=("--database", url, "--role", "api")) as server,
        ):
            yield Subject("postgres", server, cluster.pid)
    else:
        with running(args.binary, data) as server:
            yield Subject("sqlite", server, None)
    shutil.rmtree(data)


def one_pass(measured: Measurements, folder: Path, subject: Subject) -> None:
    paths = folder / "http-paths"
    paths.write_text("".join(f"{path}\n" for path in submitted(subject.server)), encoding="utf-8")
    for name, request in (
        ("livez", ["GET", "/livez"]),
        ("get", ["ids", str(paths)]),
        ("post", ["POST", "/v1/jobs", json.dumps(JOB)]),
    ):
        before = subject.cpu_s()
        report = wrk(measured.args, subject.server, request)
        after = subject.cpu_s()
        requests = value_of(report, "requests")
        if not requests or report["failed"]:
            raise Failed(f"{report['failed']} of {requests} requests failed: {name} on {subject.store}")
        title = f"{subject.store} {name}"
        measured.add(title, requests / value_of(report, "seconds"), "/s", report=report)
        for of in before:
            measured.add(f"{title} {of}", (after[of] - before[of]) * US / requests, " µs")
    for title, target in goals.HTTP_TARGETS.items():
        if title.startswith(subject.store):
            measured.limit(f"{title} target", target)


def submitted(server: Server) -> list[str]:
    """Submits jobs and returns their paths."""
    connection = connect(server.url)
    call(connection, "POST", f"/v1/queues/{QUEUE}/pause")
    paths = []
    for _ in range(BATCHES):
        jobs = json.loads(call(connection, "POST", "/v1/jobs/batch", {"jobs": [JOB] * BATCH}))
        paths += [f"/v1/jobs/{job['jobId']}" for job in jobs]
    connection.close()
    return paths


def wrk(args: argparse.Namespace, server: Server, request: list[str]) -> dict:
    command = [
        # Results of its script only, in one line, are JSON.
        "sh", "-c", 'wrk "$@" | tail -n 1', "wrk", "--threads", "1", "--connections", str(CONNECTIONS),
        "--duration", f"{1 if args.quick else SECONDS}s", "--script", str(SCRIPT), server.url, "--", *request,
    ]  # fmt: skip
    return one_report(command, environment())
