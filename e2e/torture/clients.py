"""Clients of the API: they submit, poll, change and watch jobs, move between replicas, and record every response."""

import asyncio
import hashlib
import json
import random
from typing import Any

import http1
from cluster import Cluster
from history import TERMINAL, Recorder, is_success, now, optional_instant
from http1 import Response
from plan import OWN_WEBHOOK_EVENTS, SUBSCRIPTIONS, TENANTS, Control, Copy, JobPlan

# Bounds of loops that repeat a call until it succeeds.
SUBMISSIONS_MAX = 60
CALLS_MAX = 40
POLLS_MAX = 400
STREAMS_MAX = 120
# For reads after the run, when nothing should be slow.
GET_S = 5.0
# Requests in flight, so that an outage does not pile up thousands.
IN_FLIGHT_MAX = 200


class Api:
    """Calls as one tenant or as the administrator, to any replica."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self.cluster, self.recorder = cluster, recorder
        self.keys: dict[str, str] = {}
        # Texts that only data of this tenant contains.
        self.canaries = {tenant: f"canary-{tenant}-{cluster.plan.seed}" for tenant in TENANTS}
        self.permits = asyncio.Semaphore(IN_FLIGHT_MAX)
        self.preferred = 0

    async def call(
        self, who: str, method: str, path: str, body: Any = None, replica: int = 0,
        headers: dict[str, str] | None = None, raw: tuple[str, bytes] | None = None,
        timeout_s: float = http1.REQUEST_S, abandon: bool = False,
    ) -> Response:  # fmt: skip
        sent = {"authorization": f"Bearer {self.keys[who]}", **(headers or {})}
        content = None
        if raw:
            sent["content-type"], content = raw
        elif body is not None:
            sent["content-type"], content = "application/json", compact(body)
        port = self.cluster.replicas[replica % len(self.cluster.replicas)].port
        async with self.permits:
            response = await http1.request(port, method, path, sent, content, timeout_s, abandon)
        self.look_for_foreign(who, path, response.body)
        return response

    def look_for_foreign(self, who: str, path: str, body: bytes) -> None:
        for tenant, canary in self.canaries.items():
            if tenant != who and who in self.canaries and canary.encode() in body:
                self.recorder.record("foreign", tenant=who, of=tenant, path=path, status=200, at=now())

    async def set_up(self, admin_key: str) -> None:
        """Creates tenants and their keys."""
        self.keys["admin"] = admin_key
        for tenant in TENANTS:
            await self.create("/v1/tenants", {"id": tenant, "name": tenant})
            made = await self.create("/v1/keys", {"tenant": tenant, "name": "load", "scopes": ["submit", "read"]})
            self.keys[tenant] = made["key"]

    async def create(self, path: str, body: dict[str, Any], who: str = "admin") -> dict[str, Any]:
        response = await self.call(who, "POST", path, body)
        if response.status != 201:
            raise RuntimeError(f"POST {path}: {response.status} {response.body[:300]!r}")
        return response.json()

    async def get(self, who: str, path: str) -> Response:
        """Repeats a GET until a replica answers it, and prefers the one that did last time."""
        response = http1.LOST
        for _ in range(CALLS_MAX):
            replica = self.preferred
            response = await self.call(who, "GET", path, replica=replica, timeout_s=GET_S)
            if response.status is not None and response.status < 500:
                break
            self.preferred = replica + 1
            await asyncio.sleep(0.1)
        return response

    # Recorded calls for one job.

    async def read(self, job: str, tenant: str, replica: int, wait_s: int = 0) -> Response:
        sent = now()
        path = f"/v1/jobs/{job}" + (f"?wait={wait_s}" if wait_s else "")
        response = await self.call(tenant, "GET", path, replica=replica)
        body = response.json() if response.status == 200 else {}
        self.recorder.record(
            "read", job=job, tenant=tenant, replica=replica, sent=sent, done=now(), status=response.status,
            version=body.get("version"), state=body.get("status"), attempt=body.get("attempt"),
            maxAttempts=body.get("maxAttempts"), phase=body.get("phase"),
            hasResult=body.get("result") is not None, expiresAt=optional_instant(body.get("expiresAt")),
        )  # fmt: skip
        return response

    async def read_steps(self, job: str, tenant: str, replica: int) -> bool:
        response = await self.call(tenant, "GET", f"/v1/jobs/{job}/steps", replica=replica)
        if response.status == 200:
            self.recorder.record("steps", job=job, done=now(), steps=response.json()["steps"])
        return response.status == 200


def compact(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


class JobClient:
    """The client of one job of the plan."""

    def __init__(self, api: Api, plan: JobPlan, closing: asyncio.Event, own_webhooks: dict[str, tuple[str, str]]) -> None:
        self.api, self.plan, self.closing = api, plan, closing
        self.own_webhooks = own_webhooks
        self.recorder = api.recorder
        self.chance = random.Random(plan.seed)
        self.job: str | None = None
        self.known = asyncio.Event()
        self.payload = payload(api.canaries[plan.tenant], plan)

    def replica(self) -> int:
        return self.chance.randrange(64)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for index, copy in enumerate(self.plan.copies):
                group.create_task(self.submit(copy, persistent=index == 0))
            group.create_task(self.follow())

    async def follow(self) -> None:
        await self.known.wait()
        if self.job is None:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self.change(self.job))
            if self.plan.polled:
                group.create_task(self.poll(self.job))
            for index in range(self.plan.watchers):
                watcher = Watcher(self, self.job, f"{self.plan.number}.{index}")
                group.create_task(watcher.run())
            if self.plan.foreign_reads:
                group.create_task(self.read_as_another(self.job))

    # Submission.

    def body(self, variant: int) -> dict[str, Any]:
        plan = self.plan
        job_input: dict[str, Any] = {"plan": plan.program, "variant": variant}
        if plan.kind == "demo":
            job_input = {"steps": 2, "sleep": f"{300 + 10 * (plan.number % 90)}ms", "result": {"variant": variant}}
        body: dict[str, Any] = {
            "kind": plan.kind, "input": job_input, "maxAttempts": plan.max_attempts, "priority": plan.priority,
            "labels": {"number": str(plan.number), "owner": self.api.canaries[plan.tenant]},
        }  # fmt: skip
        if plan.delay_s:
            body["delay"] = f"{plan.delay_s * 1000:.0f}ms"
        if plan.retention_s:
            body["retention"] = {"completed": f"{plan.retention_s:.0f}s"}
        if plan.own_webhook:
            url, secret = self.own_webhooks[plan.tenant]
            body["webhook"] = {"url": url, "events": list(OWN_WEBHOOK_EVENTS), "secret": secret}
        return body

    async def submit(self, copy: Copy, persistent: bool) -> None:
        """Sends one copy; the first one until it has a final response."""
        await asyncio.sleep(copy.delay)
        for _ in range(SUBMISSIONS_MAX if persistent else 1):
            response = await self.send(copy)
            if response.status is not None and response.status not in (409, 429) and response.status < 500:
                break
            if not persistent or self.closing.is_set() and self.known.is_set():
                break
            await asyncio.sleep(self.chance.uniform(0.1, 0.6))
        if persistent:
            self.known.set()

    async def send(self, copy: Copy) -> Response:
        plan, sent = self.plan, now()
        body = self.body(copy.variant)
        raw = http1.multipart(compact(body), self.payload) if self.payload else None
        response = await self.api.call(
            plan.tenant, "POST", "/v1/jobs", body, self.replica(), {"idempotency-key": plan.key}, raw,
            abandon=copy.abandoned,
        )  # fmt: skip
        job = response.field("jobId") if is_success(response.status) else None
        self.recorder.record(
            "submit", tenant=plan.tenant, number=plan.number, key=plan.key, variant=copy.variant, sent=sent, done=now(),
            status=response.status, code=response.field("code"), job=job, kind=plan.kind, steps=list(plan.steps),
            maxAttempts=plan.max_attempts, payload=len(self.payload), digest=hashlib.sha256(self.payload).hexdigest(),
            created=optional_instant(response.field("createdAt")) if job else None, retention=plan.retention_s, artifact="artifact" in plan.program, ownWebhook=plan.own_webhook,
        )  # fmt: skip
        if job:
            self.job = job
            self.known.set()
        return response

    # Reads.

    async def poll(self, job: str) -> None:
        """Reads the job until it ends or the load ends, each time from another replica."""
        for _ in range(POLLS_MAX):
            if self.closing.is_set():
                return
            wait_s = self.chance.choice((0, 0, 0, 1, 3))
            response = await self.api.read(job, self.plan.tenant, self.replica(), wait_s)
            if self.chance.random() < 0.3:
                await self.api.read_steps(job, self.plan.tenant, self.replica())
            if response.status == 410 or response.field("status") in TERMINAL and not self.plan.controls:
                return
            await asyncio.sleep(self.chance.uniform(0.05, 1.0))

    async def ended(self, job: str) -> bool:
        """Waits for the job's end. Returns False if the load ends before."""
        for _ in range(POLLS_MAX):
            response = await self.api.read(job, self.plan.tenant, self.replica())
            if response.field("status") in TERMINAL:
                return True
            if self.closing.is_set() or response.status == 410:
                return False
            await asyncio.sleep(0.3)
        return False

    async def read_as_another(self, job: str) -> None:
        """Calls for the job with another tenant's key: each must answer as for an unknown job."""
        other = self.chance.choice([tenant for tenant in TENANTS if tenant != self.plan.tenant])
        await asyncio.sleep(self.chance.uniform(0.0, 2.0))
        calls = [("GET", ""), ("GET", "/result"), ("GET", "/steps"), ("GET", "/events"), ("GET", "/receipt"),
                 ("GET", "/input"), ("GET", "/attempts"), ("POST", "/cancel"), ("POST", "/fork"), ("DELETE", "")]  # fmt: skip
        for method, route in self.chance.sample(calls, 4):
            path = f"/v1/jobs/{job}{route}"
            response = await self.api.call(other, method, path, replica=self.replica())
            self.recorder.record("foreign", tenant=other, of=None, path=path, status=response.status, at=now())

    # Changes.

    async def change(self, job: str) -> None:
        for control in self.plan.controls:
            await asyncio.sleep(control.delay)
            if control.command != "cancel" and not await self.ended(job) or self.closing.is_set():
                return
            if control.command == "purge" and not await self.read_before_purge(job):
                return
            await self.repeat(job, control)

    async def read_before_purge(self, job: str) -> bool:
        for _ in range(CALLS_MAX):
            if await self.api.read_steps(job, self.plan.tenant, self.replica()):
                return True
            await asyncio.sleep(0.2)
        return False

    async def repeat(self, job: str, control: Control) -> None:
        """Sends a command until it has a response. A fork is sent once, because each creates a job."""
        for _ in range(CALLS_MAX):
            method, path = ("DELETE", "") if control.command == "purge" else ("POST", f"/{control.command}")
            body = {"fromStep": control.from_step} if control.from_step else None
            sent = now()
            response = await self.api.call(
                self.plan.tenant, method, f"/v1/jobs/{job}{path}", body, self.replica()
            )
            fork = response.field("jobId") if control.command == "fork" and is_success(response.status) else None
            self.recorder.record(
                "control", command=control.command, job=job, tenant=self.plan.tenant, sent=sent, done=now(),
                status=response.status, code=response.field("code"), version=response.field("version"),
                state=response.field("status"), fromStep=control.from_step, new=fork,
            )  # fmt: skip
            if response.status is not None and response.status < 500 or control.command == "fork":
                return
            await asyncio.sleep(self.chance.uniform(0.1, 0.6))


