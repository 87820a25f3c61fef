"""Promises about faults: what each of them may cost, and what it may not."""

from collections import defaultdict

from checker import Verdict, invariant
from history import CLOCK_SLACK_S, History, Observation
from plan import REDIRECTED

# Beyond the lease and one sweep, on a machine whose cores are shared with everything else.
TAKE_OVER_SLACK_S = 5.0
STOP_WITHIN_S = 25.0
# Times for which a fault may have effects after it ended, and for which a frozen connection may.
EFFECTS_S = 5.0
FROZEN_S = 20.0


def lost_leases(history: History) -> list[tuple[str, int, dict, dict | None]]:
    """Returns job, index, attempt and next attempt of each lease that a rescue ended."""
    found = []
    for job, seen in history.jobs.items():
        for index, attempt in enumerate(seen.attempts):
            if (attempt["error"] or {}).get("code") == "worker-lost":
                later = seen.attempts[index + 1 :]
                found.append((job, index, attempt, later[0] if later else None))
    return found


def stops(history: History) -> list[tuple[str, float, float, str]]:
    """Returns replica, begin, end and cause of each time in which a worker was gone or paused beyond its lease."""
    settings = history.of("settings")
    survived = settings[-1]["lease"] - settings[-1]["renew"] if settings else 0.0
    found = []
    for one in history.of("fault"):
        until = one["until"] or float("inf")
        paused = one["fault"] == "pause" and until - one["at"] >= survived - CLOCK_SLACK_S
        if one["happened"] and (one["fault"] == "kill" or paused):
            found.append((one["replica"], one["at"], until, one["fault"]))
    for run in history.of("run"):
        if run["what"] == "end-kill":
            found.append((run["replica"], run["at"], run["at"], "killed by its job"))
    for one in history.of("process"):
        # Reported by other promises.
        if one["what"] == "stuck" or one["what"] == "ended" and not one["expected"]:
            found.append((one["replica"], one["at"], one["at"], "ended by itself"))
    return found


@invariant("lease", "An attempt is charged as lost only if its worker was killed or paused beyond its lease")
def leases_are_kept(history: History, verdict: Verdict) -> None:
    causes = stops(history)
    for seen in history.jobs.values():
        for attempt in seen.attempts:
            if (attempt["error"] or {}).get("code") != "worker-lost":
                verdict.expect(True, "")
    for job, _, attempt, _ in lost_leases(history):
        begin, end = attempt["startedAt"] - CLOCK_SLACK_S, attempt["endedAt"] + CLOCK_SLACK_S
        explained = any(
            replica == attempt["replica"] and at <= end and until >= begin for replica, at, until, _ in causes
        )
        around = sorted({
            f"{one['fault']} {one['replica']}" for one in history.of("fault")
            if one["happened"] and one["at"] <= end and (one["until"] or end) >= begin - EFFECTS_S
        })  # fmt: skip
        verdict.expect(
            explained,
            f"{job}, attempt {attempt['attempt']} on {attempt['replica']} ({attempt['startedAt']:.3f} to "
            f"{attempt['endedAt']:.3f}) was charged as lost; faults at that time: {', '.join(around) or 'none'}",
        )


def take_overs(history: History) -> list[tuple[float, bool, str]]:
    """Returns the take-over of each job of a killed worker: seconds from the death to the next claim, whether no other
    fault happened meanwhile, and a description."""
    found = []
    causes = [one for one in stops(history) if one[3] in ("kill", "killed by its job")]
    for job, _, attempt, after in lost_leases(history):
        deaths = [
            at for replica, at, _, _ in causes
            if replica == attempt["replica"] and attempt["startedAt"] <= at <= attempt["endedAt"] + CLOCK_SLACK_S
        ]  # fmt: skip
        if deaths and after:
            text = f"{job} of {attempt['replica']}, killed at {deaths[-1]:.3f}, ran again at {after['startedAt']:.3f}"
            alone = is_alone(history, attempt["replica"], deaths[-1], after["startedAt"])
            found.append((after["startedAt"] - deaths[-1], alone, text))
    return found


def is_alone(history: History, replica: str, death: float, until: float) -> bool:
    """True if nothing but this death happened from shortly before it until the take-over."""
    begin = death - EFFECTS_S
    for one in history.of("fault"):
        itself = one["fault"] == "kill" and one["replica"] == replica and one["at"] <= death + 1.0
        harmless = itself or not one["happened"] or one["fault"] == "endpoint"
        lasts = FROZEN_S if one["fault"] == "freeze" else 0.0
        if not harmless and one["at"] <= until and (one["until"] or until) + lasts >= begin:
            return False
    return all(
        who == replica and abs(at - death) < 1.0 for who, at, _, _ in stops(history) if begin <= at <= until
    )


@invariant("take-over", "The jobs of a killed worker run elsewhere after its lease, or 20 s with the default lease")
def jobs_are_taken_over(history: History, verdict: Verdict) -> None:
    settings = history.of("settings")
    if not settings:
        return
    lease, sweep = settings[-1]["lease"], settings[-1]["sweep"]
    bound = lease + sweep + TAKE_OVER_SLACK_S
    for seconds, alone, text in take_overs(history):
        verdict.expect(not alone or seconds <= bound, f"{text}: {seconds:.1f} s later, allowed are {bound:.1f} s")


@invariant("stop", "SIGTERM ends a server in less than 25 s, and no attempt is charged")
def stops_are_graceful(history: History, verdict: Verdict) -> None:
    for one in history.of("process"):
        if one["what"] == "stuck":
            verdict.expect(False, f"{one['replica']} still ran 25 s after SIGTERM at {one['at']:.3f}")
        elif one["what"] == "stopped":
            prompt = one["seconds"] < STOP_WITHIN_S and one["code"] == 0
            verdict.expect(prompt, f"{one['replica']} ended with {one['code']} after {one['seconds']:.1f} s")


@invariant("exit", "A server does not end by itself, and is ready again when everything has healed")
def servers_keep_running(history: History, verdict: Verdict) -> None:
    killed_by_jobs = [(run["replica"], run["at"]) for run in history.of("run") if run["what"] == "end-kill"]
    ends: dict[tuple[str, int], list[Observation]] = defaultdict(list)
    for one in history.of("process"):
        if one["what"] == "unready":
            verdict.expect(False, f"{one['replica']} is not ready {one['seconds']:.0f} s after everything healed")
        if one["what"] != "ended":
            continue
        by_job = any(replica == one["replica"] and 0 <= one["at"] - at < 5.0 for replica, at in killed_by_jobs)
        if one["expected"] or by_job:
            verdict.expect(True, "")
        else:
            ends[one["replica"], one["code"]].append(one)
    for (replica, code), found in ends.items():
        times = f"{len(found)} times, first at {found[0]['at']:.3f}{around(history, found[0])}"
        verdict.expect(False, f"{replica} ended by itself with {code} {times}")


def around(history: History, one: Observation) -> str:
    """Names the faults that lasted at this time or shortly before."""
    near = [
        fault["fault"] for fault in history.of("fault")
        if fault["happened"] and fault["at"] <= one["at"] and (fault["until"] or one["at"]) >= one["at"] - 2.0
    ]  # fmt: skip
    return f" (faults: {', '.join(near)})" if near else ""


@invariant("redirect", "A redirect of a webhook receiver is not followed")
def redirects_are_not_followed(history: History, verdict: Verdict) -> None:
    for one in history.of("delivery"):
        verdict.expect(one["path"] != REDIRECTED, f"the delivery {one['id']} of {one['job']} followed a redirect")
