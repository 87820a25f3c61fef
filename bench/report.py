"""Table or JSON lines of any scenario."""

import argparse
import os

import goals
from machine import is_debug
from program import print_json


def report(
    args: argparse.Namespace,
    measured: goals.Measured,
    comparisons: list[goals.Comparison],
    words: dict,
    facts: dict,
    passes: str = "",
) -> list[goals.Outcome]:
    """Prints the comparisons. `words` fill the names of comparisons, `passes` describes the number of passes."""
    outcomes = goals.compare(measured, comparisons)
    facts["loadAfter"] = round(os.getloadavg()[0], 1)
    if args.json:
        for outcome in outcomes:
            print_json({"type": "comparison", **goals.as_json(outcome, words)})
        print_json({"type": "machine", **facts})
        return outcomes
    print(goals.table(outcomes, words, verdicts=not (args.quick or is_debug(args.binary))))
    print(
        f"\n{facts['longhaul']}, {passes or medians(args)}; {facts['cores']} cores ({facts['cpu']}), "
        f"{facts['fileSystem']}, load {facts['loadBefore']} before and {facts['loadAfter']} after."
    )
    return outcomes


def medians(args: argparse.Namespace) -> str:
    return "one pass" if args.passes == 1 else f"medians of {args.passes} passes (lowest–highest)"
