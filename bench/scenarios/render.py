"""A small flowchart rendered through a server, beside mermaid-cli with the same sources."""

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import Iterator

import comparison
import goals
from program import Failed
from report import Measurements
from services import ROOT, install
from serving import call, connect, environment, field, running

PEER = ROOT / ".tools" / "bench-mermaid"
# Not counted, because the first requests start the render processes.
WARM = 20
DIAGRAMS = 200
# Seconds per drawing.
DIAGRAMS_BY_PEER = 3
PROMISED_MS = 20
TIMEOUT_S = 120
SOURCE = """flowchart LR
    caller[Caller {number}] --> api{{API}}
    api -->|submit| store[(Store)]
    store --> worker[Worker]
    worker -->|settle| store
    worker --> done([Done])
"""


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    peer = set_up(args)
    # All sources differ, because a cached image is not rendered again.
    sources = (SOURCE.format(number=number) for number in itertools.count(1))
    with running(args.binary, folder / "render") as server:
        drawn(server.url, sources, WARM)
        for _ in measured.passes("render, "):
            took = drawn(server.url, sources, 10 if args.quick else DIAGRAMS)
            values = {
                "render p50": statistics.median(took),
                "render p95": statistics.quantiles(took, n=20)[18],
                "render promised": PROMISED_MS,
            }
            if peer:
                values |= by_peer(folder, sources, 1 if args.quick else DIAGRAMS_BY_PEER)
            for what, value in values.items():
                measured.add(what, value, "ms")
    return measured.report(goals.RENDER, {})


def set_up(args: argparse.Namespace) -> bool:
    """Returns whether mermaid-cli is available. A smoke test does not install it."""
    if args.quick and not (PEER / "installed").is_file():
        return False
    install("mermaid")
    return True


def drawn(url: str, sources: Iterator[str], count: int) -> list[float]:
    """Returns milliseconds from each request to its short link."""
    connection = connect(url)
    took: list[float] = []
    for source in itertools.islice(sources, count):
        request = {"source": source, "format": "mermaid", "outputType": "svg"}
        response = call(connection, "POST", "/render?mode=sync", request, took)
        if field(response, "cached"):
            raise Failed(f"not rendered: {response!r}")
    picture = call(connection, "GET", field(response, "url"))
    if not picture.startswith(b"<svg") or source.split("[")[1].split("]")[0].encode() not in picture:
        raise Failed(f"unexpected image: {picture[:200]!r}")
    return took


def by_peer(folder: Path, sources: Iterator[str], count: int) -> dict[str, float]:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise Failed("chromium is not on the PATH")
    settings, diagram = folder / "puppeteer.json", folder / "diagram.mmd"
    # A browser cannot use its sandbox as root, and it draws only our own sources.
    settings.write_text(json.dumps({"executablePath": chromium, "args": ["--no-sandbox"]}), encoding="utf-8")
    node, program = PEER / "node_modules" / ".bin" / "node", PEER / "node_modules" / ".bin" / "mmdc"
    command = [node, program, "--quiet", "-p", settings, "-i", diagram, "-o", folder / "diagram.svg"]
    took = []
    for source in itertools.islice(sources, count):
        diagram.write_text(source, encoding="utf-8")
        begun = time.perf_counter()
        ran(command)
        took.append((time.perf_counter() - begun) * 1_000)
    more = json.dumps(list(itertools.islice(sources, count + 1)))
    warm = json.loads(ran([node, PEER / "warm.mjs", chromium], more))["ms"]
    return {"mermaid-cli p50": statistics.median(took), "mermaid open p50": statistics.median(warm)}


def ran(command: list, text: str = "") -> str:
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
            env=environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failed(f"still running after {TIMEOUT_S} s: {command[1]}") from error
    if done.returncode != 0:
        raise Failed(f"exit {done.returncode}: {command[1]}: {done.stderr.strip()}")
    return done.stdout
