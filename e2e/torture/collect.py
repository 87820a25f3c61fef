"""Reads everything that is left after a run: over HTTP, from the ledger and from disk."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import http1
from clients import Api
from cluster import Cluster
from history import Recorder, instant, now, optional_instant
from plan import TENANTS

CONCURRENCY = 24
PAGE = 200
PAGES_MAX = 5_000
# For the entries of a job that has not ended, whose event stream stays open.
OPEN_STREAM_S = 2.0
SETTLE_POLL_S = 0.5


async def settle(api: Api, recorder: Recorder, seconds: float) -> None:
    """Waits until every job has ended and every delivery that is due was sent, at most this long."""
    deadline = now() + seconds
    while now() < deadline:
        open_jobs = [await open_count(api, tenant) for tenant in TENANTS]
        if not any(open_jobs):
            recorder.record("mark", name="ended", at=now())
            break
        await asyncio.sleep(SETTLE_POLL_S)
    while now() < deadline and any([await owed_deliveries(api, tenant) for tenant in TENANTS]):
        await asyncio.sleep(SETTLE_POLL_S)
    recorder.record("mark", name="settled", at=now())


async def open_count(api: Api, tenant: str) -> int:
    response = await api.get(tenant, "/v1/jobs?status=pending,running,waiting&limit=1")
    return len(response.field("jobs") or ()) if response.status == 200 else 1


async def owed_deliveries(api: Api, tenant: str) -> bool:
    """Returns whether a delivery is overdue or due within seconds. Later retries are not waited for."""
    for status in ("pending", "running"):
        response = await api.get(tenant, f"/v1/deliveries?status={status}&limit={PAGE}")
        for delivery in response.field("deliveries") or ():
            if instant(delivery["runAt"]) < now() + 3.0:
                return True
    return False


async def collect(api: Api, cluster: Cluster, recorder: Recorder, known: set[tuple[str, str]]) -> None:
    """Records the final state. `known` has the jobs that clients have seen, by tenant and id."""
    jobs = set(known)
    for tenant in TENANTS:
        listed = await pages(api, tenant, "/v1/jobs", "jobs")
        for job in listed:
            jobs.add((tenant, job["jobId"]))
        keys = ("jobId", "idempotencyKey", "kind", "status", "forkedFrom", "labels")
        recorder.record("listed", tenant=tenant, jobs=[{key: job[key] for key in keys} for job in listed])
    permits = asyncio.Semaphore(CONCURRENCY)

    async def one(tenant: str, job: str) -> None:
        async with permits:
            recorder.record("final", job=job, tenant=tenant, **await final(api, tenant, job))

    await asyncio.gather(*(one(tenant, job) for tenant, job in sorted(jobs)))
    for tenant in TENANTS:
        usage = await api.get(tenant, "/v1/usage?by=month")
        recorder.record("usage", tenant=tenant, status=usage.status, total=usage.field("total"))
        for delivery in await pages(api, tenant, "/v1/deliveries", "deliveries"):
            recorder.record(
                "endpoint-delivery", tenant=tenant, job=delivery["jobId"], id=delivery["messageId"],
                type=delivery["type"], endpoint=delivery["endpointId"], url=delivery["url"], state=delivery["status"],
                attempt=delivery["attempt"], maxAttempts=delivery["maxAttempts"], runAt=instant(delivery["runAt"]),
                at=now(),
            )  # fmt: skip


async def pages(api: Api, tenant: str, path: str, field: str) -> list[dict[str, Any]]:
    found, cursor = [], ""
    for _ in range(PAGES_MAX):
        response = await api.get(tenant, f"{path}?limit={PAGE}{cursor}")
        found += response.field(field) or []
        if response.status != 200 or not response.field("nextCursor"):
            return found
        cursor = f"&cursor={response.field('nextCursor')}"
    return found


async def final(api: Api, tenant: str, job: str) -> dict[str, Any]:
    base = f"/v1/jobs/{job}"
    response = await api.get(tenant, base)
    receipt = await api.get(tenant, f"{base}/receipt")
    found = {"status": response.status, "at": now(), "receipt": stored(receipt)}
    if response.status != 200:
        return found
    body = response.json()
    steps, attempts, result, its_input = [
        await api.get(tenant, base + route) for route in ("/steps", "/attempts", "/result", "/input")
    ]
    artifacts = {}
    for artifact in body["artifacts"]:
        artifacts[artifact["name"]] = (await api.get(tenant, artifact["url"])).body.decode(errors="replace")
    return found | {
        "body": {key: value for key, value in body.items() if key not in ("result", "statusUrl", "eventsUrl")},
        "completedAt": optional_instant(body["completedAt"]), "expiresAt": optional_instant(body["expiresAt"]),
        "history": await history(api, tenant, job),
        "steps": [] if steps.status != 200 else [
            step | {"completedAt": instant(step["completedAt"])} for step in steps.json()["steps"]
        ],
        "attempts": [] if attempts.status != 200 else [
            attempt | {"startedAt": instant(attempt["startedAt"]), "endedAt": optional_instant(attempt["endedAt"])}
            for attempt in attempts.json()["attempts"]
        ],
        "resultStatus": result.status, "result": result.json() if result.status == 200 else None,
        "bodyResult": body["result"], "input": its_input.json(), "artifacts": artifacts,
    }  # fmt: skip


def stored(receipt: http1.Response) -> list[dict[str, Any]] | None:
    if receipt.status != 200:
        return None
    return [
        {"role": one["role"], "name": one["name"], "size": one["size"], "sha256": one["sha256"],
         "keyDestroyedAt": optional_instant(one["keyDestroyedAt"]), "deletedAt": optional_instant(one["deletedAt"])}
        for one in receipt.json()["stored"]
    ]  # fmt: skip


async def history(api: Api, tenant: str, job: str) -> list[dict[str, Any]]:
    """Returns the job's history, as a watcher sees it that starts at its first version."""
    headers = {"authorization": f"Bearer {api.keys[tenant]}", "last-event-id": "0"}
    loop = asyncio.get_running_loop()
    for replica in api.cluster.replicas * 3:
        stream = await http1.EventStream.open(replica.port, f"/v1/jobs/{job}/events", headers)
        if not stream:
            continue
        try:
            events = [event async for event in stream.events(loop.time() + OPEN_STREAM_S)]
        finally:
            await stream.close()
        if stream.status == 200 and events:
            return [
                {"version": event["id"], "state": event["job"]["status"], "attempt": event["job"]["attempt"],
                 "phase": event["job"]["phase"]} for event in events
            ]  # fmt: skip
    return []


