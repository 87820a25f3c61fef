"""Replicas of the real binary on one store, which can be killed, paused and restarted at any time."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
from pathlib import Path

import http1
from history import Recorder, now
from plan import CONCURRENCY, Plan
from proxy import Proxy

ROOT = Path(__file__).resolve().parent.parent.parent
START_S = 60.0
# The promise for a stop by SIGTERM.
STOP_S = 25.0
RESTART_PAUSE_S = 0.4
# A server that waits for its dead predecessor's name or for its database ends and starts again.
RESTARTS_MAX = 1_000
POSTGRES_SETTINGS = ("fsync=on", "synchronous_commit=on", "full_page_writes=on")


class Failed(Exception):
    """The run could not be set up, so it says nothing about the product."""


class Replica:
    """One server, restarted whenever it ends."""

    def __init__(self, cluster: "Cluster", index: int) -> None:
        self.cluster, self.index = cluster, index
        self.port = free_port()
        self.proxy: Proxy | None = None
        self.generation = 0
        self.name = f"r{index}"
        self.folder = cluster.folder / self.name
        self.log = cluster.folder / f"{self.name}.log"
        self.process: asyncio.subprocess.Process | None = None
        self.expected = False  # the harness ends the process
        self.paused = False
        self.wanted = asyncio.Event()  # cleared while a fault keeps the replica down
        self.wanted.set()
        self.keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process and self.process.returncode is None else None

    def command(self) -> list[str]:
        database = self.cluster.database_url(self)
        return [
            str(self.cluster.binary), "serve", "--config", str(self.cluster.config), "--data", str(self.folder),
            "--listen", f"127.0.0.1:{self.port}", "--replica", self.name, "--blobs", f"file:{self.cluster.blobs}",
            *(("--database", database) if database else ()),
        ]  # fmt: skip

    async def start(self) -> None:
        key_file = str(self.cluster.folder / "server.key")
        env = {name: value for name, value in os.environ.items() if not name.startswith("LONGHAUL_")}
        env |= {"LONGHAUL_SERVER_KEY_FILE": key_file, "LONGHAUL_LOG_FORMAT": "json", "LONGHAUL_LOG_LEVEL": "info"}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command(), cwd=self.cluster.folder, env=env, stdin=asyncio.subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.record("started")

    def record(self, what: str, **fields: object) -> None:
        pid = self.process.pid if self.process else None
        self.cluster.recorder.record(
            "process", what=what, at=now(), replica=self.name, data=self.folder.name, pid=pid, **fields
        )

    async def keep(self) -> None:
        """Keeps the server running until cancelled."""
        for _ in range(RESTARTS_MAX):
            assert self.process
            code = await self.process.wait()
            self.record("ended", code=code, expected=self.expected)
            await self.wanted.wait()
            if not self.expected:
                await asyncio.sleep(RESTART_PAUSE_S)
                if self.generation % 2 == 0:
                    self.rename()
            self.expected = False
            await self.start()

    def rename(self) -> None:
        """Gives the next process a new name, so that it need not wait for the old one's heartbeats to end."""
        self.generation += 1
        self.name = f"r{self.index}-{self.generation}"

    def signal(self, number: int) -> bool:
        if (pid := self.pid) is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    async def is_ready(self) -> bool:
        return (await http1.request(self.port, "GET", "/readyz", {}, timeout_s=2.0)).status == 200


