"""Invariants of acceptance, of a job's transitions and of what readers see of it."""

from collections import defaultdict

from checker import Verdict, invariant
from history import CLOCK_SLACK_S, TERMINAL, History, JobHistory, Observation, is_success

# Every legal change of a job's status; a change of phase keeps `running`.
MOVES = {
    "pending": {"running", "cancelled"},
    "running": {"running", "completed", "failed", "pending", "cancelled"},
    "completed": set(),
    "failed": {"pending"},
    "cancelled": {"pending"},
}
REVOKED_WITHIN_S = 5.0


@invariant(1, "An acknowledged job is readable until its retention ends")
def acknowledged_jobs_stay_readable(history: History, verdict: Verdict) -> None:
    for job, tenant in history.accepted().items():
        seen = history.job(job)
        acknowledged_at = min(one["done"] for one in acknowledgements(history, job))
        purges = [one["sent"] for one in seen.possible("purge")]
        purged = [one["done"] for one in seen.acknowledged("purge")]
        reads = [one for one in seen.of("read") if one["sent"] >= acknowledged_at]
        expires = any(one["retention"] for one in seen.of("submit"))
        expires_at = max((one["expiresAt"] for one in reads if one["expiresAt"]), default=0.0)
        for read in [*reads, *seen.of("final")]:
            sent, done = read.get("sent", read.get("at")), read.get("done", read.get("at"))
            if read["status"] == 404:
                verdict.expect(False, f"{job} of {tenant} was acknowledged and is unknown at {sent:.3f}")
            elif read["status"] == 410:
                gone = any(at <= done for at in purges) or expires and expires_at <= done + CLOCK_SLACK_S
                verdict.expect(gone, f"{job} of {tenant} is gone at {sent:.3f} without a purge")
            elif read["status"] == 200:
                too_late = any(at < sent for at in purged)
                verdict.expect(not too_late, f"{job} of {tenant} is readable at {sent:.3f} after its purge")
        if verdict.expect(bool(seen.final), f"{job} of {tenant} was acknowledged and not read after the run"):
            is_as_submitted(seen, verdict)


def acknowledgements(history: History, job: str) -> list[Observation]:
    forks = [one for one in history.of("control") if one.get("new") == job]
    return forks + [one for one in history.job(job).of("submit") if is_success(one["status"])]


def is_as_submitted(seen: JobHistory, verdict: Verdict) -> None:
    accepted = [one for one in seen.of("submit") if is_success(one["status"])]
    if not seen.last or not accepted:
        return
    body, submitted = seen.last["body"], accepted[0]
    stored = seen.last["input"] or {}
    # The kind `demo` accepts no other fields than its own.
    variant = stored.get("variant", (stored.get("result") or {}).get("variant"))
    found = (body["kind"], body["idempotencyKey"], variant)
    expected = (submitted["kind"], submitted["key"], submitted["variant"])
    verdict.expect(found == expected, f"{seen.id} is {found}, and {expected} was submitted")
    if submitted["payload"] and isinstance(seen.last["result"], dict):
        digest = seen.last["result"].get("payload")
        same = digest == submitted["digest"]
        verdict.expect(same, f"{seen.id}: its program read a payload with digest {digest}, not {submitted['digest']}")


@invariant(2, "One job per tenant and idempotency key; another fingerprint is never accepted")
def one_job_per_key(history: History, verdict: Verdict) -> None:
    by_key: dict[tuple[str, str], list[Observation]] = defaultdict(list)
    for one in history.of("submit"):
        by_key[one["tenant"], one["key"]].append(one)
    for (tenant, key), submissions in by_key.items():
        accepted = [one for one in submissions if is_success(one["status"])]
        jobs = {one["job"]: one for one in accepted}
        purged = [job for job in jobs if history.job(job).possible("purge")]
        by_time = sorted(jobs.values(), key=lambda one: one["created"])
        for before, after in zip(by_time, by_time[1:]):
            # A key lives as long as its job, so a late copy of a purged or expired job creates another one.
            expired = before["retention"] and after["created"] >= before["created"] + before["retention"]
            free = before["job"] in purged or expired
            verdict.expect(free, f"{tenant} {key} has the jobs {before['job']} and {after['job']}")
        for job in jobs:
            variants = {one["variant"] for one in accepted if one["job"] == job}
            verdict.expect(len(variants) == 1, f"{tenant} {key}: {job} was accepted with the inputs {sorted(variants)}")
        if len(jobs) == 1 and not purged and not accepted[0]["retention"]:
            variant = accepted[0]["variant"]
            refused = [one for one in submissions if one["code"] == "idempotency-key-reused"]
            same = [one for one in refused if one["variant"] == variant]
            verdict.expect(not same, f"{tenant} {key}: the accepted input was rejected as another one")
    forks: dict[str, int] = defaultdict(int)
    for listed in history.of("listed"):
        owners: dict[str, list[str]] = defaultdict(list)
        for job in listed["jobs"]:
            if key := job["idempotencyKey"]:
                owners[key].append(job["jobId"])
                known = (listed["tenant"], key) in by_key
                verdict.expect(known, f"{job['jobId']} of {listed['tenant']} has the key {key}, never submitted")
            else:
                verdict.expect(bool(job["forkedFrom"]), f"{job['jobId']} has no key and is no fork")
                forks[job["forkedFrom"]] += 1
        for key, jobs in owners.items():
            verdict.expect(len(jobs) == 1, f"{listed['tenant']} {key}: the list has the jobs {jobs}")
    for parent, count in forks.items():
        calls = len(history.job(parent).possible("fork"))
        verdict.expect(count <= calls, f"{parent} has {count} forks, and {calls} were requested")