# --- the ledger and the disk ---


def read_ledger(cluster: Cluster, recorder: Recorder) -> None:
    """Records each line of the ledger. The folder of a run names the data folder of its server."""
    names = process_names(recorder)
    for line in cluster.ledger.read_text(encoding="utf-8").splitlines():
        what, at, job, attempt, step, run, folder = line.split(" ")
        # rINDEX/work/PID-RANDOM/JOB-ATTEMPT-RANDOM
        data, _, process, work = Path(folder).parts[-4:]
        recorder.record(
            "run", what=what, at=float(at), job=job, attempt=int(attempt), step=step, run=run, folder=work,
            replica=names.get((data, int(process.split("-")[0]))),
        )  # fmt: skip


def process_names(recorder: Recorder) -> dict[tuple[str, int], str]:
    """Returns the replica of each process that was started, by its data folder and its id."""
    started = [one for one in recorder.observations if one["sort"] == "process" and one["what"] == "started"]
    return {(one["data"], one["pid"]): one["replica"] for one in started}


def read_disk(api: Api, cluster: Cluster, recorder: Recorder) -> None:
    """Records files that hold a payload in clear text, and all blobs and working folders."""
    places = [cluster.blobs, cluster.postgres_folder, *(replica.folder for replica in cluster.replicas)]
    places += [replica.log for replica in cluster.replicas]
    for tenant, canary in api.canaries.items():
        for file in containing(f"payload-{canary}-", [place for place in places if place.exists()]):
            recorder.record("leftover", what="payload", path=file, tenant=tenant, at=now())
    for blob in cluster.blobs.rglob("*"):
        if blob.is_file() and not blob.name.startswith("_"):
            tenant, job = (*blob.relative_to(cluster.blobs).parts, "", "")[:2]
            age = now() - blob.stat().st_mtime
            recorder.record("leftover", what="blob", path=str(blob), tenant=tenant, job=job, age=age, at=now())
    for replica in cluster.replicas:
        for folder in replica.folder.glob("work/*/*"):
            recorder.record("leftover", what="work", path=str(folder), at=now(), job=folder.name.split("-")[0])


def containing(text: str, places: list[Path]) -> list[str]:
    """Returns the files that contain a text. They may be large, and change or vanish meanwhile."""
    command = ["grep", "-rlaF", "--", text, *map(str, places)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout.splitlines()
