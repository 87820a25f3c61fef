"""Promises about faults: what each of them may cost, and what it may not."""

from collections import defaultdict

from checker import Verdict, invariant
from history import CLOCK_SLACK_S, History, Observation
from plan import CONCURRENCY, DEFAULT, REDIRECTED

# Promises with the default leases. With shorter ones: beyond the lease and one sweep, on a machine whose cores are
# shared with everything else.
TAKE_OVER_WITHIN_S = 20.0
TAKE_OVER_SLACK_S = 5.0
STOP_WITHIN_S = 25.0
PICK_UP_WITHIN_S = 1.0
# Slots of a replica that jobs may use of which no client knows, for example because they were purged since.
UNKNOWN_JOBS_MAX = 2
# Faults of one replica's connections, and the longest wait for a response over the connection that renews leases.
LINE_FAULTS = ("cut", "delay", "freeze", "refuse", "stall", "swallow")
CONNECTION_GIVEN_UP_S = 4.0
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
    """Returns replica, begin, end and cause of each time in which a worker was gone or paused beyond its lease, or ended
    without being able to release its jobs."""
    settings = history.of("settings")
    survived = settings[-1]["lease"] - settings[-1]["renew"] if settings else 0.0
    found = []
    for one in history.of("fault"):
        until = one["until"] or float("inf")
        paused = one["fault"] == "pause" and until - one["at"] >= survived - CLOCK_SLACK_S
        if one["happened"] and (one["fault"] == "kill" or paused):
            found.append((one["replica"], one["at"], until, one["fault"]))
        # A lost connection is given up after 4 s, which a lease of 15 s survives and a shorter one does not.
        if one["happened"] and one["fault"] in LINE_FAULTS and survived < CONNECTION_GIVEN_UP_S:
            found.append((one["replica"], one["at"], (one["until"] or one["at"]) + EFFECTS_S, one["fault"]))
    for run in history.of("run"):
        if run["what"] == "end-kill":
            found.append((run["replica"], run["at"], run["at"], "killed by its job"))
    for one in history.of("process"):
        if one["what"] == "stopped" and is_cut_off(history, one["replica"], one["at"]):
            found.append((one["replica"], one["at"], one["at"], "stopped without its database"))
        # Reported by other promises.
        if one["what"] == "stuck" or one["what"] == "ended" and not one["expected"]:
            found.append((one["replica"], one["at"], one["at"], "ended by itself"))
    return found


def is_cut_off(history: History, replica: str, at: float) -> bool:
    """True if the replica could not reach its database at this time. A server that must stop within 25 s cannot wait for
    it."""
    for one in history.of("fault"):
        everywhere = one["fault"].startswith("postgres")
        here = one["replica"] == replica and one["fault"] in ("freeze", "stall", "refuse")
        lasts = FROZEN_S if one["fault"] == "freeze" else 0.0
        if one["happened"] and (everywhere or here) and one["at"] <= at <= (one["until"] or at) + lasts:
            return True
    return False


@invariant("lease", "An attempt is charged as lost only if its worker was killed, paused beyond its lease, or cut off")
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


def has_default_leases(history: History) -> bool:
    settings = history.of("settings")
    return bool(settings) and settings[-1]["lease"] == DEFAULT.duration


@invariant("take-over", "The jobs of a killed worker run elsewhere after its lease, within 20 s with the default lease")
def jobs_are_taken_over(history: History, verdict: Verdict) -> None:
    settings = history.of("settings")
    if not settings:
        return
    lease, sweep = settings[-1]["lease"], settings[-1]["sweep"]
    bound = TAKE_OVER_WITHIN_S if has_default_leases(history) else lease + sweep + TAKE_OVER_SLACK_S
    for seconds, alone, text in take_overs(history):
        verdict.expect(not alone or seconds <= bound, f"{text}: {seconds:.1f} s later, allowed are {bound:.1f} s")


def pick_ups(history: History) -> list[tuple[float, bool, str]]:
    """Returns the pick-up of each job that a stopping worker released: seconds from the release to the next claim, whether
    another replica had a free slot and no fault all the time, and a description."""
    ends = [one for one in history.of("process") if one["what"] == "stopped"]
    found = []
    for job, seen in history.jobs.items():
        for attempt, after in zip(seen.attempts, seen.attempts[1:]):
            released_at = attempt["endedAt"]
            if attempt["status"] != "pending" or attempt["error"] is not None or released_at is None:
                continue
            stopping = any(
                one["replica"] == attempt["replica"]
                and one["at"] - one["seconds"] <= released_at + CLOCK_SLACK_S
                and released_at <= one["at"] + CLOCK_SLACK_S
                for one in ends
            )
            if stopping:
                until = after["startedAt"]
                text = f"{job}, released by {attempt['replica']} at {released_at:.3f}, ran again at {until:.3f}"
                able = can_pick_up(history, attempt["replica"], released_at, until)
                found.append((max(0.0, until - released_at), able, text))
    return found


def can_pick_up(history: History, stopped: str, begin: float, until: float) -> bool:
    """True if a replica besides the stopping one had a free slot at any time between these, and no fault hit the store or
    one of the two."""
    if has_fault(history, stopped, begin, until, harmless=("term",)):
        return False
    return any(
        replica != stopped
        and not has_fault(history, replica, begin, until)
        and slots_taken(history, replica, begin, until) + UNKNOWN_JOBS_MAX < CONCURRENCY
        for replica in running_replicas(history, begin, until)
    )


def has_fault(history: History, replica: str, begin: float, until: float, harmless: tuple[str, ...] = ()) -> bool:
    """True if a fault of this replica, or one of all replicas, had effects at that time."""
    for one in history.of("fault"):
        here = one["replica"] == replica or one["fault"] == "cpu" or one["fault"].startswith("postgres")
        lasts = FROZEN_S if one["fault"] == "freeze" else EFFECTS_S
        if here and one["happened"] and one["fault"] not in (*harmless, "endpoint"):
            if one["at"] <= until and (one["until"] or until) + lasts >= begin:
                return True
    return False


def running_replicas(history: History, begin: float, until: float) -> set[str]:
    """Returns the replicas that had been running for a while at this time, and went on."""
    # By process, because a replica may have a new name when its end is recorded.
    running: dict[tuple[str, int], str] = {}
    for one in history.of("process"):
        process = one.get("data", ""), one.get("pid", 0)
        if one["what"] == "started" and one["at"] <= begin - EFFECTS_S:
            running[process] = one["replica"]
        elif one["what"] == "ended" and one["at"] <= until:
            running.pop(process, None)
    return set(running.values())


def slots_taken(history: History, replica: str, begin: float, until: float) -> int:
    """Returns how many attempts ran on a replica at this time, besides one that begins at its end."""
    return sum(
        attempt["replica"] == replica and attempt["startedAt"] < until and (attempt["endedAt"] or until) >= begin
        for seen in history.jobs.values() for attempt in seen.attempts
    )  # fmt: skip


@invariant("pick-up", "With the default leases, a job that a stopping worker releases runs elsewhere in less than 1 s")
def released_jobs_are_picked_up(history: History, verdict: Verdict) -> None:
    if has_default_leases(history):
        for seconds, able, text in pick_ups(history):
            verdict.expect(not able or seconds < PICK_UP_WITHIN_S, f"{text}, {seconds:.2f} s later")


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