@invariant(5, "Only legal transitions; terminal is final, except by resume")
def transitions_are_legal(history: History, verdict: Verdict) -> None:
    for job, seen in history.jobs.items():
        entries = seen.transitions
        if not entries:
            continue
        first = entries[0]
        verdict.expect(first["state"] == "pending", f"{job} begins as {first['state']}")
        for before, after in zip(entries, entries[1:]):
            change = f"{before['state']} → {after['state']} (versions {before['version']} → {after['version']})"
            legal = after["state"] in MOVES[before["state"]] and after["version"] > before["version"]
            verdict.expect(legal, f"{job}: {change}")
            if (before["state"], after["state"]) == ("running", "running"):
                same = before["attempt"] == after["attempt"]
                verdict.expect(same, f"{job}: attempt {before['attempt']} → {after['attempt']} without a claim")
        resumes = sum(before["state"] in TERMINAL for before in entries[:-1])
        acknowledged, possible = len(seen.acknowledged("resume")), len(seen.possible("resume"))
        verdict.expect(
            acknowledged <= resumes <= possible,
            f"{job} left its end {resumes} times; resumes: {acknowledged} acknowledged, {possible} possible",
        )
        if any(entry["state"] == "cancelled" for entry in entries):
            verdict.expect(bool(seen.possible("cancel")), f"{job} is cancelled, and no cancellation was sent")


@invariant(6, "A watcher sees every transition once and in order, and one terminal event last")
def watchers_see_every_transition(history: History, verdict: Verdict) -> None:
    healed = history.mark("settled")
    for job, seen in history.jobs.items():
        watchers: dict[str, list[Observation]] = defaultdict(list)
        for event in seen.of("event"):
            watchers[event["watcher"]].append(event)
        for watcher, events in watchers.items():
            name = f"{job}, watcher {watcher}"
            versions = [event["version"] for event in events]
            ordered = all(before < after for before, after in zip(versions, versions[1:]))
            verdict.expect(ordered, f"{name}: saw the versions {versions}")
            for before, after in zip(events, events[1:]):
                resumed = after["state"] == "pending" and bool(seen.possible("resume"))
                after_end = before["state"] in TERMINAL and not resumed
                verdict.expect(not after_end, f"{name}: {after['state']} after {before['state']}")
            if seen.transitions:
                compare_with_history(name, events, seen, verdict)
        watched = {one["watcher"] for one in seen.of("stream")}
        if healed and seen.last and seen.last["body"]["status"] in TERMINAL:
            for watcher in watched:
                last = watchers[watcher][-1]["state"] if watchers[watcher] else None
                verdict.expect(last in TERMINAL, f"{job}, watcher {watcher}: last saw {last}, and the job has ended")
    for job, seen in history.jobs.items():
        if seen.last and seen.transitions:
            body, last = seen.last["body"], seen.transitions[-1]
            same = (body["status"], body["attempt"]) == (last["state"], last["attempt"])
            verdict.expect(same, f"{job} is {body['status']}, and its last event is {last}")


