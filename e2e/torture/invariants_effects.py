"""Invariants of what a job causes: webhook deliveries, usage, payloads and blobs."""

from collections import defaultdict
from typing import Any

from checker import Verdict, invariant
from history import CLOCK_SLACK_S, TERMINAL, History, JobHistory, Observation, is_success, is_unknown
from plan import OWN_WEBHOOK_EVENTS, SUBSCRIPTIONS

PAYLOAD_GONE_S = 60.0
ORPHAN_GONE_S = 300.0
# A delivery that is due may be on its way when the deliveries are read.
DUE_S = 5.0


def event_type(entry: dict[str, Any]) -> str:
    is_phase = entry["state"] == "running" and entry["phase"] is not None
    return "job.phase" if is_phase else f"job.{entry['state']}"


def subscriptions(seen: JobHistory, tenant: str) -> dict[str, tuple[str, ...]]:
    """Returns the event types for each URL path that receives events of this job; no types are all types."""
    found = {f"/endpoint/{tenant}": SUBSCRIPTIONS[tenant]} if tenant in SUBSCRIPTIONS else {}
    if any(one["ownWebhook"] for one in seen.of("submit")):
        found[f"/own/{tenant}"] = OWN_WEBHOOK_EVENTS
    return found


@invariant(9, "Every subscribed event is delivered at least once or dead-lettered, in order, under one id")
def events_are_delivered(history: History, verdict: Verdict) -> None:
    records: dict[str, Observation] = {one["id"]: one for one in history.of("endpoint-delivery")}
    received: dict[str, list[Observation]] = defaultdict(list)
    for delivery in history.of("delivery"):
        verdict.expect(delivery["signed"], f"a delivery to {delivery['path']} of {delivery['job']} has no valid signature")
        received[delivery["id"]].append(delivery)
    names: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for message, deliveries in received.items():
        events = {(one["path"], one["job"], one["version"], one["type"]) for one in deliveries}
        verdict.expect(len(events) == 1, f"{message} is the id of {sorted(map(str, events))}")
        for one in deliveries:
            names[one["path"], one["job"], one["version"]].add(message)
    for (path, job, version), messages in names.items():
        verdict.expect(len(messages) == 1, f"{job}, version {version} to {path}: has the ids {sorted(messages)}")
    for job, seen in history.jobs.items():
        if seen.last:
            for path, types in subscriptions(seen, seen.last["tenant"]).items():
                events_of_job(seen, path, types, records, verdict)
        first_deliveries_in_order(seen, records, received, verdict)
    for record in records.values():
        if record["state"] == "completed":
            replies = [one["reply"] for one in received.get(record["id"], [])]
            verdict.expect(any(map(is_success, replies)), f"{record['id']} counts as delivered; replies: {replies}")
        elif record["state"] == "pending":
            overdue = record["at"] - record["runAt"]
            verdict.expect(overdue < DUE_S, f"{record['id']} of {record['job']} is overdue by {overdue:.1f} s")


def events_of_job(
    seen: JobHistory, path: str, types: tuple[str, ...], records: dict[str, Observation], verdict: Verdict
) -> None:
    """Compares the job's history with its deliveries: one for each subscribed event, and no other."""
    wanted = [entry for entry in seen.transitions if not types or event_type(entry) in types]
    here = [one for one in seen.of("delivery") if one["path"] == path]
    kinds = {entry["version"]: event_type(entry) for entry in wanted}
    for one in here:
        expected = kinds.get(one["version"])
        verdict.expect(one["type"] == expected, f"{seen.id}: {one['type']} of version {one['version']}, not {expected}")
    arrived = {one["version"] for one in here if is_success(one["reply"])}
    is_own = path.startswith("/own/")
    mine = [one for one in records.values() if one["job"] == seen.id and (one["endpoint"] is None) == is_own]
    open_types = [one["type"] for one in mine if one["state"] != "completed"]
    for version, kind in kinds.items():
        if version in arrived:
            verdict.expect(True, "")
        elif verdict.expect(kind in open_types, f"{seen.id}: {kind} of version {version} never arrived at {path}"):
            open_types.remove(kind)
    counts = (len(mine), len(wanted))
    verdict.expect(counts[0] == counts[1], f"{seen.id}: {counts[0]} deliveries to {path} for {counts[1]} events")


def first_deliveries_in_order(
    seen: JobHistory, records: dict[str, Observation], received: dict[str, list[Observation]], verdict: Verdict
) -> None:
    for path in {one["path"] for one in seen.of("delivery")}:
        firsts: dict[int, Observation] = {}
        for one in sorted(seen.of("delivery"), key=lambda one: one["at"]):
            if one["path"] == path:
                firsts.setdefault(one["version"], one)
        newest = 0
        for version, one in firsts.items():
            if version > newest:
                newest = version
                verdict.expect(True, "")
                continue
            # An attempt that never arrived, for example because its server was killed, counts as the first.
            record = records.get(one["id"])
            lost = record is not None and record["attempt"] > len(received[one["id"]])
            message = f"{seen.id} to {path}: version {version} first arrived after version {newest}"
            verdict.expect(lost, message)


