"""The systems that are measured on Postgres, with their settings, sizes and scenarios."""

import json
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NODE = ROOT / ".tools" / "bench-node"
RUST = ROOT / ".tools" / "bench-target" / "release" / "bench-peers"
PEERS = ROOT / "bench" / "peers"

OURS = "longhaul"
PICKUPS = 200
STEPS = ("steps 50", "steps 1")


class Scenario(NamedTuple):
    name: str
    title: str
    ours: str  # name for `longhaul bench`
    theirs: str  # name for the peers' programs
    concurrency: int
    beside: str  # peer of the goal, measured right before Longhaul
    field: str = "jobsPerS"
    unit: str = "/s"


SCENARIOS = [
    Scenario("submit 32", "submit, 32 callers", "submit", "submit", 32, "river"),
    Scenario("submit 256", "submit, 256 callers", "submit", "submit", 256, "bullmq"),
    Scenario("bulk", "submit in bulk", "bulk", "bulk", 1, "river"),
    Scenario("drain", "drain", "drain", "drain", 1000, "graphile-worker"),
    Scenario("pickup", "idle pickup, p50", "latency", "pickup", 1, "bullmq", "p50Ms", "ms"),
    Scenario("steps 50", "three steps, 50 callers", "steps", "steps", 50, "dbos-ts", "stepsPerS"),
    Scenario("steps 1", "three steps, one by one, p50", "steps", "steps", 1, "dbos-ts", "p50Ms", "ms"),
]  # fmt: skip


class System(NamedTuple):
    name: str  # for --only
    title: str
    kind: str  # "ours", "node" or "rust"
    program: str = ""
    package: str = ""  # name in the lock file, for its version
    settings: str = ""  # for the table and the plot; bench/README.md has the reasons
    submit_share: float = 0.1  # of --jobs, so that it takes seconds
    drain_share: float = 5  # of --jobs: 20,000 would be over before it runs steadily
    lacks: tuple[str, ...] = STEPS
    redis: bool = False

    def takes_part(self, scenario: Scenario) -> bool:
        return scenario.name not in self.lacks

    def version(self) -> str:
        """Returns a peer's version from its lock file."""
        if self.kind == "node":
            lock = json.loads((PEERS / "node" / "package-lock.json").read_text(encoding="utf-8"))
            return lock["packages"][f"node_modules/{self.package}"]["version"]
        lock = tomllib.loads((PEERS / "rust" / "Cargo.lock").read_text(encoding="utf-8"))
        [version] = [p["version"] for p in lock["package"] if p["name"] == self.package]
        return version

    def size(self, scenario: Scenario, jobs: int, quick: bool) -> int:
        """Returns the number of jobs: fast systems get more."""
        ours = self.kind == "ours"
        if scenario.name == "pickup":
            return 20 if quick else PICKUPS
        if scenario.name == "steps 1":
            return 20 if quick else 100
        if scenario.name == "steps 50":
            share = 0.5 if ours else 0.025
        elif scenario.theirs == "submit":
            share = self.submit_share
        else:
            share = self.drain_share
        return max(50, int(jobs * share))

    def command(self, scenario: Scenario, binary: Path, size: int, input_bytes: int, url: str) -> list[str]:
        program = {
            "ours": [str(binary), "bench", scenario.ours],
            "node": [
                str(NODE / "node_modules" / ".bin" / "node"), "--no-deprecation",
                str(NODE / self.program), scenario.theirs,
            ],
            "rust": [str(RUST), self.program, scenario.theirs],
        }[self.kind]  # fmt: skip
        return program + [
            "--database", url, "--jobs", str(size),
            "--concurrency", str(scenario.concurrency), "--input-bytes", str(input_bytes),
        ]  # fmt: skip


SYSTEMS = [
    System(
        OURS, "Longhaul", "ours", settings="default settings; finished jobs kept", submit_share=1, lacks=(),
    ),
    System(
        "river", "River for Rust", "rust", "river", "riverqueue",
        "1,000 workers, fetch cooldown 1 ms; finished jobs kept",
    ),
    System(
        "graphile-worker", "graphile-worker", "node", "graphile_worker.mjs", "graphile-worker",
        "24 jobs at once, local queue of 500, batch delays 0; finished jobs deleted",
        submit_share=0.05,
    ),
    System(
        "graphile-rust", "graphile_worker for Rust", "rust", "graphile_worker", "graphile_worker",
        "24 jobs at once, local queue of 500, batch delays 1 ms; finished jobs deleted",
        submit_share=0.05,
    ),
    System(
        "pg-boss", "pg-boss", "node", "pg_boss.mjs", "pg-boss",
        "two workers with batches of 1,000, burst while full (pickup: NOTIFY); finished jobs kept",
    ),
    System(
        "apalis", "apalis-postgres", "rust", "apalis", "apalis-postgres",
        "batches of 500, NOTIFY and a poll every 100 ms, no second lock; finished jobs kept",
    ),
    System(
        "bullmq", "BullMQ", "node", "bullmq.mjs", "bullmq",
        "200 jobs at once, Redis with appendfsync always; finished jobs deleted",
        submit_share=0.5, redis=True,
    ),
    System(
        "dbos-ts", "DBOS for TypeScript", "node", "dbos.mjs", "@dbos-inc/dbos-sdk",
        "200 jobs at once, queue polled every 5 ms (pickup and steps: past the queue); finished jobs kept",
        drain_share=0.1, lacks=("bulk",),
    ),
    System(
        "dbos-rust", "DBOS for Rust", "rust", "dbos_rust", "dbos",
        "1,000 jobs at once, queue polled every 5 ms (pickup and steps: past the queue); finished jobs kept",
        drain_share=0.1, lacks=("bulk",),
    ),
]  # fmt: skip


def in_order(scenario: Scenario, chosen: list[System]) -> list[System]:
    """Returns Longhaul right after the peer of the goal, with half of the others before and after."""
    there = [one for one in chosen if one.takes_part(scenario)]
    others = [one for one in there if one.name not in (OURS, scenario.beside)]
    pair = [one for one in there if one.name == scenario.beside]
    pair += [one for one in there if one.name == OURS]
    return others[: len(others) // 2] + pair + others[len(others) // 2 :]
