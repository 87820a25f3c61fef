"""Invariants of leases, checkpoints and attempts, decided with the ledger of the programs themselves."""

import json
from typing import Any

from checker import Verdict, invariant
from history import CLOCK_SLACK_S, TERMINAL, History, JobHistory, Observation, is_success

# Time from the start of a program to its first line in the ledger, on a machine whose cores are all busy.
SPAWN_S = 2.0


def output(step: dict[str, Any]) -> dict[str, Any]:
    """Returns the output of a step that ran a program of the ledger; empty for other steps."""
    return step["output"] if isinstance(step["output"], dict) and "run" in step["output"] else {}


def runs_by_id(seen: JobHistory) -> dict[str, Observation]:
    return {run["run"]: run for run in seen.runs()}


@invariant(3, "Leases follow each other, and every accepted write carries the current one")
def writes_carry_the_current_lease(history: History, verdict: Verdict) -> None:
    for job, seen in history.jobs.items():
        attempts = seen.attempts
        for before, after in zip(attempts, attempts[1:]):
            apart = before["endedAt"] is not None and before["endedAt"] <= after["startedAt"] + CLOCK_SLACK_S
            verdict.expect(apart, f"{job}: two leases at the same time: {before} and {after}")
        for run in seen.runs() if seen.last else []:
            message = f"{job}: step {run['step']} was started by {run['replica']} at {run['at']:.3f} without a lease"
            verdict.expect(seen.claim_of(run) is not None, message)
        runs = runs_by_id(seen)
        for step in seen.last["steps"] if seen.last else []:
            if (written := output(step)) and written["job"] == job:
                accepted_from_current_lease(seen, step, runs.get(written["run"]), verdict)
        if seen.last and isinstance(seen.last["result"], dict) and "run" in seen.last["result"]:
            # A last step that leaves an artifact is stored with the result only.
            submitted = [one for one in seen.of("submit") if is_success(one["status"])]
            has_artifact = bool(submitted) and submitted[0]["artifact"]
            steps = [] if has_artifact else seen.last["steps"]
            result_is_of_the_last_lease(seen, steps, seen.last["result"], verdict)


def accepted_from_current_lease(
    seen: JobHistory, step: dict[str, Any], run: Observation | None, verdict: Verdict
) -> None:
    name = f"{seen.id}, step {step['name']}"
    if not verdict.expect(run is not None, f"{name}: its checkpoint is of a run that is not in the ledger: {step}"):
        return
    assert run
    claim = seen.claim_of(run)
    if claim is None:
        return
    later = seen.attempts[claim + 1 :]
    until = later[0]["startedAt"] if later else None
    in_time = until is None or step["completedAt"] <= until + CLOCK_SLACK_S
    verdict.expect(
        in_time and step["attempt"] == run["attempt"],
        f"{name}: the checkpoint of {run['replica']}, attempt {run['attempt']}, was stored at {step['completedAt']:.3f}"
        f" as of attempt {step['attempt']}, and the next lease began at {until}",
    )


def result_is_of_the_last_lease(
    seen: JobHistory, steps: list[dict[str, Any]], result: dict[str, Any], verdict: Verdict
) -> None:
    if steps:
        last = output(steps[-1])
        verdict.expect(result == last, f"{seen.id}: its result {result} is not its last checkpoint {last}")
        return
    run = runs_by_id(seen).get(result["run"])
    claim = seen.claim_of(run) if run else None
    message = f"{seen.id}: its result is of claim {claim}, and it had {len(seen.attempts)}: {result}"
    verdict.expect(claim == len(seen.attempts) - 1, message)


@invariant(4, "A checkpoint never changes, and no step starts again once its checkpoint was visible to a claim")
def finished_steps_are_not_repeated(history: History, verdict: Verdict) -> None:
    for job, seen in history.jobs.items():
        known: dict[str, str] = {}
        final = [{"steps": seen.last["steps"], "done": seen.last["at"]}] if seen.last else []
        # Reads overlap, so only a changed or, after the run, missing output counts.
        for read in [*seen.of("steps"), *final]:
            for step in read["steps"]:
                text = json.dumps(step["output"], sort_keys=True)
                earlier = known.setdefault(step["name"], text)
                verdict.expect(earlier == text, f"{job}, step {step['name']}: {earlier} became {text}")
        if seen.last:
            lost = sorted(known.keys() - {step["name"] for step in seen.last["steps"]})
            verdict.expect(not lost, f"{job}: the checkpoints of {lost} are gone")
        runs = runs_by_id(seen)
        for step in seen.last["steps"] if seen.last else []:
            finished = runs.get(output(step).get("run", ""))
            if finished:
                repeated_runs(seen, step["name"], finished, verdict)


def repeated_runs(seen: JobHistory, name: str, finished: Observation, verdict: Verdict) -> None:
    claim = seen.claim_of(finished)
    for run in seen.runs():
        if run["step"] != name or run["run"] == finished["run"]:
            continue
        again = seen.claim_of(run)
        repeated = run["folder"] == finished["folder"] or (
            claim is not None and again is not None and again > claim
        )
        verdict.expect(
            not repeated,
            f"{seen.id}, step {name}: finished by {finished['replica']} (claim {claim}), and started again by "
            f"{run['replica']} (claim {again}) at {run['at']:.3f}",
        )


