"""The disk and plain SQLite: the yardsticks of `bench/run`.

One connection, journal_mode=WAL, synchronous=FULL: the settings of Longhaul's own store. The row is
what any job needs at least; Longhaul writes more for each (its events, its key, the counts of its queue).
"""

import os
import sqlite3
import time
from pathlib import Path

BATCH = 100
# One page and its header: the smallest commit in a WAL.
WAL_FRAME_BYTES = 4096 + 24

SCHEMA = """
create table job (
    id integer primary key, queue text not null, status integer not null default 0,
    run_at integer not null, input text not null);
create index job_due on job (queue, run_at) where status = 0;
"""
INSERT = "insert into job (queue, run_at, input) values ('default', ?, ?)"
CLAIM = """
update job set status = 1 where id in
    (select id from job where queue = 'default' and status = 0 order by run_at limit ?)
returning id
"""
COMPLETE = "update job set status = 2 where id = ? and status = 1"


def fdatasync_ms(folder: Path, times: int) -> list[float]:
    """Returns the sorted times to append and sync one WAL frame."""
    path = folder / "fdatasync"
    sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter
    frame = os.urandom(WAL_FRAME_BYTES)
    took = []
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        for _ in range(times):
            began = time.perf_counter()
            os.write(file, frame)
            sync(file)
            took.append((time.perf_counter() - began) * 1000)
    finally:
        os.close(file)
        path.unlink()
    return sorted(took)


class Table:
    """An empty jobs table in a temporary file."""

    def __init__(self, folder: Path, input_bytes: int):
        self.path = folder / "raw.db"
        self.input = "x" * input_bytes
        self.db = sqlite3.connect(self.path, isolation_level=None)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma synchronous = full")
        self.db.executescript(SCHEMA)

    def __enter__(self) -> "Table":
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def insert(self, rows: int, batch: int) -> float:
        """Returns the seconds for `rows` inserts, `batch` per transaction."""
        began = time.perf_counter()
        for first in range(0, rows, batch):
            self.db.execute("begin immediate")
            numbers = range(first, min(first + batch, rows))
            self.db.executemany(INSERT, ((number, self.input) for number in numbers))
            self.db.execute("commit")
        return time.perf_counter() - began

    def drain(self, batch: int) -> float:
        """Returns the seconds to claim all rows in one transaction and complete them in another, by batch."""
        began = time.perf_counter()
        while claimed := self.db.execute(CLAIM, (batch,)).fetchall():
            self.db.execute("begin immediate")
            self.db.executemany(COMPLETE, claimed)
            self.db.execute("commit")
        took = time.perf_counter() - began
        (left,) = self.db.execute("select count(*) from job where status <> 2").fetchone()
        if left:
            raise RuntimeError(f"{left} rows are not complete")
        return took
