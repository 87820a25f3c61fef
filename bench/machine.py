"""Facts about the machine under the benchmark."""

import argparse
import os
import platform
import sqlite3
import subprocess
from pathlib import Path

from program import Failed, say


def file_system(folder: Path) -> str:
    """Returns the type of a folder's file system, from /proc."""
    best = ("", "unknown")
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return best[1]
    for line in mounts:
        _, mount, kind, *_ = line.split(" ")
        if folder.is_relative_to(mount) and len(mount) >= len(best[0]):
            best = (mount, kind)
    return best[1]


def check_binary(binary: Path) -> None:
    if not os.access(binary, os.X_OK):
        raise Failed(f"{binary} is not executable: build it with `make bench`, or choose another with --binary")


def machine(args: argparse.Namespace, folder: Path) -> dict:
    version = ""
    if os.access(args.binary, os.X_OK):
        command = [str(args.binary), "--version"]
        version = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "longhaul": version or "unknown",
        "sqlite": sqlite3.sqlite_version,  # of Python, which measures plain SQLite
        "cores": os.cpu_count(),
        "cpu": platform.machine(),
        "system": platform.system(),
        "fileSystem": file_system(folder),
        "loadBefore": round(os.getloadavg()[0], 1),
    }


def warn_of(facts: dict) -> None:
    if facts["fileSystem"] in ("tmpfs", "ramfs"):
        say("warning: this folder is in memory, where nothing is synced: choose another with --folder")
    if facts["loadBefore"] > 0.5 * (facts["cores"] or 1):
        say(f"warning: load {facts['loadBefore']} on {facts['cores']} cores: results will be too low")


def is_debug(binary: Path) -> bool:
    return binary.resolve().parent.name == "debug"
