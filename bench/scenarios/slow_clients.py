"""A server with ten thousand clients that send nothing, half a head or half a body, beside the same without them."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import comparison
import goals
from program import Failed, say
from report import Measurements
from serving import Memory, Server, call, connect, environment, field, running

QUICK_SOCKETS = 30
# Shorter than the idle timeout minus the time to open all sockets.
SECONDS = 5.0
QUICK_SECONDS = 0.2
QUICK_CONFIG = '[http]\nheader_timeout = "1s"\nbody_timeout = "1s"\n'
PASSES = 3
# Timeouts of the default configuration.
PROMISED_S = {"idle": 10.0, "head": 10.0, "body": 30.0}
BODY = {"kind": "demo", "input": {"result": "x" * 100}}


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    passes = 1 if args.quick else min(args.passes, PASSES)
    with running(args.binary, folder / "sockets", QUICK_CONFIG if args.quick else "") as server:
        rounds = Rounds(measured, server)
        for _ in measured.passes("slow sockets, ", passes):
            rounds.one_pass()
    return measured.report(goals.SOCKETS, {"count": f"{rounds.count:,}"}, f"{passes} passes")


class Rounds:
    def __init__(self, measured: Measurements, server: Server):
        args = measured.args
        self.measured = measured
        self.server = server
        self.count = QUICK_SOCKETS if args.quick else args.sockets
        self.seconds = QUICK_SECONDS if args.quick else SECONDS

    def one_pass(self) -> None:
        self.measured.add("memory calm", Memory.of(self.server.pid).now_mb, " MB")
        self.measure_calls("calm")
        place = urlsplit(self.server.url)
        slow = subprocess.Popen(
            [
                sys.executable, str(Path(__file__).parent.parent / "slow_sockets.py"),
                str(place.hostname), str(place.port), str(self.count),
            ],
            env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            opened = self.read_report(slow)
            if opened["open"] != self.count:
                raise Failed(f"{opened['open']} of {self.count} sockets were open at once")
            say(f"  {self.count:,} slow sockets, opened in {opened['seconds']:.1f} s")
            self.measure_calls("beside slow")
            self.measured.add("memory beside slow", Memory.of(self.server.pid).now_mb, " MB")
            for kind, seconds in self.read_report(slow)["closedAfterS"].items():
                self.measured.add(f"{kind} closed", seconds, " s")
                self.measured.limit(f"{kind} promised", PROMISED_S[kind])
        finally:
            slow.kill()
            slow.wait()

    @staticmethod
    def read_report(slow: subprocess.Popen) -> dict:
        line = slow.stdout.readline() if slow.stdout else ""
        if not line:
            raise Failed(f"exit {slow.wait()}: slow_sockets.py")
        return json.loads(line)

    def measure_calls(self, beside: str) -> None:
        """Submits a job and reads it, repeatedly, over one connection."""
        caller = connect(self.server.url)
        took: dict[str, list[float]] = {"submit": [], "read": []}
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            job = field(call(caller, "POST", "/v1/jobs", BODY, took["submit"]), "jobId")
            for _ in range(3):
                call(caller, "GET", f"/v1/jobs/{job}", took=took["read"])
        caller.close()
        for what, times in took.items():
            self.measured.add(f"{what} {beside}", sorted(times)[int(0.99 * len(times))], "ms")
