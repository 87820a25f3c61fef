"""CPU and write-ahead log of one measurement. They depend less on the load of the machine than rates do.

They cover the part between two marks of the measured program (see program.py), so that warm-up, migrations and the
backlog of a drain are not counted.
"""

from typing import NamedTuple

import cpu
from services import Postgres

US = 1_000_000


class Cost(NamedTuple):
    """A cost per job: its name in measurements, its field in JSON lines."""

    name: str
    field: str


SERVER_CPU = Cost("server cpu", "serverCpuUs")
CLIENT_CPU = Cost("client cpu", "clientCpuUs")
CPU = Cost("cpu", "cpuUs")
WAL_BYTES = Cost("wal bytes", "walBytes")
WAL_RECORDS = Cost("wal records", "walRecords")
COSTS = [SERVER_CPU, CLIENT_CPU, CPU, WAL_BYTES, WAL_RECORDS]


class Meter:
    """Counters at the two marks of one measurement. Without a cluster there is no write-ahead log."""

    def __init__(self, server: int, cluster: Postgres | None):
        self.server, self.cluster = server, cluster
        self.cpu: dict[str, tuple[float, float]] = {}
        self.wal: dict[str, str] = {}
        if cluster:
            # Opens the session, so that the first mark does not wait for it.
            cluster.wal_position()

    def at(self, mark: str, client_s: float) -> None:
        """Reads the counters of the server, beside the CPU time of the client."""
        if self.cluster:
            self.wal[mark] = self.cluster.wal_position()
        self.cpu[mark] = (cpu.of_family(self.server), client_s)

    def per_job(self, jobs: int) -> dict[str, float]:
        """Returns the costs by the names of their fields; empty if the program has no marks."""
        if not {"start", "end"} <= self.cpu.keys():
            return {}
        server, client = (
            (after - before) * US / jobs for before, after in zip(self.cpu["start"], self.cpu["end"])
        )
        costs = {SERVER_CPU.field: server, CLIENT_CPU.field: client, CPU.field: server + client}
        if self.cluster:
            size, records, images = self.cluster.wal_between(self.wal["start"], self.wal["end"])
            costs |= {
                WAL_BYTES.field: size / jobs, WAL_RECORDS.field: records / jobs,
                "walFullPageBytes": images / jobs,
            }  # fmt: skip
        return {field: round(value, 3) for field, value in costs.items()}


def summary(costs: dict[str, float]) -> str:
    """Returns the costs of a job for the table; `costs` has them by their fields."""
    if CPU.field not in costs:
        return "–"
    text = f"{costs[SERVER_CPU.field]:,.0f} + {costs[CLIENT_CPU.field]:,.0f} µs"
    if WAL_BYTES.field in costs:
        text += f", {costs[WAL_BYTES.field]:,.0f} B, {costs[WAL_RECORDS.field]:,.1f} rec."
    return text
