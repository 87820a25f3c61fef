"""Markdown report of the measurements beside peers."""

import argparse
import statistics
from typing import NamedTuple

import costs
import comparison
from peers import Scenario, System


class Results(NamedTuple):
    measured: comparison.Measured
    failed: set[str]
    systems: list[System]
    scenarios: list[Scenario]
    facts: dict
    args: argparse.Namespace

    def passes(self, system: System, scenario: Scenario) -> list[float]:
        return self.measured.get(f"{system.name} {scenario.name}", [])

    def cell(self, system: System, scenario: Scenario) -> str:
        if values := self.passes(system, scenario):
            return comparison.quantity(statistics.median(values), scenario.unit)
        return "failed" if f"{system.name} {scenario.name}" in self.failed else "–"

    def costs(self, system: System, scenario: Scenario) -> dict[str, float]:
        name = f"{system.name} {scenario.name}"
        return {
            cost.field: statistics.median(values)
            for cost in costs.COSTS
            if (values := self.measured.get(f"{name} {cost.name}"))
        }

    def titled(self, system: System) -> str:
        return f"{system.title} {self.facts['versions'][system.name]}"


def markdown(results: Results, outcomes: list[comparison.Outcome], verdicts: bool) -> str:
    """Returns the table of all systems, the comparisons, their settings and the machine."""
    parts = [all_systems(results), costs_per_job(results)]
    if outcomes:
        parts.append(comparison.table(outcomes, {}, verdicts))
    parts.append("\n".join(f"- **{results.titled(one)}**: {one.settings}." for one in results.systems))
    parts.append(circumstances(results))
    return "\n\n".join(parts) + "\n"


def all_systems(results: Results) -> str:
    rows = [["", *(scenario.title for scenario in results.scenarios)]]
    rows.append(["---", *("---:" for _ in results.scenarios)])
    for system in results.systems:
        cells = [results.cell(system, scenario) for scenario in results.scenarios]
        rows.append([results.titled(system), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def costs_per_job(results: Results) -> str:
    """Returns a table of the medians; empty cells are of scenarios that were not measured."""
    rows = [["per job", *(scenario.title.removesuffix(", p50") for scenario in results.scenarios)]]
    rows.append(["---", *("---:" for _ in results.scenarios)])
    for system in results.systems:
        rows.append([system.title, *(costs.summary(results.costs(system, one)) for one in results.scenarios)])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{table}\n\nCPU of the database server + CPU of the client, WAL bytes and WAL records."


def circumstances(results: Results) -> str:
    facts, args = results.facts, results.args
    passes = "one pass" if args.passes == 1 else f"medians of {args.passes} passes"
    text = f"PostgreSQL {facts['postgres']} ({settings(facts['postgresSettings'])})"
    if "redis" in facts:
        text += f", Redis {facts['redis']} ({settings(facts['redisSettings'])})"
    syncs = facts.get("fdatasyncP50Ms", [])
    return (
        f"{text}. {passes[0].upper()}{passes[1:]}, {args.jobs:,} jobs of 100 bytes, fewer for slow "
        f"systems. {facts['cores']} cores ({facts['cpu']}), {facts['fileSystem']}, fdatasync p50 "
        f"{' / '.join(f'{p50:.2f}' for p50 in syncs)} ms, load {facts['loadBefore']} before and "
        f"{facts['loadAfter']} after."
    )


def settings(pairs: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs.items() if value)
