"""Delivery latency to one endpoint, beside a hundred others that never respond."""

import argparse
import contextlib
import datetime
import json
import socket
import statistics
import time
from pathlib import Path
from typing import Iterator

import comparison
import goals
from program import one_report
from receiver import Receiver, receiving
from report import Measurements
from serving import Server, environment, running

LOOPBACK = '[egress]\nallow = ["127.0.0.1/32"]\n'
HANGING = 99
JOBS_PER_S = 10
JOBS = 300
CALLERS = 8
# For deliveries that are pending when the last job is submitted.
PATIENCE_S = 120


class LatencyReceiver(Receiver):
    """A receiver that records the latency of each delivery since its event."""

    def __init__(self) -> None:
        super().__init__()
        self.delays_ms: list[float] = []

    def expect(self, count: int) -> None:
        super().expect(count)
        self.delays_ms = []

    def came(self, body: bytes) -> None:
        timestamp = json.loads(body)["timestamp"]
        happened = datetime.datetime.fromisoformat(timestamp).timestamp()
        self.delays_ms.append((time.time() - happened) * 1_000)
        super().came(body)


@contextlib.contextmanager
def hanging(count: int) -> Iterator[list[str]]:
    """Opens sockets that accept connections and never respond; the kernel's backlog does that."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64)) for _ in range(count)]
        yield [f"http://127.0.0.1:{one.getsockname()[1]}/" for one in sockets]


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    with (
        hanging(HANGING) as dead,
        receiving(LatencyReceiver()) as receiver,
        running(args.binary, folder / "calm", LOOPBACK) as calm,
        running(args.binary, folder / "beside", LOOPBACK) as beside,
    ):
        for server, urls in [(calm, [receiver.url]), (beside, [*dead, receiver.url])]:
            listen(args, server, urls)
        servers = [("calm", calm), ("beside", beside)]
        for _ in measured.passes("hanging endpoints, "):
            for name, server in servers:
                deliver(measured, name, server, receiver)
            servers.reverse()
    return measured.report(goals.HANGING, {"hanging": HANGING, "rate": JOBS_PER_S})


def listen(args: argparse.Namespace, server: Server, urls: list[str]) -> None:
    for url in urls:
        command = [str(args.binary), "--json", "--server", server.url, "endpoints", "create", url]
        one_report([*command, "--event", "job.completed"], environment())


def deliver(measured: Measurements, name: str, server: Server, receiver: LatencyReceiver) -> None:
    args = measured.args
    jobs = 50 if args.quick else JOBS
    receiver.expect(jobs)
    command = [str(args.binary), "--json", "--server", server.url, "bench", "submit"]
    command += ["--jobs", str(jobs), "--concurrency", str(CALLERS), "--rate", str(JOBS_PER_S)]
    one_report(command, environment())
    receiver.rate(PATIENCE_S)
    cuts = statistics.quantiles(receiver.delays_ms, n=100, method="inclusive")
    measured.add(f"latency p50 {name}", cuts[49], "ms")
    measured.add(f"latency p99 {name}", cuts[98], "ms")
