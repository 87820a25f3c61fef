"""Child processes that show when their measured part starts and ends, so that its costs can be counted."""

import contextlib
import fcntl
import json
import os
import re
import struct
import subprocess
import termios
import threading
from typing import Callable, Iterator

import cpu
from program import Failed, say

# Gets the name of a mark, "start" or "end" of the measured part, and the CPU seconds of the program up to it.
OnMark = Callable[[str, float], None]

TERMINAL = struct.pack("HHHH", 24, 120, 0, 0)  # rows and columns
# The output of `longhaul bench` without --json.
REPORT = re.compile(
    r"(?P<scenario>\w+) +(?P<jobs>\d+) jobs in +(?P<seconds>[\d.]+) s +(?P<jobsPerS>[\d.]+) jobs/s"
    r"( +(?P<stepsPerS>[\d.]+) steps/s)? +p50 +(?P<p50Ms>[\d.]+) ms +p99 +(?P<p99Ms>[\d.]+) ms"
)


def peer_report(command: list[str], env: dict[str, str], timeout_s: int, on_mark: OnMark) -> dict:
    """Returns the report of a peer, which prints a line at each mark and waits for one."""
    reports = []
    with child_process([*command, "--marks"], env, timeout_s, subprocess.PIPE) as child:
        assert child.stdin and child.stdout
        for line in filter(str.strip, child.stdout):
            try:
                report = json.loads(line)
            except ValueError as error:
                raise Failed(f"not JSON: {line!r}: {' '.join(command)}") from error
            if "mark" in report:
                on_mark(report["mark"], cpu.of_process(child.pid))
                child.stdin.write("\n")
                child.stdin.flush()
            else:
                reports.append(report)
    if len(reports) != 1:
        raise Failed(f"{len(reports)} reports for one scenario: {' '.join(command)}")
    return reports[0]


def longhaul_report(command: list[str], env: dict[str, str], timeout_s: int, on_mark: OnMark) -> dict:
    """Returns the report of `longhaul bench`, without --json.

    Its progress bar appears when the measured part starts, for example when the backlog of a drain is submitted: its
    first bytes on a terminal are the start mark. The end mark is the exit. The program does not pause.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, TERMINAL)
    shown = b""
    with (
        os.fdopen(ours, "rb", buffering=0) as terminal,
        child_process(command, env, timeout_s, subprocess.DEVNULL, theirs) as child,
    ):
        while part := read(terminal):
            if not shown and b"[" in part:
                on_mark("start", cpu.of_process(child.pid))
            shown = (shown + part)[-2000:]
        # Not reaped yet, because its clock is read first.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        on_mark("end", cpu.of_process(child.pid))
        output = child.stdout.read() if child.stdout else ""
        if not (match := REPORT.search(output)):
            say(shown.decode(errors="replace"))
            return_code = child.wait()
            raise Failed(f"exit {return_code}, no report in {output!r}: {' '.join(command)}")
    report = {name: float(text) for name, text in match.groupdict().items() if text and name != "scenario"}
    return {**report, "scenario": match["scenario"], "jobs": int(match["jobs"])}


def read(terminal) -> bytes:
    """Returns the next bytes; none when the program has ended, which the kernel reports as an error."""
    try:
        return terminal.read(65536)
    except OSError:
        return b""


@contextlib.contextmanager
def child_process(
    command: list[str], env: dict[str, str], timeout_s: int, stdin: int, stderr: int | None = None
) -> Iterator[subprocess.Popen]:
    """Starts a program, and kills it after an error or when it takes too long. Closes `stderr` in this process."""
    command_line = " ".join(command)
    try:
        child = subprocess.Popen(
            command, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    except OSError as error:
        raise Failed(f"{error}: {command_line}") from error
    finally:
        if stderr is not None:
            os.close(stderr)
    late = threading.Event()
    timer = threading.Timer(timeout_s, lambda: (late.set(), child.kill()))
    timer.start()
    with child:
        try:
            yield child
        except BaseException as error:
            child.kill()
            if late.is_set() and isinstance(error, (Failed, OSError)):
                raise Failed(f"still running after {timeout_s} s: {command_line}") from error
            raise
        finally:
            code = child.wait()
            timer.cancel()
    if late.is_set():
        raise Failed(f"still running after {timeout_s} s: {command_line}")
    if code != 0:
        raise Failed(f"exit {code}: {command_line}")
