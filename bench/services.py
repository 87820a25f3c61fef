"""A private Postgres and a private Redis, which are removed at the end of the `with`."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

from program import Failed

ROOT = Path(__file__).resolve().parent.parent
POSTGRES_SETTINGS = {
    "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
    "shared_buffers": "1GB", "max_wal_size": "8GB",
}  # fmt: skip
REDIS_SETTINGS = {"appendonly": "yes", "appendfsync": "always", "save": ""}
REDIS_START_S = 10


class Postgres:
    """A running cluster."""

    def __init__(self, url: str, data: Path):
        self.server = url.rsplit("/", 1)[0]
        self.pid = int((data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        self.session: subprocess.Popen | None = None

    def query(self, *statements: str) -> str:
        return self.query_in(f"{self.server}/postgres", *statements)

    def query_in(self, url: str, *statements: str) -> str:
        command = ["psql", url, "--no-psqlrc", "--quiet", "-At"]
        for statement in statements:
            command += ["-c", statement]
        return script("run", *command)

    def wal_position(self) -> str:
        """Returns the end of the log within a millisecond, over a session that stays open."""
        if not self.session:
            command = [str(ROOT / "scripts" / "postgres"), "run", "psql", f"{self.server}/postgres"]
            self.session = subprocess.Popen(
                [*command, "--no-psqlrc", "--quiet", "-At"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            )  # fmt: skip
        assert self.session.stdin and self.session.stdout
        self.session.stdin.write("select pg_current_wal_insert_lsn();\n")
        self.session.stdin.flush()
        position = self.session.stdout.readline().strip()
        if not position:
            raise Failed("psql has ended")
        return position

    def close(self) -> None:
        if self.session:
            self.session.communicate()

    def wal_between(self, start: str, end: str) -> tuple[int, int, int]:
        """Returns the bytes, the records and the bytes of full-page images between two positions.

        Records come from the log itself, because backends update pg_stat_wal seconds later.
        """
        if start == end:
            return 0, 0, 0
        lines = self.query(
            "create extension if not exists pg_walinspect",
            # A commit, because the log can be read only up to its last flush.
            "select pg_logical_emit_message(true, 'bench', '')",
            f"select pg_wal_lsn_diff('{end}', '{start}')::bigint, coalesce(sum(count), 0)::bigint, "
            f"coalesce(sum(fpi_size), 0)::bigint from pg_get_wal_stats('{start}', '{end}')",
        ).splitlines()
        size, records, images = map(int, lines[-1].split("|"))
        return size, records, images

    @contextlib.contextmanager
    def empty_database(self, name: str) -> Iterator[str]:
        """Yields its URL, right after a checkpoint."""
        self.query(f"drop database if exists {name} with (force)", f"create database {name}", "checkpoint")
        yield f"{self.server}/{name}"
        self.query(f"drop database if exists {name} with (force)")


def install(*names: str) -> None:
    """Installs peers into .tools/ of this checkout, once."""
    command = [str(ROOT / "scripts" / "setup-bench"), *names]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        raise Failed(f"could not be installed: {', '.join(names)}")


def has_postgres() -> bool:
    """Returns whether scripts/postgres finds a Postgres, without installing one."""
    return any(Path("/usr/lib/postgresql").glob("*/bin"))


def script(*words: str) -> str:
    """Runs scripts/postgres in its own session, so that Ctrl-C does not interrupt a clean-up."""
    done = subprocess.run(
        [str(ROOT / "scripts" / "postgres"), *words],
        capture_output=True, text=True, check=False, start_new_session=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise Failed(f"scripts/postgres {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    data = folder / "postgres"
    # Postgres runs as another user if we are root.
    folder.chmod(0o755)
    try:
        url = script("start", str(data), *(f"{k}={v}" for k, v in POSTGRES_SETTINGS.items()))
        cluster = Postgres(url, data / "data")
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        script("remove", str(data))


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[tuple[str, int]]:
    """Yields the URL and the process of an empty Redis.

    Each measurement has its own, so that no rewrite of its log affects the next.
    """
    data = folder / "redis"
    data.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(data)]
    for name, value in REDIS_SETTINGS.items():
        command += [f"--{name}", value]
    with open(data / "log", "wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            wait_for_redis(server, port, data / "log")
            yield f"redis://127.0.0.1:{port}", server.pid
        finally:
            server.kill()
            server.wait()
            for path, _, names in os.walk(data, topdown=False):
                for name in names:
                    os.unlink(os.path.join(path, name))
                os.rmdir(path)


def wait_for_redis(server: subprocess.Popen, port: int, log: Path) -> None:
    deadline = time.monotonic() + REDIS_START_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as line:
            line.sendall(b"PING\r\n")
            if line.recv(64).startswith(b"+PONG"):
                return
        time.sleep(0.02)
    raise Failed(f"Redis does not respond: {log.read_text(encoding='utf-8', errors='replace')[-500:]}")


def redis_version() -> str:
    output = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    return output.split("v=")[1].split()[0]
