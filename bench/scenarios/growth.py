"""A large or old store: claims and lists with millions of jobs, thousands of tenants and queues, idle watchers."""

import argparse
import contextlib
import datetime
import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, NamedTuple
from urllib.parse import urlsplit

import cpu
import comparison
import goals
from program import Failed, one_report, say, value_of
from report import Measurements
from serving import Memory, Server, call, connect, environment, running
from serving import field as value
from services import Postgres, has_postgres, postgres

WATCHERS = Path(__file__).resolve().parent.parent / "watchers.py"
LIST_CALLERS = WATCHERS.with_name("list_callers.py")
# As many slots as the drain beside peers has, and a quota above the history.
CONFIG = "[worker]\nconcurrency = 1000\n[limits]\npending_per_tenant_max = 2000000\n"
BATCH = 1_000
LIST = "/v1/jobs?limit=20"
NO_OP = {"kind": "demo", "input": {}}
# Name of a drain -> the field in which its jobs differ.
LANES = {"one lane": "", "queues": "queue", "tenants": "tenant"}
# Ten times as long as a slow drain of all lanes.
DRAIN_TIMEOUT_S = 60
POLL_S = 0.05
COMPLETED = re.compile(rb'^longhaul_attempts_ended_total\{kind="demo",status="completed"\} (\d+)', re.MULTILINE)


class Sizes(NamedTuple):
    history: int = 1_000_000  # pending jobs, and as many finished ones
    claimed: int = 10_000
    lanes: int = 10_000
    # Time to submit all jobs of the lanes before they are due.
    due_s: float = 10
    lists: int = 50
    list_callers: int = 16
    beside_s: float = 10
    watchers: int = 10_000
    idle_s: float = 10


QUICK = Sizes(
    history=1_000, claimed=100, lanes=100, due_s=2, lists=3, list_callers=4, beside_s=0.5, watchers=50, idle_s=1,
)  # fmt: skip


class Subject(NamedTuple):
    store: str
    url: str  # of the database
    data: Path
    cluster: Postgres | None

    def serve(self, args: argparse.Namespace) -> contextlib.AbstractContextManager[Server]:
        return running(args.binary, self.data, CONFIG, ("--database", self.url))


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    sizes = QUICK if args.quick else Sizes()
    with contextlib.ExitStack() as stack:
        clusters: list[Postgres | None] = [None]
        if has_postgres() or not args.quick:
            clusters.append(stack.enter_context(postgres(folder)))
        old = [stack.enter_context(empty(folder, f"{store_name(one)}_old", one)) for one in clusters]
        for number in measured.passes("growth, "):
            for cluster, aged in zip(clusters, old):
                run = Run(measured, sizes)
                # One store for each drain, because a drain that does not end leaves jobs.
                for name, lane in LANES.items():
                    if name == "tenants" and not cluster:
                        continue
                    with empty(folder, f"{store_name(cluster)}_lanes", cluster) as young, young.serve(args) as server:
                        run.drain(young, server, name, lane)
                        if name == "one lane":
                            run.lists(f"{young.store} list young", server)
                            run.watchers(young, server, folder)
                run.claims(aged, create=number == 1)
                with aged.serve(args) as server:
                    run.lists(f"{aged.store} list old", server)
                    run.beside_lists(aged, server)
    words = {"history": f"{sizes.history:,}", "lanes": f"{sizes.lanes:,}", "watchers": f"{sizes.watchers:,}"}
    words["list_callers"] = f"{sizes.list_callers}"
    return measured.report(goals.GROWTH, words)


def store_name(cluster: Postgres | None) -> str:
    return "postgres" if cluster else "sqlite"


@contextlib.contextmanager
def empty(folder: Path, name: str, cluster: Postgres | None) -> Iterator[Subject]:
    data = folder / name
    data.mkdir()
    if cluster:
        with cluster.empty_database(name) as url:
            yield Subject("postgres", url, data, cluster)
    else:
        yield Subject("sqlite", f"sqlite:{data / 'longhaul.db'}", data, None)
    shutil.rmtree(data)


