"""Values of one scenario over all passes, and their table or JSON lines."""

import argparse
import os
from pathlib import Path
from typing import Iterator

import comparison
from machine import check_binary, is_debug, machine, warn_of
from program import print_json, say


class Measurements:
    def __init__(self, args: argparse.Namespace, folder: Path):
        check_binary(args.binary)
        self.args = args
        self.values: comparison.Measured = {}
        self.facts = machine(args, folder)
        warn_of(self.facts)

    def passes(self, title: str = "", count: int = 0) -> Iterator[int]:
        count = count or self.args.passes
        for number in range(1, count + 1):
            say(f"{title}pass {number} of {count}")
            yield number

    def add(self, name: str, value: float, unit: str, **more: object) -> None:
        """Adds the value of a pass and prints it; `more` is for the JSON line."""
        self.limit(name, value)
        say(f"  {name:<24} {comparison.quantity(value, unit):>12}")
        if self.args.json:
            line = {"type": "result", "pass": len(self.values[name]), "name": name, "value": value}
            print_json({**line, "unit": unit.strip(), **more})

    def limit(self, name: str, value: float) -> None:
        """Adds a value that is not measured, to compare others with."""
        self.values.setdefault(name, []).append(value)

    def report(
        self, comparisons: list[comparison.Comparison], words: dict, passes: str = ""
    ) -> list[comparison.Outcome]:
        """Prints the comparisons. `words` fill the names of comparisons, `passes` describes the number of passes."""
        args, facts = self.args, self.facts
        outcomes = comparison.compare(self.values, comparisons)
        facts["loadAfter"] = round(os.getloadavg()[0], 1)
        if args.json:
            for outcome in outcomes:
                print_json({"type": "comparison", **comparison.as_json(outcome, words)})
            print_json({"type": "machine", **facts})
            return outcomes
        print(comparison.table(outcomes, words, verdicts=not (args.quick or is_debug(args.binary))))
        print(
            f"\n{facts['longhaul']}, {passes or medians(args)}; {facts['cores']} cores ({facts['cpu']}), "
            f"{facts['fileSystem']}, load {facts['loadBefore']} before and {facts['loadAfter']} after."
        )
        return outcomes


def medians(args: argparse.Namespace) -> str:
    return "one pass" if args.passes == 1 else f"medians of {args.passes} passes (lowest–highest)"
