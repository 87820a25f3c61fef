"""A Longhaul server to measure: its start, its memory and its stop."""

import contextlib
import http.client
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Iterator, NamedTuple
from urllib.parse import urlsplit

from program import Failed

MB = 1_000_000
STOP_S = 30
RESPONSE_S = 120


class Memory(NamedTuple):
    """Memory of a process, from /proc."""

    now_mb: float
    peak_mb: float

    @staticmethod
    def of(pid: int) -> "Memory":
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        kib = {words[0]: int(words[1]) for words in map(str.split, lines) if words[-1] == "kB"}
        return Memory(kib["VmRSS:"] * 1024 / MB, kib["VmHWM:"] * 1024 / MB)


class Server(NamedTuple):
    url: str
    pid: int
    key: str | None  # the first admin key, if keys are required


@contextlib.contextmanager
def running(binary: Path, folder: Path, config: str = "", options: tuple[str, ...] = ()) -> Iterator[Server]:
    """Starts a server in its own folder, on SQLite unless `options` name a database, and stops it at the end."""
    file = folder.with_suffix(".toml")
    file.write_text(config, encoding="utf-8")
    command = [
        str(binary), "--json", "serve", "--listen", "127.0.0.1:0",
        "--data", str(folder), "--config", str(file), *options,
    ]  # fmt: skip
    server = subprocess.Popen(
        command, env={**environment(), "LONGHAUL_LOG_LEVEL": "error"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        ready = server.stdout.readline() if server.stdout else ""
        if not ready:
            raise Failed(f"exit {server.wait()}: {' '.join(command)}")
        url = field(ready.encode(), "url").rstrip("/")
        yield Server(url, server.pid, json.loads(ready).get("adminKey"))
    finally:
        server.terminate()
        try:
            server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=RESPONSE_S)


def call(
    connection: http.client.HTTPConnection, method: str, path: str,
    body: object = None, took: list[float] | None = None,
) -> bytes:  # fmt: skip
    """Returns the body of a successful response, and adds the milliseconds to its last byte to `took`."""
    text = None if body is None else json.dumps(body)
    begun = time.perf_counter()
    try:
        connection.request(method, path, text, {} if text is None else {"content-type": "application/json"})
        response = connection.getresponse()
        content = response.read()
    except OSError as error:
        raise Failed(f"{method} {path}: {error}") from error
    if took is not None:
        took.append((time.perf_counter() - begun) * 1_000)
    if response.status >= 300:
        raise Failed(f"{method} {path}: {response.status} {content[:200]!r}")
    return content


def environment() -> dict[str, str]:
    """Returns the environment without LONGHAUL_ variables."""
    return {k: v for k, v in os.environ.items() if not k.startswith("LONGHAUL_")}


def field(body: bytes, name: str) -> str:
    try:
        return json.loads(body)[name]
    except (ValueError, LookupError, TypeError) as error:
        raise Failed(f"no {name} in {body!r}") from error