class Run:
    def __init__(self, measured: Measurements, sizes: Sizes):
        self.measured, self.args, self.sizes = measured, measured.args, sizes

    def add(self, name: str, value: float, unit: str) -> None:
        self.measured.add(name, value, unit)
        for kind, target in goals.GROWTH_TARGETS.items():
            if name.endswith(kind):
                self.measured.limit(f"{name} target", target)

    def claims(self, subject: Subject, create: bool) -> None:
        """Times claims. The first pass creates the jobs; a pass submits as many as it claims, so that they stay."""
        sizes = self.sizes
        if create:
            say(f"  creating {sizes.history:,} finished and as many pending jobs…")
        history = sizes.history if create else 0
        command = [
            str(self.args.binary), "bench", "claim", "--json", "--keep", "--jobs", str(sizes.claimed),
            "--history", str(history), "--pending", str(history), "--database", subject.url,
        ]  # fmt: skip
        report = one_report(command, environment())
        self.add(f"{subject.store} claim p99", value_of(report, "p99Ms"), "ms")

    def lists(self, name: str, server: Server) -> None:
        connection = connect(server.url)
        took: list[float] = []
        for _ in range(self.sizes.lists):
            call(connection, "GET", LIST, took=took)
        connection.close()
        self.add(name, statistics.median(took), "ms")

    def beside_lists(self, subject: Subject, server: Server) -> None:
        """Times other calls, first alone and then beside callers whose lists examine every job and match none."""
        self.calls(subject, server, "alone")
        address = urlsplit(server.url)
        with subprocess.Popen(
            [
                sys.executable, str(LIST_CALLERS), str(address.hostname), str(address.port),
                str(self.sizes.list_callers),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as callers:  # fmt: skip
            assert callers.stdin and callers.stdout
            try:
                if not callers.stdout.readline():
                    raise Failed(f"exit {callers.wait()}: {LIST_CALLERS.name}")
                begun = time.monotonic()
                self.calls(subject, server, "beside lists")
                seconds = time.monotonic() - begun
                callers.stdin.close()
                report = callers.stdout.readline()
                if not report:
                    raise Failed(f"exit {callers.wait()}: {LIST_CALLERS.name}")
            finally:
                callers.kill()
        self.add(f"{subject.store} useless pages", json.loads(report)["pages"] / seconds, "/s")

    def calls(self, subject: Subject, server: Server, when: str) -> None:
        """Submits a job, reads it three times, and runs one to its end, repeatedly, over one connection."""
        connection = connect(server.url)
        took: dict[str, list[float]] = {"submit": [], "read": [], "run": []}
        until = time.monotonic() + self.sizes.beside_s
        while time.monotonic() < until:
            job = value(call(connection, "POST", "/v1/jobs", NO_OP, took["submit"]), "jobId")
            for _ in range(3):
                call(connection, "GET", f"/v1/jobs/{job}", took=took["read"])
            call(connection, "POST", "/v1/jobs?mode=sync", NO_OP, took["run"])
        connection.close()
        for what, times in took.items():
            self.add(f"{subject.store} {what} {when}", sorted(times)[int(0.99 * len(times))], "ms")

    def drain(self, subject: Subject, server: Server, name: str, field: str) -> None:
        """Drains jobs that become due at once. One that does not end in time counts what it has completed."""
        count = self.sizes.lanes
        lanes = [{field: f"lane-{number}"} if field else {} for number in range(count)]
        due = time.time() + self.sizes.due_s
        connection = connect(server.url)
        before = completed(connection)
        run_at = datetime.datetime.fromtimestamp(due, datetime.UTC).isoformat(timespec="milliseconds")
        if subject.cluster:
            submit_by_sql(subject, count, field, run_at)
        else:
            for first in range(0, count, BATCH):
                jobs = [{"kind": "demo", "input": {}, "runAt": run_at, **lane} for lane in lanes[first : first + BATCH]]
                call(connection, "POST", "/v1/jobs/batch", {"jobs": jobs})
        if (early := due - time.time()) < 0:
            raise Failed(f"{count} jobs were not submitted within {self.sizes.due_s} s: {name} on {subject.store}")
        time.sleep(early)
        while (done := completed(connection) - before) < count:
            if time.time() > due + DRAIN_TIMEOUT_S:
                say(f"  only {done:,} of {count:,} jobs ran within {DRAIN_TIMEOUT_S} s: {name} on {subject.store}")
                break
            time.sleep(POLL_S)
        self.add(f"{subject.store} drain {name}", done / (time.time() - due), "/s")
        connection.close()

    def watchers(self, subject: Subject, server: Server, folder: Path) -> None:
        """Opens an event stream for each of many jobs that do nothing."""
        connection = connect(server.url)
        paths = []
        for _ in range(0, self.sizes.watchers, BATCH):
            size = min(BATCH, self.sizes.watchers)
            jobs = [{"kind": "demo", "input": {}, "delay": "1h"}] * size
            created = json.loads(call(connection, "POST", "/v1/jobs/batch", {"jobs": jobs}))
            paths += [f"/v1/jobs/{job['jobId']}/events" for job in created]
        connection.close()
        file = folder / "watched"
        file.write_text("\n".join(paths), encoding="utf-8")
        address = urlsplit(server.url)
        with subprocess.Popen(
            [sys.executable, str(WATCHERS), str(address.hostname), str(address.port), str(file)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as watchers:  # fmt: skip
            assert watchers.stdin and watchers.stdout
            try:
                opened = watchers.stdout.readline()
                if not opened:
                    raise Failed(f"exit {watchers.wait()}: {WATCHERS.name}")
                before = cpu.of_process(server.pid)
                time.sleep(self.sizes.idle_s)
                share = (cpu.of_process(server.pid) - before) / self.sizes.idle_s * 100
                memory = Memory.of(server.pid).now_mb
                watchers.stdin.close()
                still_open = json.loads(watchers.stdout.readline() or "{}").get("open")
                if still_open != len(paths):
                    raise Failed(f"{still_open} of {len(paths)} streams were still open")
            finally:
                watchers.kill()
        self.add(f"{subject.store} watchers cpu", share, " %")
        self.add(f"{subject.store} watchers memory", memory, " MB")


def submit_by_sql(subject: Subject, count: int, field: str, run_at: str) -> None:
    """Submits with the SQL function, which is for any tenant; over HTTP each tenant needs a key."""
    assert subject.cluster
    lane = f", {field} => 'lane-' || number" if field else ""
    job = f"longhaul.submit('demo', '{{}}'::jsonb, run_at => '{run_at}', hint => false{lane})"
    subject.cluster.query_in(subject.url, f"select count({job}) from generate_series(1, {count}) number")


def completed(connection) -> int:
    match = COMPLETED.search(call(connection, "GET", "/metrics"))
    return int(match[1]) if match else 0
