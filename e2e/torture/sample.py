"""A small history without violations, in which checker_test.py plants them one at a time.

It has one job for each feature: `taken` (its worker is killed in its second step, and another takes over; with payload
and artifact), `released` (its worker is stopped between its steps), `cancelled` (and resumed), `parent` and its `fork`, `purged`.
"""

from typing import Any

from history import Observation
from plan import REDIRECTED  # noqa: F401  (for tests that plant a followed redirect)

STEPS = ("a", "b")


class Job:
    """Builds the observations of one job on a time line of whole seconds."""

    def __init__(self, name: str, tenant: str = "acme", payload: int = 0) -> None:
        self.id, self.tenant, self.payload = name, tenant, payload
        self.observations: list[Observation] = []
        self.history: list[dict[str, Any]] = []
        self.attempts: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.state, self.attempt, self.max_attempts = "", 0, 4
        self.result: Any = None
        self.forked_from: str | None = None
        self.ended_at: float | None = None

    def record(self, sort: str, **fields: Any) -> None:
        self.observations.append({"sort": sort, "job": self.id, "tenant": self.tenant, **fields})

    def submit(self, at: float) -> "Job":
        self.record(
            "submit", number=0, key=f"key-{self.id}", variant=0, sent=at - 0.1, done=at, status=202, code=None,
            kind="chain2", steps=list(STEPS), maxAttempts=4, payload=self.payload, digest=f"digest-{self.id}",
            created=at, retention=0.0, artifact=bool(self.payload), ownWebhook=False,
        )  # fmt: skip
        return self.move(at, "pending")

    def move(self, at: float, state: str, phase: str | None = None) -> "Job":
        """Adds a transition, which a reader, a watcher and the tenant's endpoint see."""
        version = len(self.history) + 1
        self.state = state
        entry = {"version": version, "state": state, "attempt": self.attempt, "phase": phase}
        self.history.append(entry)
        self.record("event", watcher=f"{self.id}.0", at=at + 0.1, since=version - 1, hasResult=state == "completed", **entry)
        self.record(
            "read", replica=version % 3, sent=at + 0.1, done=at + 0.2, status=200, maxAttempts=self.max_attempts,
            hasResult=state == "completed", expiresAt=None, **entry,
        )  # fmt: skip
        if self.tenant == "acme":
            kind = "job.phase" if phase else f"job.{state}"
            message = f"msg-{self.id}-{version}"
            self.record(
                "delivery", at=at + 0.3, path="/endpoint/acme", id=message, type=kind, version=version, state=state,
                reply=200, signed=True, foreign=[],
            )  # fmt: skip
            self.record(
                "endpoint-delivery", id=message, type=kind, endpoint="ep_1", url=None, state="completed", attempt=1,
                maxAttempts=10, runAt=at, at=200.0,
            )  # fmt: skip
        return self

    def claim(self, at: float, replica: str, charged: bool = True) -> "Job":
        self.attempt += charged
        self.attempts.append({
            "attempt": self.attempt, "replica": replica, "startedAt": at, "endedAt": None, "status": None, "error": None
        })  # fmt: skip
        return self.move(at, "running")

    def step(self, at: float, name: str, finishes: bool = True) -> "Job":
        """Runs a step for one second."""
        replica = self.attempts[-1]["replica"]
        run = f"run-{self.id}-{name}-{len(self.attempts)}"
        line = {"attempt": self.attempt, "step": name, "run": run, "replica": replica,
                "folder": f"{self.id}-{len(self.attempts)}"}  # fmt: skip
        self.record("run", what="begin", at=at, **line)
        if finishes:
            self.record("run", what="end", at=at + 0.9, **line)
            written = {"run": run, "job": self.id, "step": name, "attempt": self.attempt,
                       "payload": f"digest-{self.id}" if self.payload else ""}  # fmt: skip
            self.steps.append({
                "name": name, "position": len(self.steps), "output": written, "attempt": self.attempt,
                "completedAt": at + 1.0,
            })  # fmt: skip
            self.record("steps", done=at + 1.1, steps=[dict(step) for step in self.steps])
        return self

    def end(self, at: float, state: str, error: str | None = None) -> "Job":
        """Ends the attempt."""
        self.attempts[-1] |= {"endedAt": at, "status": state, "error": {"code": error} if error else None}
        if state == "completed":
            self.result = self.steps[-1]["output"]
        self.ended_at = at
        return self.move(at, state)

    def control(self, at: float, command: str, status: int = 202, **fields: Any) -> "Job":
        self.record(
            "control", command=command, sent=at - 0.1, done=at, status=status, code=None, version=len(self.history),
            **({"state": self.state, "fromStep": None, "new": None} | fields),
        )  # fmt: skip
        return self

    def finals(self) -> list[Observation]:
        """Returns the job's observations with its final state."""
        receipt = []
        if self.payload:
            assert self.ended_at
            receipt.append({"role": "payload", "name": "", "size": self.payload, "sha256": f"digest-{self.id}",
                            "keyDestroyedAt": self.ended_at, "deletedAt": self.ended_at + 0.1})  # fmt: skip
        key = None if self.forked_from else f"key-{self.id}"
        body = {"jobId": self.id, "kind": "chain2", "status": self.state, "attempt": self.attempt,
                "maxAttempts": self.max_attempts, "idempotencyKey": key, "forkedFrom": self.forked_from,
                "artifacts": [{"name": "run.txt"}] if self.payload else []}  # fmt: skip
        run = self.result["run"] if self.result else None
        self.record("stream", watcher=f"{self.id}.0", at=190.0, status=200, last=len(self.history), since=0, complete=True)
        self.record(
            "final", status=200, at=200.0, receipt=receipt, body=body, completedAt=self.ended_at, expiresAt=None,
            history=self.history, steps=[dict(step) for step in self.steps], attempts=self.attempts,
            resultStatus=200 if self.result else 409, result=self.result, bodyResult=self.result,
            input={"variant": 0, "plan": ""}, artifacts={"run.txt": f"artifact of {run}"} if self.payload else {},
        )  # fmt: skip
        return self.observations

    def summary(self) -> dict[str, Any]:
        key = None if self.forked_from else f"key-{self.id}"
        return {"jobId": self.id, "idempotencyKey": key, "status": self.state, "forkedFrom": self.forked_from}


