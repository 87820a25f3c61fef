"""Recorded observations of a run, and their index by job.

An observation is a dict with the field `sort`; all instants are seconds since the epoch. A run that is kept has them in
a file, as JSON lines. The checker reads nothing else.

| sort | recorded |
| --- | --- |
| `submit` | one submission: tenant, key, variant, sent, done, status and code (None: no response), job |
| `control` | cancel, resume, fork or purge of a job: sent, done, status, code, version, new (id of a fork) |
| `read` | GET of a job: sent, done, status, and from the body version, state, attempt, maxAttempts, hasResult |
| `steps` | steps of a job at one time: done, steps |
| `event` | one server-sent event: watcher, version, state, attempt, phase |
| `stream` | end of an event stream: watcher, status, last version |
| `delivery` | one request to a webhook receiver: endpoint, id, type, job, version, reply, signed |
| `run` | one line of the ledger: what, job, attempt, step, run, folder |
| `fault`, `process` | an injected fault; start, readiness and end of a replica's process |
| `key`, `probe` | revocation of an API key; a call with a revoked key |
| `foreign` | a response that holds another tenant's data; a call for another tenant's job |
| `final` | everything that is readable of a job after the run |
| `listed`, `usage`, `endpoint-delivery` | a tenant's jobs, usage and deliveries after the run |
| `leftover` | a file that should not exist after the run, or that holds a payload |
| `mark` | instants of the run: healed, settled |
"""

import json
import time
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any, Iterable

Observation = dict[str, Any]

TERMINAL = frozenset({"completed", "failed", "cancelled"})


class Recorder:
    """Keeps observations in memory. Some get their last fields later, so they are saved at the end."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []

    def record(self, sort: str, **fields: Any) -> Observation:
        observation = {"sort": sort, **fields}
        self.observations.append(observation)
        return observation

    def save(self, file: Path) -> None:
        with file.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(observation) + "\n" for observation in self.observations)


def read(file: Path) -> list[Observation]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def now() -> float:
    return time.time()


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def optional_instant(text: str | None) -> float | None:
    return instant(text) if text else None


class JobHistory:
    """All observations of one job."""

    def __init__(self, job: str) -> None:
        self.id = job
        self.by_sort: dict[str, list[Observation]] = defaultdict(list)

    def of(self, sort: str) -> list[Observation]:
        return self.by_sort.get(sort, [])

    def controls(self, command: str) -> list[Observation]:
        return [one for one in self.of("control") if one["command"] == command]

    def acknowledged(self, command: str) -> list[Observation]:
        return [one for one in self.controls(command) if is_success(one["status"])]

    def possible(self, command: str) -> list[Observation]:
        """Returns calls that had an effect or may have had one, because their response was lost."""
        return [one for one in self.controls(command) if is_success(one["status"]) or is_unknown(one["status"])]

    @property
    def final(self) -> Observation | None:
        finals = self.of("final")
        return finals[-1] if finals else None

    @property
    def last(self) -> Observation | None:
        """The job as it was read after the run, if it was still there."""
        final = self.final
        return final if final and final["status"] == 200 else None

    @property
    def transitions(self) -> list[dict[str, Any]]:
        """The job's history after the run: version, state, attempt and phase of each entry."""
        return self.last["history"] if self.last else []

    @property
    def attempts(self) -> list[dict[str, Any]]:
        return self.last["attempts"] if self.last else []

    def runs(self, what: str = "begin") -> list[Observation]:
        return [run for run in self.of("run") if run["what"] == what]

    def claim_of(self, run: Observation) -> int | None:
        """Returns the index of the claim whose worker started a program, among the job's attempts."""
        found = None
        for index, attempt in enumerate(self.attempts):
            same = attempt["attempt"] == run["attempt"] and attempt["replica"] == run["replica"]
            if same and attempt["startedAt"] <= run["at"] + CLOCK_SLACK_S:
                found = index
        return found


# Difference between the clock of a server and that of the programs it starts.
CLOCK_SLACK_S = 0.25


def is_success(status: int | None) -> bool:
    return status is not None and 200 <= status < 300


def is_unknown(status: int | None) -> bool:
    """True if the call may have had an effect: no response, or one that admits it does not know."""
    return status is None or status >= 500


class History:
    """Observations of one run, by sort and by job."""

    def __init__(self, observations: Iterable[Observation]) -> None:
        self.by_sort: dict[str, list[Observation]] = defaultdict(list)
        self.jobs: dict[str, JobHistory] = {}
        for observation in observations:
            self.by_sort[observation["sort"]].append(observation)
            job = observation.get("job")
            if isinstance(job, str):
                self.job(job).by_sort[observation["sort"]].append(observation)

    def of(self, sort: str) -> list[Observation]:
        return self.by_sort.get(sort, [])

    def job(self, job: str) -> JobHistory:
        if job not in self.jobs:
            self.jobs[job] = JobHistory(job)
        return self.jobs[job]

    def mark(self, name: str) -> float | None:
        marks = [one["at"] for one in self.of("mark") if one["name"] == name]
        return marks[-1] if marks else None

    def accepted(self) -> dict[str, str]:
        """Returns id and tenant of each acknowledged job, forks included."""
        found = {one["job"]: one["tenant"] for one in self.of("submit") if is_success(one["status"])}
        for one in self.of("control"):
            if one["command"] == "fork" and is_success(one["status"]):
                found[one["new"]] = one["tenant"]
        return found