@invariant(8, "Attempts, crashes included, never exceed the maximum")
def attempts_are_bounded(history: History, verdict: Verdict) -> None:
    for job, seen in history.jobs.items():
        for read in seen.of("read"):
            if read["attempt"] is not None:
                bounded = read["attempt"] <= read["maxAttempts"]
                verdict.expect(bounded, f"{job} is in attempt {read['attempt']} of {read['maxAttempts']}")
        if not seen.last:
            continue
        body = seen.last["body"]
        verdict.expect(body["attempt"] <= body["maxAttempts"], f"{job}: {body['attempt']} of {body['maxAttempts']}")
        for run in seen.runs():
            bounded = run["attempt"] <= body["maxAttempts"]
            verdict.expect(bounded, f"{job}: a program ran in attempt {run['attempt']} of {body['maxAttempts']}")
        maximum_grows_with_resumes(seen, verdict)
        for before, after in zip(seen.attempts, seen.attempts[1:]):
            # An attempt that ended without an error was released and continues; others are charged.
            released = before["status"] == "pending" and before["error"] is None
            expected = before["attempt"] if released else before["attempt"] + 1
            message = f"{job}: attempt {before['attempt']} ({before['error'] or before['status']}) → {after['attempt']}"
            verdict.expect(after["attempt"] == expected, message)


def maximum_grows_with_resumes(seen: JobHistory, verdict: Verdict) -> None:
    assert seen.last
    submitted = [one["maxAttempts"] for one in seen.of("submit") if one["maxAttempts"]]
    if submitted and seen.transitions:
        resumes = sum(entry["state"] in TERMINAL for entry in seen.transitions[:-1])
        expected, found = submitted[0] * (1 + resumes), seen.last["body"]["maxAttempts"]
        verdict.expect(found <= expected, f"{seen.id}: {found} attempts after {resumes} resumes, {submitted[0]} at first")


@invariant(15, "A cancelled job starts no further step")
def cancelled_jobs_stop(history: History, verdict: Verdict) -> None:
    for seen in history.jobs.values():
        resumes = sorted(one["sent"] for one in seen.possible("resume"))
        for cancel in seen.acknowledged("cancel"):
            until = next((at for at in resumes if at > cancel["done"]), float("inf"))
            steps_after_cancel(seen, cancel, until, verdict)
            end_after_cancel(seen, cancel, verdict)


def steps_after_cancel(seen: JobHistory, cancel: Observation, until: float, verdict: Verdict) -> None:
    """At most the step under way finishes: one that had begun, or whose program was just being started."""
    at = cancel["done"]
    ends = {run["run"]: run["at"] for run in seen.of("run") if run["what"] != "begin"}
    later = sorted((run for run in seen.runs() if at < run["at"] < until), key=lambda run: run["at"])
    under_way = any(run["at"] <= at < ends.get(run["run"], 0.0) for run in seen.runs())
    starting = cancel["state"] == "running" and not under_way and later and later[0]["at"] < at + SPAWN_S
    further = later[1:] if starting else later
    verdict.expect(
        not further,
        f"{seen.id}: acknowledged at {at:.3f} as {cancel['state']}, and then started the steps "
        + ", ".join(f"{run['step']} on {run['replica']} {run['at'] - at:.2f} s later" for run in further),
    )


def end_after_cancel(seen: JobHistory, cancel: Observation, verdict: Verdict) -> None:
    later = [entry for entry in seen.transitions if entry["version"] > (cancel["version"] or 0)]
    moved = [entry["state"] for entry in later if entry["state"] != "running"]
    if cancel["state"] == "running" and moved:
        good = moved[0] in ("completed", "cancelled")
        verdict.expect(good, f"{seen.id}: asked to stop at version {cancel['version']}, and then {moved[0]}")


@invariant(16, "A fork shares exactly its parent's steps before the fork point")
def forks_share_finished_steps(history: History, verdict: Verdict) -> None:
    for call in history.of("control"):
        if call["command"] != "fork" or not call.get("new"):
            continue
        parent, fork = history.job(call["job"]), history.job(call["new"])
        if not parent.last or not fork.last:
            continue
        finished = sorted(parent.last["steps"], key=lambda step: step["position"])
        names = [step["name"] for step in finished]
        shared = finished[: names.index(call["fromStep"])] if call["fromStep"] in names else finished
        inherited = [step for step in fork.last["steps"] if output(step).get("job") != fork.id]
        found, expected = ([(step["name"], step["output"]) for step in steps] for steps in (inherited, shared))
        verdict.expect(found == expected, f"{fork.id} of {parent.id} from {call['fromStep']}: {found}, not {expected}")
        repeated = {run["step"] for run in fork.runs()} & {step["name"] for step in shared}
        verdict.expect(not repeated, f"{fork.id} ran the inherited steps {sorted(repeated)}")
        verdict.expect(fork.last["body"]["forkedFrom"] == parent.id, f"{fork.id} does not name {parent.id}")
        verdict.expect(fork.last["input"] == parent.last["input"], f"{fork.id}: its input is not its parent's")