def clean() -> list[Observation]:
    """Returns the history."""
    taken = Job("taken", payload=5_000).submit(100)
    taken.claim(101, "r1").move(102, "running", "a").step(102, "a").move(103, "running", "b").step(103.2, "b", False)
    taken.end(107, "pending", "worker-lost").claim(107.5, "r2").step(108, "b").end(110, "completed")

    cancelled = Job("cancelled", tenant="initech").submit(100).claim(101, "r2").step(102, "a")
    cancelled.move(103.5, "running", "cancelling").control(103.6, "cancel").end(104, "cancelled")
    cancelled.control(106, "resume", state="pending").move(106, "pending")
    cancelled.max_attempts = 8
    cancelled.claim(107, "r3").step(108, "b").end(110, "completed")

    parent = Job("parent", tenant="initech").submit(100).claim(101, "r3").step(102, "a").step(104, "b").end(106, "completed")
    parent.control(108, "fork", fromStep="b", new="fork")
    fork = Job("fork", tenant="initech")
    fork.forked_from = "parent"
    fork.move(108, "pending").steps.append(dict(parent.steps[0]))
    fork.claim(109, "r1").step(110, "b").end(112, "completed")

    purged = Job("purged", tenant="initech").submit(100).claim(101, "r1").step(102, "a").step(104, "b").end(106, "completed")
    purged.control(108, "purge", status=204)
    purged.record("read", replica=1, sent=109.0, done=109.1, status=410, version=None, state=None, attempt=None,
                  maxAttempts=None, phase=None, hasResult=False, expiresAt=None)  # fmt: skip
    purged.record("stream", watcher="purged.0", at=109.0, status=410, last=0, since=0, complete=False)
    purged.record("final", status=410, at=200.0, receipt=[])

    released = Job("released", tenant="initech").submit(126).claim(127, "r2").step(127, "a").end(128.5, "pending")
    released.claim(128.6, "r3", charged=False).step(129, "b").end(131, "completed")

    found = [*taken.finals(), *released.finals(), *cancelled.finals(), *parent.finals(), *fork.finals(), *purged.observations]
    # A copy of a submission with another input, which was rejected.
    copy = next(one for one in found if one["sort"] == "submit" and one["job"] == "taken")
    found.append(copy | {"variant": 1, "status": 422, "code": "idempotency-key-reused", "job": None})
    found += [
        {"sort": "listed", "tenant": "acme", "jobs": [taken.summary()]},
        {"sort": "listed", "tenant": "initech", "jobs": [one.summary() for one in (released, cancelled, parent, fork)]},
        {"sort": "usage", "tenant": "acme", "status": 200, "total": {"jobs": 1, "steps": 2, "payloadBytes": 5_000}},
        {"sort": "usage", "tenant": "initech", "status": 200, "total": {"jobs": 5, "steps": 9, "payloadBytes": 0}},
    ]
    return found + surroundings()


def surroundings() -> list[Observation]:
    """Observations of the cluster."""
    return [
        {"sort": "settings", "seed": 1, "store": "postgres", "lease": 15.0, "renew": 5.0, "sweep": 2.0},
        *(
            {"sort": "process", "what": "started", "at": 99.0, "replica": f"r{pid}", "data": f"r{pid}", "pid": pid}
            for pid in (1, 2, 3)
        ),
        {"sort": "fault", "fault": "kill", "at": 104.0, "until": 105.0, "replica": "r1", "happened": True},
        {"sort": "process", "what": "ended", "at": 104.0, "replica": "r1", "data": "r1", "pid": 1, "code": -9,
         "expected": True},
        {"sort": "fault", "fault": "term", "at": 128.0, "until": 130.5, "replica": "r2", "happened": True},
        {"sort": "process", "what": "stopped", "at": 130.0, "replica": "r2", "seconds": 2.0, "code": 0},
        {"sort": "key", "id": "k1", "revoked": 120.0},
        {"sort": "probe", "key": "k1", "replica": 0, "sent": 121.0, "status": 200},
        {"sort": "probe", "key": "k1", "replica": 1, "sent": 126.0, "status": 401},
        {"sort": "foreign", "tenant": "globex", "of": None, "path": "/v1/jobs/taken", "status": 404, "at": 110.0},
        {"sort": "leftover", "what": "blob", "path": "blobs/acme/taken/1", "tenant": "acme", "job": "taken", "age": 400.0},
        {"sort": "mark", "name": "healed", "at": 150.0},
        {"sort": "mark", "name": "settled", "at": 160.0},
    ]
