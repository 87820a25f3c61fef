"""The history checker: decides the invariants of a run from its observations, and nothing else.

Each invariant is one function with its number. Everything here and in the `invariants_*` modules is pure, so that
checker_test.py can try it on histories with planted violations.
"""

from dataclasses import dataclass, field
from typing import Callable, Iterable

from history import History, Observation

VIOLATIONS_SHOWN_MAX = 20


@dataclass
class Verdict:
    """Result of one invariant: the facts that were examined, and those that violate it."""

    number: str
    promise: str
    examined: int = 0
    violations: list[str] = field(default_factory=list)

    def expect(self, holds: bool, message: str) -> bool:
        self.examined += 1
        if not holds:
            self.violations.append(message)
        return holds


Invariant = Callable[[History, Verdict], None]
INVARIANTS: list[tuple[str, str, Invariant]] = []


def invariant(number: int | str, promise: str) -> Callable[[Invariant], Invariant]:
    """Registers an invariant under its number, or a promise about a fault under its name."""

    def register(function: Invariant) -> Invariant:
        INVARIANTS.append((str(number), promise, function))
        return function

    return register


def check(observations: Iterable[Observation]) -> list[Verdict]:
    # Imported for their registrations.
    import invariants_effects  # noqa: F401
    import invariants_faults  # noqa: F401
    import invariants_jobs  # noqa: F401
    import invariants_steps  # noqa: F401

    history = History(observations)
    verdicts = []
    for number, promise, function in sorted(INVARIANTS, key=order):
        verdict = Verdict(number, promise)
        function(history, verdict)
        verdicts.append(verdict)
    return verdicts


def order(entry: tuple[str, str, Invariant]) -> tuple[int, str]:
    number = entry[0]
    return (int(number), "") if number.isdigit() else (99, number)


def report(verdicts: list[Verdict]) -> list[str]:
    """Returns one line for each violation."""
    lines = []
    for verdict in verdicts:
        shown = verdict.violations[:VIOLATIONS_SHOWN_MAX]
        lines += [f"[{verdict.number}] {verdict.promise}: {message}" for message in shown]
        if len(verdict.violations) > len(shown):
            lines.append(f"[{verdict.number}] … and {len(verdict.violations) - len(shown)} more")
    return lines
