#!/usr/bin/env python3
"""DBOS for Python on a SQLite file: one JSON line per scenario, in the words of `longhaul bench --json`.

Started by `bench/run --peers` with the interpreter of .tools/bench-venv. The settings are those that
made DBOS fastest here: async functions, a queue polled every 5 ms, and a file in WAL mode, which DBOS
keeps but does not choose by itself.
"""

import argparse
import asyncio
import json
import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Awaitable, Callable

if sqlite3.sqlite_version_info < (3, 42):
    import pysqlite3

    sys.modules["sqlite3"] = sqlite3 = pysqlite3

from dbos import DBOS, DBOSClient

QUEUE = "bench"
POLL_EVERY_S = 0.005
GIVE_UP_AFTER_S = 120

started_at: list[float] = []


@DBOS.workflow(name="noop")
async def noop(_input: str) -> None:
    started_at.append(time.perf_counter())


@DBOS.step(name="nothing")
async def nothing() -> None:
    pass


@DBOS.workflow(name="three_steps")
async def three_steps(_input: str) -> None:
    for _ in range(3):
        await nothing()


def launch(file: Path, queues: list[str]) -> None:
    DBOS(config={
        "name": "bench", "system_database_url": f"sqlite:///{file}",
        "log_level": "ERROR", "run_admin_server": False,
    })  # fmt: skip
    DBOS.listen_queues(queues)
    DBOS.launch()


def fresh(file: Path, journal: str) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    db = sqlite3.connect(file)
    db.execute(f"pragma journal_mode = {journal}")
    db.close()


def unfinished(file: Path) -> int:
    db = sqlite3.connect(file, timeout=30)
    try:
        query = "select count(*) from workflow_status where status <> 'SUCCESS'"
        return db.execute(query).fetchone()[0]
    finally:
        db.close()


async def by_callers(
    callers: int, jobs: int, call: Callable[[], Awaitable[object]]
) -> tuple[float, list[float]]:
    """Returns total seconds, and sorted milliseconds of each call."""
    took: list[float] = []
    turns = iter(range(jobs))

    async def caller() -> None:
        for _ in turns:
            began = time.perf_counter()
            await call()
            took.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return time.perf_counter() - began, sorted(took)


def wait_until(what: str, done: Callable[[], bool], every_s: float) -> None:
    deadline = time.monotonic() + GIVE_UP_AFTER_S
    while not done():
        if time.monotonic() > deadline:
            sys.exit(f"dbos_sqlite: not {what} after {GIVE_UP_AFTER_S} s")
        time.sleep(every_s)


def report(scenario: str, jobs: int, seconds: float, took: list[float], steps: int = 0) -> None:
    line = {
        "scenario": scenario, "jobs": jobs,
        "seconds": round(seconds, 3), "jobsPerS": round(jobs / seconds, 3),
    }  # fmt: skip
    if steps:
        line["stepsPerS"] = round(jobs * steps / seconds, 3)
    if took:
        line["p50Ms"] = round(took[len(took) // 2], 3)
        line["p99Ms"] = round(took[len(took) * 99 // 100], 3)
    print(json.dumps(line), flush=True)


def submit_and_drain(args: argparse.Namespace, file: Path) -> None:
    fresh(file, args.journal)
    # The first launch creates the tables; it listens to another queue, so that nothing runs yet.
    launch(file, ["none"])
    DBOS.register_queue(QUEUE, polling_interval_sec=POLL_EVERY_S, worker_concurrency=args.concurrency)
    DBOS.destroy()

    client = DBOSClient(system_database_url=f"sqlite:///{file}")
    options = {"queue_name": QUEUE, "workflow_name": "noop"}
    filler = "x" * args.input_bytes
    seconds, took = asyncio.run(
        by_callers(args.callers, args.jobs, lambda: client.enqueue_async(options, filler))
    )
    client.destroy()
    report("submit", args.jobs, seconds, took)

    launch(file, [QUEUE])
    # Counted in memory first: looking into the file would slow down what is measured.
    wait_until("all started", lambda: len(started_at) >= args.jobs, 0.005)
    wait_until("all finished", lambda: unfinished(file) == 0, 0.02)
    # From the first start: the second or so until DBOS first looks at its queues is not counted.
    report("drain", args.jobs, time.perf_counter() - started_at[0], [])
    DBOS.destroy()


def steps(args: argparse.Namespace, file: Path) -> None:
    fresh(file, args.journal)
    launch(file, ["none"])
    filler = "x" * args.input_bytes

    async def measure() -> tuple[float, list[float]]:
        await by_callers(1, 10, lambda: three_steps(filler))  # opens the connections
        return await by_callers(args.callers, args.steps_jobs, lambda: three_steps(filler))

    seconds, took = asyncio.run(measure())
    report("steps", args.steps_jobs, seconds, took, steps=3)
    DBOS.destroy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the file goes")
    parser.add_argument("--jobs", type=int, default=1000, help="for submit and drain")
    parser.add_argument("--steps-jobs", type=int, default=300, help="for steps")
    parser.add_argument("--callers", type=int, default=50, help="for submit and steps")
    parser.add_argument("--concurrency", type=int, default=256, help="jobs that run at once in drain")
    parser.add_argument("--input-bytes", type=int, default=100, help="bytes of each job's input")
    parser.add_argument("--journal", choices=["wal", "delete"], default="wal", help="of the file")
    args = parser.parse_args()
    file = args.folder.resolve() / "dbos.db"
    submit_and_drain(args, file)
    steps(args, file)
    # Exits without waiting for sleeping threads: all results are on disk.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
