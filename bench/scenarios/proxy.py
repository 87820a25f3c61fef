"""An endpoint of 100 ms through the gateway in sync mode, beside the endpoint itself."""

import argparse
import asyncio
import statistics
import threading
from pathlib import Path
from typing import Callable
from urllib.parse import urlsplit

import comparison
import goals
from program import Failed
from receiver import endpoint
from report import Measurements
from serving import call, connect, running

SLOW_S = 0.1
CALLERS = 4
# Requests per caller, sequential.
REQUESTS = 100
BODY = {"report": "x" * 1_000}
ANSWER = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{"done":true}'
CONFIG = """
[kinds.report]
http = {{ url = "http://127.0.0.1:{port}/report" }}
concurrency = 64
[[proxy]]
path = "/reports"
kind = "report"
mode = "sync"
"""


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    with (
        endpoint(respond_slowly) as port,
        running(args.binary, folder / "proxy", CONFIG.format(port=port)) as server,
    ):
        ways = [("direct", f"http://127.0.0.1:{port}/report"), ("proxied", f"{server.url}/reports")]
        for _ in measured.passes("proxy, "):
            for name, url in ways:
                measure_calls(measured, name, url)
            ways.reverse()
    return measured.report(goals.PROXY, {"callers": CALLERS})


def respond_slowly(_body: bytes, write: Callable[[bytes], None]) -> None:
    asyncio.get_running_loop().call_later(SLOW_S, write, ANSWER)


def measure_calls(measured: Measurements, name: str, url: str) -> None:
    each = 10 if measured.args.quick else REQUESTS
    took: list[float] = []
    wrong: list[str] = []

    def send() -> None:
        connection = connect(url)
        try:
            for _ in range(each):
                body = call(connection, "POST", urlsplit(url).path, BODY, took)
                if body != b'{"done":true}':
                    wrong.append(repr(body))
        except Failed as error:
            wrong.append(str(error))

    callers = [threading.Thread(target=send) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    if wrong:
        raise Failed(f"{len(wrong)} wrong responses, for example {wrong[0]}")
    parts = statistics.quantiles(took, n=100)
    measured.add(f"{name} p50", parts[49], "ms")
    measured.add(f"{name} p99", parts[98], "ms")
