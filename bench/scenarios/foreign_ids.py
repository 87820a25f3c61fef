"""Response times of requests for another tenant's job, beside those for an unknown one."""

import argparse
import http.client
import json
import statistics
import time
from pathlib import Path

import comparison
import goals
from program import Failed
from report import Measurements
from serving import Server, connect, running

KEYS = "[auth]\nrequire_keys = true\nfailures_per_minute = 0\n"
REQUESTS = 5_000
UNKNOWN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
US = 1_000_000


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    requests = 50 if args.quick else REQUESTS
    with running(args.binary, folder / "foreign", KEYS) as server:
        connection = connect(server.url)
        owner, other = (created(server, connection, tenant) for tenant in ("blue", "green"))
        job = {"kind": "demo", "input": {"result": "x" * 10_000}}
        foreign = answered(connection, "POST", "/v1/jobs", owner, (200, 202), job)["jobId"]
        for _ in measured.passes("foreign ids, "):
            took: dict[str, list[float]] = {foreign: [], UNKNOWN: []}
            for _ in range(requests):
                # In turns, so that both meet the same machine.
                for job_id, times in took.items():
                    begun = time.perf_counter()
                    answered(connection, "GET", f"/v1/jobs/{job_id}", other, (404,))
                    times.append(time.perf_counter() - begun)
            for name, times in (("foreign id", took[foreign]), ("unknown id", took[UNKNOWN])):
                measured.add(name, statistics.median(times) * US, " us")
    return measured.report(goals.FOREIGN_IDS, {"requests": f"{requests:,}"})


def created(server: Server, connection: http.client.HTTPConnection, tenant: str) -> str:
    """Creates a tenant and returns its key."""
    admin = server.key or ""
    answered(connection, "POST", "/v1/tenants", admin, (201,), {"id": tenant})
    body = {"tenant": tenant, "name": tenant, "scopes": ["submit", "read"]}
    return answered(connection, "POST", "/v1/keys", admin, (201,), body)["key"]


def answered(
    connection: http.client.HTTPConnection, method: str, path: str, key: str, expected: tuple[int, ...],
    body: object = None,
) -> dict:  # fmt: skip
    """Returns the body of a response, which must have an expected status."""
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        content = response.read()
    except OSError as error:
        raise Failed(f"{method} {path}: {error}") from error
    if response.status not in expected:
        raise Failed(f"{method} {path}: {response.status} {content[:200]!r}")
    return json.loads(content)
