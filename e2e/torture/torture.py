"""One run: set-up, load under faults, recovery, collection, judgement."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import checker
import invariants_effects
import invariants_faults
import invariants_jobs
from checker import Verdict
from clients import Api, JobClient, create_endpoints
from cluster import START_S, Cluster, Failed
from collect import collect, read_disk, read_ledger, settle
from faults import Faults
from history import History, Recorder, is_success, now
from plan import TENANTS, Plan
from receiver import Receiver

# The promise: sixty seconds after everything heals, every job that can end has ended.
SETTLE_S = 60.0
WATCHERS_S = 15.0
PROBE_S = 9.0
PROBE_INTERVAL_S = 0.7
TRIES_MAX = 40
OWN_SECRET = "whsec_" + "dG9ydHVyZS10b3J0dXJlLXRvcnR1cmUtMTIzNA=="


class Outcome(NamedTuple):
    verdicts: list[Verdict]
    summary: str

    @property
    def violations(self) -> list[str]:
        return checker.report(self.verdicts)


class Run:
    def __init__(self, plan: Plan, binary: Path, folder: Path) -> None:
        self.plan = plan
        self.recorder = Recorder()
        self.cluster = Cluster(plan, binary, folder, self.recorder)
        self.receiver = Receiver(self.recorder)
        self.api = Api(self.cluster, self.recorder)
        self.faults = Faults(self.cluster, self.receiver, self.recorder)
        self.closing = asyncio.Event()

    async def run(self) -> Outcome:
        leases = self.plan.leases
        self.recorder.record(
            "settings", seed=self.plan.seed, store=self.plan.store, lease=leases.duration, renew=leases.renew,
            sweep=leases.sweep,
        )  # fmt: skip
        await self.receiver.start()
        await self.api.set_up(await self.cluster.start())
        self.faults.endpoints = await create_endpoints(self.api, self.receiver)
        own = {}
        for tenant in TENANTS:
            path = f"/own/{tenant}"
            own[tenant] = (self.receiver.endpoint(path, tenant, OWN_SECRET), OWN_SECRET)
            self.faults.endpoints.append(path)
        await self.load(own)
        known = {(tenant, job) for job, tenant in History(self.recorder.observations).accepted().items()}
        await collect(self.api, self.cluster, self.recorder, known)
        read_ledger(self.cluster, self.recorder)
        await asyncio.to_thread(read_disk, self.api, self.cluster, self.recorder)
        verdicts = checker.check(self.recorder.observations)
        return Outcome(verdicts, self.summary(verdicts))

    async def load(self, own: dict[str, tuple[str, str]]) -> None:
        """Runs clients and faults for the planned time, then waits until everything has healed and ended."""
        started_at = now()
        self.recorder.record("mark", name="started", at=started_at)
        clients = asyncio.create_task(self.clients(started_at, own))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.faults.run(started_at))
                for at in self.plan.revocations:
                    group.create_task(self.revoke(started_at + at))
                await asyncio.sleep(max(0.0, started_at + self.plan.seconds - now()))
            self.faults.heal()
            self.closing.set()
            healed_at = now()
            for replica in self.cluster.replicas:
                try:
                    await self.cluster.wait_ready([replica], START_S)
                except Failed:
                    replica.record("unready", seconds=now() - healed_at)
            self.recorder.record("mark", name="healed", at=now())
            await settle(self.api, self.recorder, SETTLE_S)
            # Watchers must have seen the ends by now.
            await asyncio.wait([clients], timeout=WATCHERS_S)
        finally:
            if clients.done():
                clients.result()
            clients.cancel()
            await asyncio.gather(clients, return_exceptions=True)

    async def clients(self, started_at: float, own: dict[str, tuple[str, str]]) -> None:
        async with asyncio.TaskGroup() as group:
            for job in self.plan.jobs:
                await asyncio.sleep(max(0.0, started_at + job.at - now()))
                group.create_task(JobClient(self.api, job, self.closing, own).run())

    async def revoke(self, at: float) -> None:
        """Creates a key, uses it on every replica, revokes it, and then calls every replica with it."""
        await asyncio.sleep(max(0.0, at - now()))
        body = {"tenant": TENANTS[0], "name": "short-lived", "scopes": ["read"]}
        made = await self.until_success("admin", "POST", "/v1/keys", body)
        if not made:
            return
        who = made["id"]
        self.api.keys[who] = made["key"]
        replicas = range(len(self.cluster.replicas))
        for replica in replicas:
            await self.api.call(who, "GET", "/v1/jobs?limit=1", replica=replica)
        if await self.until_success("admin", "DELETE", f"/v1/keys/{who}") is None:
            return
        revoked = now()
        self.recorder.record("key", id=who, revoked=revoked)
        while now() < revoked + PROBE_S:
            for replica in replicas:
                sent = now()
                response = await self.api.call(who, "GET", "/v1/jobs?limit=1", replica=replica)
                self.recorder.record("probe", key=who, replica=replica, sent=sent, status=response.status)
            await asyncio.sleep(PROBE_INTERVAL_S)

    async def until_success(self, who: str, method: str, path: str, body: dict | None = None) -> dict | None:
        chance = random.Random(path)
        for _ in range(TRIES_MAX):
            response = await self.api.call(who, method, path, body, chance.randrange(64), timeout_s=2.0)
            if is_success(response.status):
                return response.json() or {}
            await asyncio.sleep(0.2)
        return None

    async def close(self) -> None:
        await self.faults.close()
        await self.receiver.close()
        await self.cluster.close()

    # --- the summary ---

    def summary(self, verdicts: list[Verdict]) -> str:
        history = History(self.recorder.observations)
        faults = Counter(one["fault"] for one in history.of("fault") if one["happened"])
        attempts = sum(len(seen.attempts) for seen in history.jobs.values())
        own_kills = sum(run["what"] == "end-kill" for run in history.of("run"))
        healed, ended = history.mark("healed"), history.mark("ended")
        recovered = f"{ended - healed:.1f} s" if healed and ended else "never"
        by_sort = ", ".join(f"{count} {sort}" for sort, count in sorted(faults.items())) or "none"
        violations = sum(len(verdict.violations) for verdict in verdicts)
        return (
            f"{self.plan.store} seed {self.plan.seed}: {len(history.accepted())} jobs acknowledged, {attempts} attempts, "
            f"{len(history.of('run'))} ledger lines, {len(history.of('event'))} events watched, "
            f"{len(history.of('delivery'))} deliveries, kills {faults['kill'] + own_kills}, faults: {by_sort}; "
            f"longest: {', '.join(longest_times(history))}; "
            f"all ended {recovered} after healing; {sum(verdict.examined for verdict in verdicts)} facts examined, "
            f"violations {violations}"
        )


def longest_times(history: History) -> list[str]:
    """Returns the longest time of each promise in seconds, and of how many."""
    found = []
    for name, times in (
        ("take-over", invariants_faults.take_overs(history)),
        ("pick-up after a stop", invariants_faults.pick_ups(history)),
    ):
        alone = [seconds for seconds, is_alone, _ in times if is_alone]
        every = longest([seconds for seconds, _, _ in times])
        found.append(f"{name} {every} (without another fault {longest(alone)})")
    stops = [one["seconds"] for one in history.of("process") if one["what"] == "stopped"]
    found.append(f"stop {longest(stops)}")
    found.append(f"use of a revoked key {longest(list(invariants_jobs.revocations(history).values()))}")
    found.append(f"deletion of a payload {longest(invariants_effects.deletions(history))}")
    return found


def longest(times: list[float]) -> str:
    return f"{max(times):.2f} s of {len(times)}" if times else "none"
