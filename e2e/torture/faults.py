"""Injects the faults of a plan, each at its time, and records from when to when each of them lasted."""

import asyncio
import os
import signal

from cluster import STOP_S, Cluster, Replica
from history import Recorder, now
from plan import Fault
from receiver import MODES, Receiver


class Faults:
    def __init__(self, cluster: Cluster, receiver: Receiver, recorder: Recorder) -> None:
        self.cluster, self.receiver, self.recorder = cluster, receiver, recorder
        self.endpoints: list[str] = []
        self.spinners: list[asyncio.subprocess.Process] = []

    async def run(self, started_at: float) -> None:
        """Injects all faults. Several may last at the same time."""
        async with asyncio.TaskGroup() as group:
            for fault in self.cluster.plan.faults:
                await asyncio.sleep(max(0.0, started_at + fault.at - now()))
                group.create_task(self.inject(fault))

    async def inject(self, fault: Fault) -> None:
        replica = self.cluster.replicas[fault.target % len(self.cluster.replicas)]
        record = self.recorder.record(
            "fault", fault=fault.sort, at=now(), until=None, replica=replica.name, happened=True
        )
        method = getattr(self, fault.sort.replace("-", "_"))
        try:
            # A fault without an effect, for example the kill of a dead process, returns False.
            record["happened"] = await method(fault, replica) is not False
        finally:
            record["until"] = now()

    def heal(self) -> None:
        """Ends what may still last, after the last fault."""
        for replica in self.cluster.replicas:
            replica.signal(signal.SIGCONT)
            replica.wanted.set()
            if replica.proxy:
                replica.proxy.heal()
        self.receiver.heal()

    async def close(self) -> None:
        for spinner in self.spinners:
            if spinner.returncode is None:
                # `timeout` passes SIGTERM on to its loop; SIGKILL would leave the loop behind.
                spinner.terminate()
                await spinner.wait()

    # Processes.

    async def kill(self, fault: Fault, replica: Replica) -> bool:
        if replica.pid is None or not replica.wanted.is_set():
            return False
        replica.wanted.clear()
        replica.expected = True
        try:
            if not replica.signal(signal.SIGKILL):
                return False
            if not fault.detail:
                replica.rename()
            await asyncio.sleep(fault.seconds)
        finally:
            replica.wanted.set()
        return True

    async def term(self, fault: Fault, replica: Replica) -> bool:
        process = replica.process
        # A paused process would get the signal when it continues.
        if replica.pid is None or process is None or not replica.wanted.is_set() or replica.paused:
            return False
        replica.wanted.clear()
        replica.expected = True
        try:
            replica.signal(signal.SIGTERM)
            started_at = now()
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                self.recorder.record("process", what="stuck", at=now(), replica=replica.name, pid=process.pid)
                replica.signal(signal.SIGKILL)
                await process.wait()
            replica.record("stopped", seconds=now() - started_at, code=process.returncode)
            replica.rename()
            await asyncio.sleep(fault.seconds)
        finally:
            replica.wanted.set()
        return True

    async def pause(self, fault: Fault, replica: Replica) -> bool:
        if replica.paused or not replica.wanted.is_set() or not replica.signal(signal.SIGSTOP):
            return False
        replica.paused = True
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            replica.paused = False
            replica.signal(signal.SIGCONT)
        return True

    async def cpu(self, fault: Fault, replica: Replica) -> None:
        """Keeps every core busy. `timeout` ends the loops even if this process dies."""
        loops = ["timeout", f"{fault.seconds:.1f}", "bash", "-c", "while :; do :; done"]
        started = [await asyncio.create_subprocess_exec(*loops) for _ in range(2 * (os.cpu_count() or 1))]
        self.spinners += started
        for spinner in started:
            await spinner.wait()

    # The database.

    async def postgres_crash(self, fault: Fault, replica: Replica) -> None:
        await self.cluster.crash_postgres(fault.seconds)

    postgres_away = postgres_crash

    async def cut(self, fault: Fault, replica: Replica) -> bool:
        return replica.proxy is not None and replica.proxy.cut() > 0

    async def freeze(self, fault: Fault, replica: Replica) -> None:
        if replica.proxy:
            replica.proxy.freeze()

    async def stall(self, fault: Fault, replica: Replica) -> None:
        if replica.proxy:
            replica.proxy.stall()
            await asyncio.sleep(fault.seconds)
            replica.proxy.flowing.set()

    async def delay(self, fault: Fault, replica: Replica) -> None:
        if replica.proxy:
            replica.proxy.delay_s = fault.detail
            await asyncio.sleep(fault.seconds)
            replica.proxy.delay_s = 0.0

    async def refuse(self, fault: Fault, replica: Replica) -> None:
        """Cuts the connections and accepts no new ones."""
        if replica.proxy:
            replica.proxy.refusing = True
            replica.proxy.cut()
            await asyncio.sleep(fault.seconds)
            replica.proxy.refusing = False

    async def swallow(self, fault: Fault, replica: Replica) -> bool:
        """Loses the responses to the next commits. Lasts until that many are lost, at most 3 s."""
        if not replica.proxy:
            return False
        before = replica.proxy.swallowed
        replica.proxy.to_swallow += int(fault.detail)
        for _ in range(30):
            await asyncio.sleep(0.1)
            if not replica.proxy.to_swallow:
                break
        replica.proxy.to_swallow = 0
        return replica.proxy.swallowed > before

    # Webhook endpoints.

    async def endpoint(self, fault: Fault, replica: Replica) -> bool:
        if not self.endpoints:
            return False
        path = self.endpoints[fault.target % len(self.endpoints)]
        self.receiver.modes[path] = MODES[int(fault.detail) % len(MODES)]
        await asyncio.sleep(fault.seconds)
        self.receiver.modes.pop(path, None)
        return True
