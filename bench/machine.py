"""What it was measured on."""

import argparse
import os
import platform
import sqlite3
import subprocess
from pathlib import Path

from program import Failed, say


def file_system(folder: Path) -> str:
    """The type of the file system that a folder is on, where /proc tells."""
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
        raise Failed(f"no program {binary}: `make bench` builds it, --binary names another")


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
        say("warning: this folder is in memory, where nothing is ever synced: name another by --folder")
    if facts["loadBefore"] > 0.5 * (facts["cores"] or 1):
        say(f"warning: load {facts['loadBefore']} on {facts['cores']} cores: others slow this down")


def is_debug(binary: Path) -> bool:
    return binary.resolve().parent.name == "debug"
