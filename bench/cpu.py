"""CPU time of other processes, user and system together."""

import time
from pathlib import Path

TICKS_PER_S = 100  # of /proc, on every Linux of today


def of_process(pid: int) -> float:
    """Returns the seconds of a process with all its threads, also of one that has ended and was not waited for."""
    # The clock of another process, as clock_getcpuclockid(3) computes it: in nanoseconds, where /proc has 10 ms.
    return time.clock_gettime((~pid << 3) | 2)


def of_family(parent: int) -> float:
    """Returns the seconds of a process and its children, including those that have ended."""
    # Fields 16 and 17 of proc(5): children that were waited for.
    fields = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    total = of_process(parent) + sum(map(int, fields[13:15])) / TICKS_PER_S
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split():
        try:
            total += of_process(int(child))
        except OSError:
            continue  # It has ended meanwhile.
    return total
