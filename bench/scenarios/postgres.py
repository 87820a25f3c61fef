"""Longhaul beside its peers on one private Postgres, and BullMQ on a private Redis, in one run."""

import argparse
import contextlib
import json
import math
import os
from pathlib import Path
from typing import Iterator

import costs
import comparison
import goals
import marks
import peer_report
import plot
import raw_sqlite
from peers import OURS, SCENARIOS, SYSTEMS, Scenario, System, in_order
from machine import check_binary, is_debug, machine, warn_of
from program import Failed, print_json, say, value_of
from services import POSTGRES_SETTINGS, REDIS_SETTINGS, Postgres, install, postgres, redis, redis_version

INPUT_BYTES = 100
FDATASYNCS = 200
# Ten times the slowest scenario, so that a peer that hangs does not delay the others for long.
TIMEOUT_S = 300


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    """Measures all chosen systems. Raises Failed at the end if one failed, after all results are written."""
    systems, scenarios = chosen(args)
    if any(one.name == OURS for one in systems):
        check_binary(args.binary)
    kinds = {system.kind for system in systems} | {"redis" for system in systems if system.redis}
    if peers := sorted(kinds - {"ours"}):
        install(*peers)
    args.out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(args.out / "postgres.jsonl", "w", encoding="utf-8"))
        cluster = stack.enter_context(postgres(folder))
        run = Run(args, folder, cluster, log)
        facts = run.facts(systems)
        warn_of(facts)
        for number in range(1, args.passes + 1):
            say(f"pass {number} of {args.passes}")
            for scenario in scenarios:
                for system in in_order(scenario, systems):
                    run.one(scenario, system, number)
            run.fdatasync(facts)
    facts["loadAfter"] = round(os.getloadavg()[0], 1)
    goals.derive(run.measured)
    outcomes = comparison.compare(run.measured, goals.POSTGRES)
    finish(args, run, facts, systems, scenarios, outcomes)
    if run.failed:
        raise Failed("failed: " + ", ".join(sorted(run.failed)))
    return outcomes


def chosen(args: argparse.Namespace) -> tuple[list[System], list[Scenario]]:
    def of(what: str, text: str, there: list[str]) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in there:
                raise Failed(f"unknown {what} {name}: choose from {', '.join(there)}")
        return names

    system_names = [system.name for system in SYSTEMS]
    scenario_names = [scenario.name for scenario in SCENARIOS]
    only = of("system", args.only, system_names) or system_names
    skip = of("system", args.skip, system_names)
    scenarios = of("scenario", args.scenarios, scenario_names) or scenario_names
    return (
        [one for one in SYSTEMS if one.name in only and one.name not in skip],
        [one for one in SCENARIOS if one.name in scenarios],
    )


class Run:
    """Measurements of all passes, with their cluster and log."""

    def __init__(self, args: argparse.Namespace, folder: Path, cluster: Postgres, log):
        self.args, self.folder, self.cluster, self.log = args, folder, cluster, log
        self.measured: comparison.Measured = {}
        self.failed: set[str] = set()
        self.syncs: list[float] = []
        self.versions: dict[str, str] = {}
        # Keeps peers and psql from using a server that the environment names.
        foreign = ("LONGHAUL_", "DBOS_", "PG", "DATABASE_URL")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}

    def facts(self, systems: list[System]) -> dict:
        facts = machine(self.args, self.folder)
        ours = facts["longhaul"].removeprefix("longhaul ")
        self.versions = {one.name: ours if one.name == OURS else one.version() for one in systems}
        facts["versions"] = self.versions
        facts["postgres"] = self.cluster.query("show server_version").split()[0]
        facts["postgresSettings"] = POSTGRES_SETTINGS
        if any(one.redis for one in systems):
            facts["redis"] = redis_version()
            facts["redisSettings"] = REDIS_SETTINGS
        return facts

    def one(self, scenario: Scenario, system: System, number: int) -> None:
        """Measures once. A system that fails is left out of the scenario, and its earlier passes are dropped."""
        name = f"{system.name} {scenario.name}"
        if name in self.failed:
            return
        size = system.size(scenario, self.args.jobs, self.args.quick)
        try:
            with self.empty_store(system) as (url, meter):
                command = system.command(scenario, self.args.binary, size, INPUT_BYTES, url)
                measured = marks.longhaul_report if system.kind == "ours" else marks.peer_report
                report = measured(command, self.env, TIMEOUT_S, meter.at)
                report |= meter.per_job(size)
            value = value_of(report, scenario.field)
            if not (math.isfinite(value) and value > 0):
                raise Failed(f"not a measurement: {value}")
        except Failed as error:
            say(f"  {name}: {error}")
            self.failed.add(name)
            for known in [one for one in self.measured if one == name or one.startswith(f"{name} ")]:
                del self.measured[known]
            return
        self.measured.setdefault(name, []).append(value)
        more = [(cost.name, cost.field) for cost in costs.COSTS] + [("p99", "p99Ms")]
        for suffix, field in more:
            if field in report:
                self.measured.setdefault(f"{name} {suffix}", []).append(report[field])
        say(f"  {name:<28} {comparison.quantity(value, scenario.unit):>12}  {costs.summary(report)}")
        self.note({
            **report, "type": "result", "pass": number, "scenario": scenario.name,
            "peer": system.name, "version": self.versions[system.name],
            "concurrency": scenario.concurrency,
        })  # fmt: skip

    @contextlib.contextmanager
    def empty_store(self, system: System) -> Iterator[tuple[str, costs.Meter]]:
        """Yields the URL of an empty database or Redis, and the meter of its server."""
        if system.redis:
            with redis(self.folder) as (url, pid):
                yield url, costs.Meter(pid, None)
        else:
            with self.cluster.empty_database("bench") as url:
                yield url, costs.Meter(self.cluster.pid, self.cluster)

    def fdatasync(self, facts: dict) -> None:
        """Measures the disk, for readers with another machine."""
        took = raw_sqlite.fdatasync_ms(self.folder, FDATASYNCS)
        self.syncs.append(took[len(took) // 2])
        facts["fdatasyncP50Ms"] = [round(p50, 3) for p50 in self.syncs]

    def note(self, line: dict) -> None:
        print(json.dumps(line), file=self.log, flush=True)
        if self.args.json:
            print_json(line)


def finish(
    args: argparse.Namespace, run: Run, facts: dict,
    systems: list[System], scenarios: list[Scenario], outcomes: list[comparison.Outcome],
) -> None:  # fmt: skip
    """Writes the table, the plot and the JSON lines."""
    verdicts = not (args.quick or is_debug(args.binary))
    results = peer_report.Results(run.measured, run.failed, systems, scenarios, facts, args)
    text = peer_report.markdown(results, outcomes, verdicts)
    (args.out / "postgres.md").write_text(text, encoding="utf-8")
    (args.out / "postgres.svg").write_text(plot.svg(results), encoding="utf-8")
    with open(args.out / "postgres.jsonl", "a", encoding="utf-8") as log:
        run.log = log
        for outcome in outcomes:
            run.note({"type": "comparison", **comparison.as_json(outcome, {})})
        run.note({"type": "machine", **facts})
    if not args.json:
        print(text, end="")
    say(f"written: {args.out}/postgres.md, postgres.svg and postgres.jsonl")
