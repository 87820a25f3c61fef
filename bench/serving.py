"""A server of our own to measure: started, asked for its memory, and stopped at the end."""

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Iterator, NamedTuple

from program import Failed

MB = 1_000_000
STOP_S = 30


class Memory(NamedTuple):
    """Of a process, as the kernel counts it."""

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
    key: str | None  # the first one, where everybody needs one


@contextlib.contextmanager
def running(binary: Path, folder: Path, config: str = "") -> Iterator[Server]:
    """A server on SQLite and a folder of its own, stopped at the end."""
    file = folder.with_suffix(".toml")
    file.write_text(config, encoding="utf-8")
    command = [
        str(binary), "--json", "serve", "--listen", "127.0.0.1:0",
        "--data", str(folder), "--config", str(file),
    ]  # fmt: skip
    server = subprocess.Popen(
        command, env={**environment(), "LONGHAUL_LOG_LEVEL": "error"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        told = server.stdout.readline() if server.stdout else ""
        if not told:
            raise Failed(f"exit {server.wait()}: {' '.join(command)}")
        url = field(told.encode(), "url").rstrip("/")
        yield Server(url, server.pid, json.loads(told).get("adminKey"))
    finally:
        server.terminate()
        try:
            server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def environment() -> dict[str, str]:
    """Ours, without what it happens to say to Longhaul."""
    return {k: v for k, v in os.environ.items() if not k.startswith("LONGHAUL_")}


def field(answer: bytes, name: str) -> str:
    try:
        return json.loads(answer)[name]
    except (ValueError, LookupError, TypeError) as error:
        raise Failed(f"no {name} in {answer!r}") from error
