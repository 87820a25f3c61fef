"""A payload uploaded, copied by a job and downloaded, beside `cp` and `sha256sum`."""

import argparse
import hashlib
import os
import subprocess
import time
from pathlib import Path
from typing import Callable, TypeVar

import comparison
import goals
from program import Failed, print_json, say
from report import Measurements
from serving import MB, Memory, Server, call, connect, field, running

T = TypeVar("T")

FILE_MB = 400
QUICK_FILE_MB = 4
# Only for a hang.
PATIENCE_S = 300
CONFIG = """
[kinds.copy]
command = ["sh", "-c", 'cp "$LONGHAUL_PAYLOAD" "$LONGHAUL_ARTIFACTS/copy"']
payload = true
"""


def measure(args: argparse.Namespace, folder: Path) -> list[comparison.Outcome]:
    measured = Measurements(args, folder)
    file_mb = QUICK_FILE_MB if args.quick else FILE_MB
    file = folder / "payload"
    digest = make(file, file_mb)
    with running(args.binary, folder / "payloads", CONFIG) as server:
        rounds = Rounds(measured, server, file, digest, file_mb)
        for _ in measured.passes("payloads, "):
            rounds.one_pass()
        rounds.end()
    return measured.report(goals.PAYLOADS, {"file_mb": file_mb})


def make(file: Path, file_mb: int) -> str:
    """Writes random bytes, because they cannot be compressed, and returns their digest."""
    digest = hashlib.sha256()
    with open(file, "wb") as out:
        for _ in range(file_mb):
            block = os.urandom(MB)
            digest.update(block)
            out.write(block)
    return digest.hexdigest()


class Rounds:
    def __init__(self, measured: Measurements, server: Server, file: Path, digest: str, file_mb: int):
        self.measured, self.server = measured, server
        self.file, self.digest, self.file_mb = file, digest, file_mb

    def one_pass(self) -> None:
        """Runs one pass: cp and sha256sum first, then upload, job and download."""
        copy = self.file.with_suffix(".copy")
        self.rate("cp and sha256sum", lambda: self.copied(copy))
        before = Memory.of(self.server.pid)
        self.measured.values.setdefault("payload memory idle", [before.now_mb])
        job = self.rate("payload upload", self.uploaded)
        uploaded = Memory.of(self.server.pid)
        self.rate("payload job", lambda: self.ended(job))
        self.rate("payload download", lambda: self.downloaded(job, copy))
        if (found := digest_of(copy)) != self.digest:
            raise Failed(f"digest of the artifact is {found}, of the payload {self.digest}")
        # Keeps the folder from growing with every pass.
        copy.unlink()
        call(connect(self.server.url), "DELETE", f"/v1/jobs/{job}")
        after = Memory.of(self.server.pid)
        say(
            f"  memory: {before.now_mb:.0f} MB before, {uploaded.now_mb:.0f} uploaded, "
            f"{after.now_mb:.0f} after; peak so far {after.peak_mb:.0f}"
        )
        if self.measured.args.json:
            print_json({
                "type": "memory", "beforeMb": before.now_mb, "uploadedMb": uploaded.now_mb,
                "afterMb": after.now_mb, "peakMb": after.peak_mb,
            })  # fmt: skip

    def copied(self, copy: Path) -> None:
        output_of(["cp", str(self.file), str(copy)])
        if digest_of(copy) != self.digest:
            raise Failed("the copy of cp differs")

    def uploaded(self) -> str:
        """Uploads and returns the job's id. curl exits after the response, when the payload is synced."""
        response = output_of([
            "curl", "--silent", "--show-error", "--fail-with-body", "--upload-file", str(self.file),
            "--request", "POST", "--header", "Content-Type: application/octet-stream",
            f"{self.server.url}/v1/kinds/copy/jobs",
        ])  # fmt: skip
        return field(response, "jobId")

    def ended(self, job: str) -> None:
        """Waits until the job has copied its payload to an artifact."""
        deadline = time.monotonic() + PATIENCE_S
        status = "pending"
        while status in ("pending", "running"):
            if time.monotonic() > deadline:
                raise Failed(f"the job is still {status}")
            response = call(connect(self.server.url), "GET", f"/v1/jobs/{job}?wait=5")
            status = field(response, "status")
        if status != "completed":
            raise Failed(f"the job is {status}: {response.decode()}")

    def downloaded(self, job: str, copy: Path) -> None:
        output_of([
            "curl", "--silent", "--show-error", "--fail", "--output", str(copy),
            f"{self.server.url}/v1/jobs/{job}/artifacts/copy",
        ])  # fmt: skip

    def rate(self, name: str, work: Callable[[], T]) -> T:
        began = time.monotonic()
        done = work()
        took = time.monotonic() - began
        report = {"seconds": took, "bytes": self.file_mb * MB}
        self.measured.add(name, self.file_mb / took, " MB/s", report=report)
        return done

    def end(self) -> None:
        """Reports memory once for all passes, because its peak must not grow with them."""
        self.measured.limit("payload file", self.file_mb)
        self.measured.limit("payload memory peak", Memory.of(self.server.pid).peak_mb)


def digest_of(file: Path) -> str:
    return output_of(["sha256sum", str(file)]).split()[0].decode()


def output_of(command: list[str]) -> bytes:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{error}: {' '.join(command)}") from error
    if done.returncode != 0:
        output = (done.stderr + done.stdout).decode(errors="replace").strip()
        raise Failed(f"exit {done.returncode}: {' '.join(command)}: {output}")
    return done.stdout