@invariant(10, "Usage equals the finished jobs, each once")
def usage_is_exact(history: History, verdict: Verdict) -> None:
    for usage in history.of("usage"):
        tenant = usage["tenant"]
        jobs = [seen for seen in history.jobs.values() if seen.final and seen.final["tenant"] == tenant]
        ended = [seen for seen in jobs if has_ended(seen)]
        total = usage["total"] or {}
        found, expected = total.get("jobs"), len(ended)
        unknown = forgotten_jobs_max(history, tenant)
        exact = found is not None and expected <= found <= expected + unknown
        verdict.expect(exact, f"{tenant}: {found} jobs are metered, and {expected} have ended (+ {unknown})")
        if unknown:
            continue
        payloads = sum(payload_bytes(history, seen) for seen in ended)
        metered = total.get("payloadBytes")
        verdict.expect(metered == payloads, f"{tenant}: {metered} bytes are metered, and {payloads} were uploaded")
        # The steps of a job that was resumed and runs again are metered at its next end.
        if all(seen.last is None or seen.last["body"]["status"] in TERMINAL for seen in jobs):
            steps = sum(own_steps(seen) for seen in ended)
            verdict.expect(
                total.get("steps") == steps, f"{tenant}: {total.get('steps')} steps are metered, and {steps} finished"
            )


def forgotten_jobs_max(history: History, tenant: str) -> int:
    """Returns how many jobs may have ended and expired without a client that knows their ids: the response was lost, and
    the repeated submission made another job."""
    lost = [one for one in history.of("submit") if one["retention"] and one["tenant"] == tenant and is_unknown(one["status"])]
    return len(lost)


def has_ended(seen: JobHistory) -> bool:
    gone = seen.final is not None and seen.final["status"] == 410
    return gone or any(entry["state"] in TERMINAL for entry in seen.transitions)


def payload_bytes(history: History, seen: JobHistory) -> int:
    if not seen.last:
        return max((one["payload"] for one in seen.of("submit")), default=0)
    key = seen.last["body"]["idempotencyKey"]
    return max((one["payload"] for one in history.of("submit") if key and one["key"] == key), default=0)


def own_steps(seen: JobHistory) -> int:
    """Steps of the job itself; a fork's inherited ones are metered with its parent."""
    reads = seen.of("steps")
    steps = seen.last["steps"] if seen.last else reads[-1]["steps"] if reads else []
    return sum(not isinstance(one["output"], dict) or one["output"].get("job", seen.id) == seen.id for one in steps)


def payloads(history: History) -> list[tuple[JobHistory, Observation, float | None]]:
    """Returns each stored payload of a job that has ended, with the time of the end, which is unknown after a purge."""
    found = []
    for seen in history.jobs.values():
        final = seen.final
        if final and final["receipt"] is not None:
            ended_at = final.get("completedAt")
            if final["status"] == 410 or ended_at is not None:
                found += [(seen, stored, ended_at) for stored in final["receipt"] if stored["role"] == "payload"]
    return found


def deletions(history: History) -> list[float]:
    """Returns for each deleted payload the seconds from the end of its job to the deletion."""
    return [
        stored["deletedAt"] - ended_at for _, stored, ended_at in payloads(history)
        if ended_at is not None and stored["deletedAt"] is not None
    ]  # fmt: skip


def outage_s(history: History, begin: float, until: float) -> float:
    """Returns for how long nothing could be deleted: without Postgres, or without the one server on SQLite."""
    settings = history.of("settings")
    is_alone = bool(settings) and settings[-1]["store"] == "sqlite"
    sorts = {"kill", "pause", "term"} if is_alone else {"postgres-crash", "postgres-away"}
    lost = 0.0
    for one in history.of("fault"):
        if one["happened"] and one["fault"] in sorts:
            lost += max(0.0, min(until, one["until"] or until) - max(begin, one["at"]))
    return lost


@invariant(12, "A payload is unreadable from the end of its job on, and gone within 60 s")
def payloads_are_deleted(history: History, verdict: Verdict) -> None:
    healed = history.mark("healed") or 0.0
    for seen, stored, ended_at in payloads(history):
        destroyed, deleted = stored["keyDestroyedAt"], stored["deletedAt"]
        in_time = destroyed is not None and (ended_at is None or destroyed <= ended_at + CLOCK_SLACK_S)
        verdict.expect(in_time, f"{seen.id} ended at {ended_at}, and its payload's key was destroyed at {destroyed}")
        begin = ended_at or healed
        until = deleted if deleted is not None else seen.final["at"] if seen.final else begin
        gone = until - begin - outage_s(history, begin, until) <= PAYLOAD_GONE_S
        verdict.expect(gone, f"{seen.id} ended at {ended_at}, and its payload was deleted at {deleted}")
    for one in history.of("leftover"):
        if one["what"] == "payload":
            verdict.expect(False, f"{one['path']} holds a payload of {one['tenant']} in clear text")


@invariant(13, "No orphan blob or folder after things settle")
def nothing_is_orphaned(history: History, verdict: Verdict) -> None:
    blobs: dict[str, list[Observation]] = defaultdict(list)
    for one in history.of("leftover"):
        if one["what"] == "blob":
            blobs[one["job"]].append(one)
        elif one["what"] == "work":
            seen = history.job(one["job"])
            running = seen.last is not None and seen.last["body"]["status"] not in TERMINAL
            verdict.expect(running, f"{one['path']} is a working folder of a job that has ended")
    for job, found in blobs.items():
        last = history.job(job).last
        owned = len(last["body"]["artifacts"]) if last else 0
        old = [one for one in found if one["age"] > ORPHAN_GONE_S]
        verdict.expect(len(old) <= owned, f"{job} has {owned} artifacts and the blobs {[one['path'] for one in old]}")


@invariant("artifact", "A completed job has the artifact that its last step left")
def artifacts_survive(history: History, verdict: Verdict) -> None:
    for job, seen in history.jobs.items():
        if seen.last and seen.last["body"]["status"] == "completed":
            submitted = [one for one in seen.of("submit") if is_success(one["status"])]
            if submitted and submitted[0]["artifact"]:
                run = (seen.last["result"] or {}).get("run")
                found_text = seen.last["artifacts"].get("run.txt")
                verdict.expect(found_text == f"artifact of {run}", f"{job}, run {run}: its artifact is {found_text!r}")