class Watcher:
    """A client with an event stream that it moves from replica to replica."""

    def __init__(self, client: JobClient, job: str, name: str) -> None:
        self.client, self.job, self.name = client, job, name
        self.chance = random.Random(f"{client.plan.seed} {name}")
        self.last = 0
        self.state = ""

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(STREAMS_MAX):
            stay_s = self.chance.choice((0.2, 1.0, 3.0, 10.0, 30.0))
            if await self.watch(loop.time() + stay_s) or self.client.closing.is_set() and self.state in TERMINAL:
                return
            # A job that ended may be resumed.
            await asyncio.sleep(1.0 if self.state in TERMINAL else self.chance.uniform(0.0, 0.3))

    async def watch(self, until: float) -> bool:
        """Opens one stream. Returns whether there will be no further event."""
        client, replica = self.client, self.chance.randrange(64)
        replicas = client.api.cluster.replicas
        headers = {"authorization": f"Bearer {client.api.keys[client.plan.tenant]}", "last-event-id": str(self.last)}
        path = f"/v1/jobs/{self.job}/events"
        stream = await http1.EventStream.open(replicas[replica % len(replicas)].port, path, headers)
        since = self.last
        try:
            async for event in stream.events(until) if stream and stream.status == 200 else nothing():
                self.see(event, since)
        finally:
            if stream:
                await stream.close()
        status = stream.status if stream else None
        client.recorder.record(
            "stream", watcher=self.name, job=self.job, at=now(), status=status, last=self.last, since=since,
            complete=bool(stream and stream.complete),
        )  # fmt: skip
        if status == 410:
            return True
        return self.state in TERMINAL and not client.plan.controls

    def see(self, event: dict[str, Any], since: int) -> None:
        job = event["job"]
        self.last, self.state = event["id"], job["status"]
        self.client.recorder.record(
            "event", watcher=self.name, job=self.job, at=now(), version=event["id"], state=job["status"],
            attempt=job["attempt"], phase=job["phase"], since=since, hasResult=job["result"] is not None,
        )  # fmt: skip


async def nothing() -> Any:
    """An empty stream."""
    for event in ():
        yield event


def payload(canary: str, plan: JobPlan) -> bytes:
    """Returns bytes that contain a text by which they are found on disk."""
    if not plan.payload_bytes:
        return b""
    mark = f"payload-{canary}-{plan.number} ".encode()
    return (mark * (plan.payload_bytes // len(mark) + 1))[: plan.payload_bytes]


async def create_endpoints(api: Api, receiver: Any) -> list[str]:
    """Subscribes each tenant as planned, and returns the paths at the receiver."""
    paths = []
    receiver.canaries = api.canaries
    for tenant, events in SUBSCRIPTIONS.items():
        path = f"/endpoint/{tenant}"
        made = await api.create("/v1/endpoints", {"url": receiver.url(path), "events": list(events)}, tenant)
        receiver.endpoint(path, tenant, made["secret"])
        paths.append(path)
    return paths
