"""Runs other programs, and says how it goes: what both parts of the benchmark share."""

import json
import subprocess
import sys

# No scenario takes minutes, but the making of a long history does: the limit is for a hang.
CHILD_TIMEOUT_S = 1800


class Failed(Exception):
    """Something did not run: there is nothing to compare."""


def json_lines(command: list[str], env: dict[str, str], timeout_s: int = CHILD_TIMEOUT_S) -> list[dict]:
    """What a program printed, one JSON object a line; its stderr goes to ours."""
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failed(f"still running after {timeout_s} s: {shown}") from error
    except OSError as error:
        raise Failed(f"{error}: {shown}") from error
    if done.returncode != 0:
        raise Failed(f"exit {done.returncode}: {shown}")
    try:
        return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise Failed(f"not JSON: {done.stdout!r}: {shown}") from error


def one_report(command: list[str], env: dict[str, str], timeout_s: int = CHILD_TIMEOUT_S) -> dict:
    reports = json_lines(command, env, timeout_s)
    if len(reports) != 1:
        raise Failed(f"{len(reports)} reports for one scenario: {' '.join(command)}")
    return reports[0]


def value_of(report: dict, field: str) -> float:
    if not isinstance(report.get(field), (int, float)):
        raise Failed(f"no {field} in {report}")
    return report[field]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def print_json(line: dict) -> None:
    print(json.dumps(line), flush=True)
