"""Comparisons of measurements with each other and with a goal, and their table. The goals are in goals.py."""

import statistics
from typing import NamedTuple

# Name of a measurement -> its value in each pass.
Measured = dict[str, list[float]]

# The worst pass reaches this share of the goal; where less is better, the goal is this share of the worst pass.
WORST_SHARE = 0.8


class Comparison(NamedTuple):
    scenario: str
    ours: str  # name of a measurement, as is `theirs`
    theirs: str
    beside: str  # description of `theirs`
    unit: str = "/s"  # of both: "/s" and " MB/s", more is better; for all others, as "ms" and " MB", less
    times: float = 1  # ours is compared with this many of theirs
    goal: float | None = None  # the ratio to reach, or not to exceed where less is better
    slack: float = 0  # subtracted from ours before the goal is checked, in its unit
    reason: str = ""  # for the goal

    @property
    def less_is_better(self) -> bool:
        return not self.unit.endswith("/s")


class Outcome(NamedTuple):
    comparison: Comparison
    ours: float
    theirs: float
    ratios: list[float]
    median_met: bool | None  # None where there is no goal
    worst_met: bool | None

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def met(self) -> bool | None:
        return None if self.median_met is None else bool(self.median_met and self.worst_met)


def compare(measured: Measured, comparisons: list[Comparison]) -> list[Outcome]:
    """Compares measurements. The ratio is the median over the ratios of all passes."""
    outcomes = []
    for comparison in comparisons:
        if comparison.ours not in measured or comparison.theirs not in measured:
            continue
        ours = measured[comparison.ours]
        theirs = [value * comparison.times for value in measured[comparison.theirs]]
        ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
        median_met = worst_met = None
        if comparison.goal is not None:
            values = [(our - comparison.slack) / their for our, their in zip(ours, theirs, strict=True)]
            worst = worst_allowed(comparison)
            if comparison.less_is_better:
                median_met = statistics.median(values) <= comparison.goal
                worst_met = max(values) <= worst
            else:
                median_met = statistics.median(values) >= comparison.goal
                worst_met = min(values) >= worst
        outcomes.append(
            Outcome(comparison, statistics.median(ours), statistics.median(theirs), ratios, median_met, worst_met)
        )
    return outcomes


def worst_allowed(comparison: Comparison) -> float:
    """Returns the ratio that no pass may miss."""
    goal = comparison.goal or 0
    return goal / WORST_SHARE if comparison.less_is_better else goal * WORST_SHARE


def table(outcomes: list[Outcome], words: dict[str, object], verdicts: bool) -> str:
    """Returns a Markdown table; `words` fill the braces in the scenarios' names."""
    rows = [("scenario", "Longhaul", "beside it", "", "ratio", "goal")]
    rows.append(("---", "---:", "---", "---:", "---:", "---"))
    for outcome in outcomes:
        comparison = outcome.comparison
        rows.append((
            comparison.scenario.format(**words),
            quantity(outcome.ours, comparison.unit),
            comparison.beside,
            quantity(outcome.theirs, comparison.unit),
            ratio(outcome.ratios),
            goal(outcome, verdicts),
        ))  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def as_json(outcome: Outcome, words: dict[str, object]) -> dict:
    comparison = outcome.comparison
    return {
        "scenario": comparison.scenario.format(**words), "ours": outcome.ours,
        "beside": comparison.beside, "theirs": outcome.theirs, "unit": comparison.unit,
        "ratio": outcome.ratio, "ratios": outcome.ratios, "goal": comparison.goal, "met": outcome.met,
        "medianMet": outcome.median_met, "worstMet": outcome.worst_met,
    }  # fmt: skip


def quantity(value: float, unit: str) -> str:
    if unit == "ms":
        return f"{value:.2f} ms"
    if unit in (" rec.", " %"):
        return f"{value:.1f}{unit}"
    return f"{value:.1f} s" if unit == " s" else f"{value:,.0f}{unit}"


def ratio(ratios: list[float]) -> str:
    middle = statistics.median(ratios)
    digits = 0 if middle >= 10 else 2 if middle >= 0.1 else 4
    text = f"{middle:.{digits}f}"
    if len(ratios) > 1:
        text += f" ({min(ratios):.{digits}f}–{max(ratios):.{digits}f})"
    return text


def goal(outcome: Outcome, verdict: bool) -> str:
    comparison = outcome.comparison
    if comparison.goal is None:
        return "–"
    sign = "≤" if comparison.less_is_better else "≥"
    slack = f" + {comparison.slack:g} {comparison.unit.strip()}" if comparison.slack else ""
    text = f"{sign} {comparison.goal:g}{slack}"
    if verdict:
        text += f" {judgement(outcome)}"
    return text


def judgement(outcome: Outcome) -> str:
    if outcome.met:
        return "✓"
    if not outcome.median_met:
        return "✗ missed"
    which = "highest above" if outcome.comparison.less_is_better else "lowest below"
    return f"✗ {which} {worst_allowed(outcome.comparison):.3g}"
