"""What was measured beside peers, in Markdown."""

import argparse
import statistics
from typing import NamedTuple

import goals
from contenders import Contender, Scenario


class Results(NamedTuple):
    measured: goals.Measured
    failed: set[str]
    contenders: list[Contender]
    scenarios: list[Scenario]
    facts: dict
    args: argparse.Namespace

    def passes(self, contender: Contender, scenario: Scenario) -> list[float]:
        return self.measured.get(f"{contender.name} {scenario.name}", [])

    def cell(self, contender: Contender, scenario: Scenario) -> str:
        if values := self.passes(contender, scenario):
            return goals.quantity(statistics.median(values), scenario.unit)
        return "failed" if f"{contender.name} {scenario.name}" in self.failed else "–"

    def titled(self, contender: Contender) -> str:
        return f"{contender.title} {self.facts['versions'][contender.name]}"


def markdown(results: Results, outcomes: list[goals.Outcome], verdicts: bool) -> str:
    """Who did what, then what is held against what, then how it was measured."""
    parts = [everybody(results)]
    if outcomes:
        parts.append(goals.table(outcomes, {}, verdicts))
    parts.append("\n".join(f"- **{results.titled(one)}**: {one.settings}." for one in results.contenders))
    parts.append(circumstances(results))
    return "\n\n".join(parts) + "\n"


def everybody(results: Results) -> str:
    rows = [["", *(scenario.title for scenario in results.scenarios)]]
    rows.append(["---", *("---:" for _ in results.scenarios)])
    for contender in results.contenders:
        cells = [results.cell(contender, scenario) for scenario in results.scenarios]
        rows.append([results.titled(contender), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def circumstances(results: Results) -> str:
    facts, args = results.facts, results.args
    passes = "one pass" if args.passes == 1 else f"medians of {args.passes} passes"
    text = f"PostgreSQL {facts['postgres']} ({settings(facts['postgresSettings'])})"
    if "redis" in facts:
        text += f", Redis {facts['redis']} ({settings(facts['redisSettings'])})"
    syncs = facts.get("fdatasyncP50Ms", [])
    return (
        f"{text}. {passes[0].upper()}{passes[1:]}, {args.jobs:,} jobs of 100 bytes, fewer for whoever is "
        f"slow. {facts['cores']} cores ({facts['cpu']}), {facts['fileSystem']}, fdatasync p50 "
        f"{' / '.join(f'{p50:.2f}' for p50 in syncs)} ms, load {facts['loadBefore']} before and "
        f"{facts['loadAfter']} after."
    )


def settings(pairs: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs.items() if value)
