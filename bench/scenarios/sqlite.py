"""Longhaul beside the disk, plain SQLite and, with --peers, DBOS, on one file system."""

import argparse
import math
import shutil
import subprocess
import sys
from pathlib import Path

import comparison
import goals
import raw_sqlite
from program import Failed, json_lines, one_report, say, value_of
from report import Measurements, medians
from serving import environment

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "bench" / "peers"
PEERS_VENV = ROOT / ".tools" / "bench-venv"

INPUT_BYTES = 100
PEER_CALLERS = 50


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    if args.peers:
        install_peers()
    run = Run(measured, folder)
    for _ in measured.passes():
        run.one_pass()
    words = {
        "concurrency": args.concurrency, "peer_callers": PEER_CALLERS, "history": f"{args.history:,}",
    }  # fmt: skip
    passes = f"{medians(args)}, {args.jobs:,} jobs"
    return measured.report(goals.SQLITE, words, passes)


class Sizes:
    """Number of jobs per scenario: fast ones get more, so that each takes about a second."""

    def __init__(self, jobs: int, quick: bool):
        self.jobs = jobs
        self.steps_jobs = max(1, jobs // 2)
        self.one_by_one = max(1, jobs // 25)
        self.pickups = 20 if quick else 150
        self.fdatasyncs = 20 if quick else 500
        self.peer_jobs = 100 if quick else 1000
        self.peer_steps_jobs = 20 if quick else 300


class Run:
    def __init__(self, measured: Measurements, folder: Path):
        self.measured, self.args, self.folder = measured, measured.args, folder
        self.sizes = Sizes(self.args.jobs, self.args.quick)
        # Keeps the benchmark from using a server that the environment names.
        self.env = environment()

    def one_pass(self) -> None:
        """Measures each scenario right beside its yardstick, because the machine's speed varies."""
        sizes, concurrency = self.sizes, self.args.concurrency
        self.raw_insert("raw insert 1", sizes.one_by_one, 1)
        self.longhaul("longhaul submit 1", "submit", sizes.one_by_one, 1)
        before = self.raw_batches()
        self.longhaul("longhaul submit", "submit", sizes.jobs, concurrency)
        self.longhaul("longhaul bulk", "bulk", sizes.jobs, concurrency)
        self.longhaul("longhaul drain", "drain", sizes.jobs, concurrency)
        self.longhaul("longhaul steps", "steps", sizes.steps_jobs, concurrency, "stepsPerS")
        after = self.raw_batches()
        # Measured before and after, because half a second is too short for one measurement.
        for name, *seconds in zip(("raw insert 100", "raw drain 100"), before, after):
            self.add(name, 2 * sizes.jobs / sum(seconds), {"rows": 2 * sizes.jobs})
        self.raw_fdatasync()
        self.longhaul("longhaul pickup", "latency", sizes.pickups, concurrency, "p50Ms")
        if self.args.peers:
            self.dbos()
            self.longhaul("longhaul submit peer", "submit", sizes.jobs, PEER_CALLERS)
            self.longhaul("longhaul steps peer", "steps", sizes.steps_jobs, PEER_CALLERS, "stepsPerS")
        if self.args.history:
            self.history()

    def raw_insert(self, name: str, rows: int, batch: int) -> None:
        with raw_sqlite.Table(self.folder, INPUT_BYTES) as table:
            self.add(name, rows / table.insert(rows, batch), {"rows": rows})

    def raw_batches(self) -> tuple[float, float]:
        """Returns the seconds to insert, and to claim and complete."""
        with raw_sqlite.Table(self.folder, INPUT_BYTES) as table:
            inserted = table.insert(self.sizes.jobs, raw_sqlite.BATCH)
            return inserted, table.drain(raw_sqlite.BATCH)

    def raw_fdatasync(self) -> None:
        took = raw_sqlite.fdatasync_ms(self.folder, self.sizes.fdatasyncs)
        p50, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
        self.add("raw fdatasync", p50, {"times": len(took), "p99Ms": round(p99, 3)})

    def longhaul(
        self, name: str, scenario: str, jobs: int, concurrency: int,
        field: str = "jobsPerS", file: str = "longhaul.db", more: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        command = [
            str(self.args.binary), "bench", scenario, "--json",
            "--jobs", str(jobs), "--concurrency", str(concurrency),
            "--input-bytes", str(INPUT_BYTES), "--database", f"sqlite:{self.folder / file}", *more,
        ]  # fmt: skip
        report = one_report(command, self.env)
        self.add(name, value_of(report, field), report)

    def history(self) -> None:
        """Drains a tenth as many pending jobs as there are finished ones, on an empty file and on one with history.

        The first pass creates the history, and later passes extend it.
        """
        pending = max(1, self.args.history // 10)
        concurrency, file = self.args.concurrency, "history.db"
        more: tuple[str, ...] = ("--keep",)
        if not (self.folder / file).exists():
            more += ("--history", str(self.args.history))
            say(f"  creating a history of {self.args.history:,} finished jobs…")
        self.longhaul("longhaul drain empty", "drain", pending, concurrency)
        self.longhaul("longhaul drain history", "drain", pending, concurrency, file=file, more=more)

    def dbos(self) -> None:
        command = [
            str(PEERS_VENV / "bin" / "python"), str(PEERS / "dbos_sqlite.py"),
            "--folder", str(self.folder), "--input-bytes", str(INPUT_BYTES),
            "--jobs", str(self.sizes.peer_jobs), "--steps-jobs", str(self.sizes.peer_steps_jobs),
            "--callers", str(PEER_CALLERS), "--concurrency", str(self.args.concurrency),
        ]  # fmt: skip
        reports = {report["scenario"]: report for report in json_lines(command, self.env)}
        for scenario, field in (("submit", "jobsPerS"), ("drain", "jobsPerS"), ("steps", "stepsPerS")):
            if scenario not in reports:
                raise Failed(f"DBOS reported no {scenario}")
            self.add(f"dbos {scenario}", value_of(reports[scenario], field), reports[scenario])

    def add(self, name: str, value: float, report: dict) -> None:
        if not (math.isfinite(value) and value > 0):
            raise Failed(f"{name}: not a measurement: {value}")
        unit = "ms" if name in ("raw fdatasync", "longhaul pickup") else "/s"
        self.measured.add(name, value, unit, report=report)


def install_peers() -> None:
    """Installs DBOS into .tools/ of this checkout, again when its requirements change."""
    wanted, have = PEERS / "requirements.txt", PEERS_VENV / "requirements.txt"
    if have.exists() and have.read_bytes() == wanted.read_bytes():
        return
    say("Installing DBOS from PyPI into .tools/bench-venv, once for this checkout…")
    shutil.rmtree(PEERS_VENV, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(PEERS_VENV)],
        [str(PEERS_VENV / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check",
         "-r", str(wanted)],
    ):  # fmt: skip
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
            raise Failed("the peers could not be installed")
    # Copied last, so that an interrupted installation is repeated.
    shutil.copyfile(wanted, have)