def compare_with_history(name: str, events: list[Observation], seen: JobHistory, verdict: Verdict) -> None:
    entries = {entry["version"]: entry for entry in seen.transitions}
    versions = {event["version"] for event in events}
    until = max(versions)
    missed = [version for version in entries if version <= until and version not in versions]
    verdict.expect(not missed, f"{name}: missed the versions {missed} of {sorted(entries)}")
    for event in events:
        # Progress raises the version between two transitions, and changes nothing else.
        before = [entry for version, entry in entries.items() if version <= event["version"]]
        latest = max(before, key=lambda entry: entry["version"], default=None)
        fields = ("state", "attempt", "phase")
        shown = tuple(event[field] for field in fields)
        expected = tuple(latest[field] for field in fields) if latest else None
        verdict.expect(shown == expected, f"{name}: saw {shown} as version {event['version']}, and it is {expected}")


@invariant(7, "A result is readable if and only if the job completed")
def results_belong_to_completed_jobs(history: History, verdict: Verdict) -> None:
    for job, seen in history.jobs.items():
        for read in [*seen.of("read"), *seen.of("event")]:
            if read.get("state"):
                completed = read["state"] == "completed"
                has = "a" if read["hasResult"] else "no"
                message = f"{job} is {read['state']} in version {read['version']} and has {has} result"
                verdict.expect(read["hasResult"] == completed, message)
        if seen.last:
            completed = seen.last["body"]["status"] == "completed"
            readable = seen.last["resultStatus"] == 200
            message = f"{job} is {seen.last['body']['status']}, and GET /result responds {seen.last['resultStatus']}"
            verdict.expect(readable == completed, message)
            same = not readable or seen.last["result"] == seen.last["bodyResult"]
            verdict.expect(same, f"{job}: its result differs from GET /result")


@invariant(11, "No response holds another tenant's data")
def tenants_are_isolated(history: History, verdict: Verdict) -> None:
    for one in history.of("foreign"):
        if one["of"]:
            verdict.expect(False, f"{one['path']}: the response to {one['tenant']} has data of {one['of']}")
        else:
            hidden = one["status"] in (None, 404, 429) or one["status"] >= 500
            verdict.expect(hidden, f"{one['tenant']} calls {one['path']} of another tenant: {one['status']}")
    for one in history.of("delivery"):
        foreign = one.get("foreign")
        verdict.expect(not foreign, f"a delivery to {one['path']} of {one['tenant']} has data of {foreign}")


def is_refused(probe: Observation) -> bool:
    return probe["status"] in (None, 401, 429) or probe["status"] >= 500


def revocations(history: History) -> dict[str, float]:
    """Returns for each revoked key the seconds until its last call that was not refused; 0 if there was none."""
    revoked_at = {one["id"]: one["revoked"] for one in history.of("key")}
    late = dict.fromkeys(revoked_at, 0.0)
    for probe in history.of("probe"):
        if not is_refused(probe):
            key = probe["key"]
            late[key] = max(late[key], probe["sent"] - revoked_at[key])
    return late


@invariant(17, "A revoked key is refused by every replica after 5 s")
def revoked_keys_are_refused(history: History, verdict: Verdict) -> None:
    revoked_at = {one["id"]: one["revoked"] for one in history.of("key")}
    for probe in history.of("probe"):
        late = probe["sent"] - revoked_at[probe["key"]]
        if late > REVOKED_WITHIN_S:
            message = f"the key {probe['key']} gets {probe['status']} from replica {probe['replica']} {late:.1f} s later"
            verdict.expect(is_refused(probe), message)


@invariant(18, "A client never sees a job's version go back")
def versions_never_go_back(history: History, verdict: Verdict) -> None:
    for job, seen in history.jobs.items():
        reads = [one for one in seen.of("read") if one["version"] is not None]
        # All clients together: what one has read, another must not miss in a call that it sends later.
        by_end = sorted(reads, key=lambda one: one["done"])
        newest, index = 0, 0
        for read in sorted(reads, key=lambda one: one["sent"]):
            while index < len(by_end) and by_end[index]["done"] < read["sent"]:
                newest = max(newest, by_end[index]["version"])
                index += 1
            verdict.expect(read["version"] >= newest, f"{job}: version {read['version']} was read after {newest}")
        states: dict[int, set[tuple[str, int]]] = defaultdict(set)
        for one in [*reads, *seen.of("event")]:
            states[one["version"]].add((one["state"], one["attempt"]))
        for version, found in states.items():
            verdict.expect(len(found) == 1, f"{job}: version {version} was seen as {sorted(found)}")


@invariant(19, "Sixty seconds after everything heals, every job that can end has ended")
def every_job_ends(history: History, verdict: Verdict) -> None:
    for job, seen in history.jobs.items():
        if seen.last:
            state = seen.last["body"]["status"]
            verdict.expect(state in TERMINAL, f"{job} is still {state}, attempt {seen.last['body']['attempt']}")