class Cluster:
    """The store, its replicas and their common folder."""

    def __init__(self, plan: Plan, binary: Path, folder: Path, recorder: Recorder) -> None:
        self.plan, self.binary, self.folder, self.recorder = plan, binary, folder, recorder
        self.config = folder / "longhaul.toml"
        self.blobs = folder / "blobs"
        self.ledger = folder / "ledger"
        self.postgres_folder = folder / "postgres"
        self.postgres_url = ""
        self.postgres_lock = asyncio.Lock()
        self.replicas = [Replica(self, index) for index in range(1, plan.replicas + 1)]

    async def start(self) -> str:
        """Starts everything and returns the first admin key."""
        self.config.write_text(configuration(self.plan, self.folder, self.binary), encoding="utf-8")
        self.ledger.touch()
        if self.plan.store == "postgres":
            # Postgres runs as another user if we are root.
            self.folder.chmod(0o755)
            self.postgres_url = await script("start", str(self.postgres_folder), *POSTGRES_SETTINGS)
            for replica in self.replicas:
                replica.proxy = Proxy(int(self.postgres_url.rsplit(":", 1)[1].split("/")[0]), self.plan.seed)
                await replica.proxy.start()
        for replica in self.replicas:
            # One after the other, because the first creates the server's key.
            await replica.start()
            await self.wait_ready([replica], START_S)
            replica.keeper = asyncio.create_task(replica.keep())
        found = re.search(r"lh_[0-9a-z_]+", self.replicas[0].log.read_text(encoding="utf-8"))
        if not found:
            raise Failed("the first start printed no admin key")
        return found.group()

    def database_url(self, replica: Replica) -> str:
        if not replica.proxy:
            return ""
        host = f"@127.0.0.1:{replica.proxy.port}/"
        return re.sub(r"@127\.0\.0\.1:\d+/", host, self.postgres_url) + "?sslmode=disable"

    async def wait_ready(self, replicas: list[Replica], timeout_s: float) -> None:
        deadline = now() + timeout_s
        for replica in replicas:
            while not await replica.is_ready():
                if now() > deadline:
                    raise Failed(f"{replica.name} is not ready after {timeout_s:.0f} s; its log: {replica.log}")
                await asyncio.sleep(0.1)

    async def crash_postgres(self, seconds: float) -> None:
        """Stops Postgres as a power cut would, and starts it again."""
        async with self.postgres_lock:
            await script("crash", str(self.postgres_folder))
            try:
                await asyncio.sleep(seconds)
            finally:
                await script("start", str(self.postgres_folder))

    async def close(self) -> None:
        """Stops and removes everything that was started, also programs of killed servers."""
        keepers = [replica.keeper for replica in self.replicas if replica.keeper]
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        for replica in self.replicas:
            replica.signal(signal.SIGCONT)
            replica.signal(signal.SIGKILL)
            if replica.process:
                await replica.process.wait()
            if replica.proxy:
                await replica.proxy.close()
        kill_programs(self.folder)
        if self.plan.store == "postgres":
            await script("remove", str(self.postgres_folder))

    def keep_evidence(self, target: Path) -> None:
        """Copies everything except Postgres' own files."""
        target.mkdir(parents=True, exist_ok=True)
        for file in [self.config, self.ledger, *(replica.log for replica in self.replicas)]:
            if file.exists():
                shutil.copy(file, target / file.name)
        for replica in self.replicas if self.plan.store == "sqlite" else []:
            shutil.copytree(replica.folder, target / replica.folder.name, dirs_exist_ok=True)


def configuration(plan: Plan, folder: Path, binary: Path) -> str:
    leases = plan.leases
    step = Path(__file__).resolve().parent / "step"

    def program(name: str) -> str:
        return ", ".join(f'"{word}"' for word in (step, folder / "ledger", name, binary))

    lines = [
        "[auth]", "require_keys = true", "failures_per_minute = 0",
        "[egress]", 'allow = ["127.0.0.1/32"]',
        "[webhooks]", 'first_retry = "300ms"', 'timeout = "2s"',
        "[worker]", f"concurrency = {CONCURRENCY}", f'stop_grace = "{leases.stop_grace:.0f}s"', 'cancel_grace = "1s"',
        "[lease]", *(
            f'{name} = "{seconds * 1000:.0f}ms"'
            for name, seconds in (("duration", leases.duration), ("renew", leases.renew), ("sweep", leases.sweep))
        ),
    ]  # fmt: skip
    common = ["payload = true", 'retry_first = "100ms"', 'retry_max = "2s"', 'timeout = "2m"', "max_attempts = 4"]
    lines += ["[kinds.one]", f"command = [{program('one')}]", *common]
    for count in (2, 3, 4, 6):
        steps = ", ".join(f'{{ name = "{name}", command = [{program(name)}] }}' for name in "abcdef"[:count])
        lines += [f"[kinds.chain{count}]", f"steps = [{steps}]", *common]
    return "\n".join(lines) + "\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


async def script(*words: str) -> str:
    """Runs scripts/postgres in its own session, so that Ctrl-C does not interrupt a clean-up."""
    process = await asyncio.create_subprocess_exec(
        str(ROOT / "scripts" / "postgres"), *words, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    output, errors = await process.communicate()
    if process.returncode != 0:
        raise Failed(f"scripts/postgres {words[0]}: {errors.decode().strip()}")
    return output.decode().strip()


def programs(folder: Path) -> list[int]:
    """Returns the processes whose TMPDIR lies in this folder: programs of jobs, also of killed servers."""
    mark = f"TMPDIR={folder}/".encode()
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (process / "environ").read_bytes():
                    found.append(int(process.name))
    return found


def kill_programs(folder: Path) -> None:
    for pid in programs(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
