"""Child processes and progress output, for all scenarios."""

import json
import subprocess
import sys

# Only for a hang; creating a long history takes minutes.
CHILD_TIMEOUT_S = 1800


class Failed(Exception):
    """A measurement failed, so there is nothing to compare."""


def json_lines(command: list[str], env: dict[str, str], timeout_s: int = CHILD_TIMEOUT_S) -> list[dict]:
    """Returns a program's output, one JSON object per line; its stderr goes to ours."""
    command_line = " ".join(command)
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failed(f"still running after {timeout_s} s: {command_line}") from error
    except OSError as error:
        raise Failed(f"{error}: {command_line}") from error
    if done.returncode != 0:
        raise Failed(f"exit {done.returncode}: {command_line}")
    try:
        return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise Failed(f"not JSON: {done.stdout!r}: {command_line}") from error


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
