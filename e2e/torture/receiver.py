"""A webhook receiver that fails, hangs, redirects and recovers on command, and records every request."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
from typing import Any

from history import Recorder, now
from plan import REDIRECTED

# Replies of an endpoint that is not well.
MODES = ("503", "reset", "hang", "redirect", "slow")
HANG_S = 20.0
SLOW_S = 1.0
BODY_BYTES_MAX = 4 * 1024 * 1024


class Receiver:
    """Endpoints by path, each with its own mode."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.port = 0
        self.server: asyncio.Server | None = None
        self.modes: dict[str, str] = {}
        self.tenants: dict[str, str] = {}
        self.secrets: dict[str, str] = {}
        self.canaries: dict[str, str] = {}
        self.busy: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    def endpoint(self, path: str, tenant: str, secret: str) -> str:
        """Adds an endpoint and returns its URL."""
        self.tenants[path], self.secrets[path] = tenant, secret
        return self.url(path)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def heal(self) -> None:
        self.modes.clear()

    async def close(self) -> None:
        if self.server:
            self.server.close()
        for task in list(self.busy):
            task.cancel()
        await asyncio.gather(*self.busy, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self.busy.add(task)
        try:
            # Keep-alive connections: the server reuses them.
            while await self.handle(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        except asyncio.CancelledError:
            # At the end of the run. A task of a server must not end as cancelled: asyncio would log it.
            pass
        finally:
            self.busy.discard(task)
            with contextlib.suppress(OSError):
                writer.close()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Handles one request. Returns whether the connection can carry another."""
        try:
            text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return False
        first, *rest = text.rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        path = first.split(" ")[1]
        length = int(headers.get("content-length", "0"))
        if length > BODY_BYTES_MAX:
            return False
        body = await reader.readexactly(length)
        mode = self.modes.get(path, "ok")
        received = self.record(path, headers, body)
        return await self.reply(mode, received, writer)

    def record(self, path: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        try:
            event = json.loads(body)
        except ValueError:
            event = {}
        job = event.get("data") or {}
        tenant = self.tenants.get(path)
        found = [name for name, canary in self.canaries.items() if canary.encode() in body and name != tenant]
        return self.recorder.record(
            "delivery", at=now(), path=path, tenant=tenant, id=headers.get("webhook-id"), type=event.get("type"),
            job=job.get("jobId"), version=job.get("version"), state=job.get("status"), reply=None,
            signed=is_signed(self.secrets.get(path, ""), headers, body), foreign=found,
        )  # fmt: skip

    async def reply(self, mode: str, received: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        status, extra = 200, ""
        match mode:
            case "reset":
                writer.transport.abort()
                return False
            case "hang":
                await asyncio.sleep(HANG_S)
                writer.transport.abort()
                return False
            case "slow":
                await asyncio.sleep(SLOW_S)
            case "503":
                status = 503
            case "redirect":
                status, extra = 302, f"location: {self.url(REDIRECTED)}\r\n"
        received["reply"] = status
        writer.write(f"HTTP/1.1 {status} Reply\r\n{extra}content-length: 0\r\n\r\n".encode())
        await writer.drain()
        return True


def is_signed(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """Verifies a signature of Standard Webhooks."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"))
    except ValueError:
        return False
    content = f"{headers.get('webhook-id')}.{headers.get('webhook-timestamp')}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(expected, given) for given in headers.get("webhook-signature", "").split())
