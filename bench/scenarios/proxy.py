"""An endpoint of 100 ms through the gateway in sync mode, beside the endpoint itself."""

import argparse
import asyncio
import contextlib
import http.client
import statistics
import threading
import time
from pathlib import Path
from typing import Iterator
from urllib.parse import urlsplit

import goals
from machine import check_binary, machine, warn_of
from program import Failed, print_json, say
from receiver import request_size
from report import report
from serving import running

SLOW_S = 0.1
CALLERS = 4
# Requests per caller, sequential.
REQUESTS = 100
BODY = b'{"report": "' + b"x" * 1_000 + b'"}'
ANSWER = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{"done":true}'
CONFIG = """
[kinds.report]
http = {{ url = "{url}" }}
concurrency = 64
[[proxy]]
path = "/reports"
kind = "report"
mode = "sync"
"""


def measure(args: argparse.Namespace, folder: Path) -> list[goals.Outcome]:
    check_binary(args.binary)
    facts = machine(args, folder)
    warn_of(facts)
    measured: goals.Measured = {}
    with (
        endpoint() as direct,
        running(args.binary, folder / "proxy", CONFIG.format(url=direct)) as server,
    ):
        ways = [("direct", direct), ("proxied", f"{server.url}/reports")]
        for number in range(1, args.passes + 1):
            say(f"proxy, pass {number} of {args.passes}")
            for name, url in ways:
                for what, value in measure_calls(args, name, url).items():
                    measured.setdefault(what, []).append(value)
            ways.reverse()
    return report(args, measured, goals.PROXY, {"callers": CALLERS}, facts)


def measure_calls(args: argparse.Namespace, name: str, url: str) -> dict[str, float]:
    each = 10 if args.quick else REQUESTS
    took: list[float] = []
    wrong: list[str] = []

    def call() -> None:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        try:
            for _ in range(each):
                begun = time.perf_counter()
                connection.request("POST", parts.path, BODY, {"content-type": "application/json"})
                response = connection.getresponse()
                body = response.read()
                took.append((time.perf_counter() - begun) * 1_000)
                if response.status != 200 or body != b'{"done":true}':
                    wrong.append(f"{response.status} {body!r}")
        except OSError as error:
            wrong.append(str(error))

    callers = [threading.Thread(target=call) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    if wrong:
        raise Failed(f"{len(wrong)} wrong responses, for example {wrong[0]}")
    parts = statistics.quantiles(took, n=100)
    values = {f"{name} p50": parts[49], f"{name} p99": parts[98]}
    for what, value in values.items():
        say(f"  {what:<24} {goals.quantity(value, 'ms'):>12}")
        if args.json:
            print_json({"type": "result", "name": what, "value": value, "unit": "ms"})
    return values


class Line(asyncio.Protocol):
    """Serves one connection: responds to each request after the delay."""

    def __init__(self) -> None:
        self.bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.bytes += data
        while (size := request_size(self.bytes)) is not None and len(self.bytes) >= size:
            self.bytes = self.bytes[size:]
            asyncio.get_running_loop().call_later(SLOW_S, self.transport.write, ANSWER)


@contextlib.contextmanager
def endpoint() -> Iterator[str]:
    """Yields the URL of an endpoint that runs in its own thread."""
    loop, ports = asyncio.new_event_loop(), []
    ready = threading.Event()

    async def listen() -> asyncio.Server:
        server = await loop.create_server(Line, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        return server

    def run() -> None:
        server = loop.run_until_complete(listen())
        loop.run_forever()
        server.close()
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{ports[0]}/report"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
