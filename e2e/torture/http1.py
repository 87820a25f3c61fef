"""A small HTTP/1.1 client for asyncio: one connection per request, every step bounded in time."""

import asyncio
import contextlib
import json
from typing import Any, AsyncIterator, NamedTuple

REQUEST_S = 12.0
BODY_BYTES_MAX = 64 * 1024 * 1024


class Response(NamedTuple):
    """A response; the status is None if there was none."""

    status: int | None
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def field(self, name: str) -> Any:
        body = self.json()
        return body.get(name) if isinstance(body, dict) else None


LOST = Response(None, {}, b"")
# An exception of this kind means that there is no response, whatever its cause.
FAILURES = (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError)


async def request(
    port: int, method: str, path: str, headers: dict[str, str], body: bytes | None = None,
    timeout_s: float = REQUEST_S, abandon: bool = False,
) -> Response:  # fmt: skip
    """Sends a request. With `abandon`, disconnects as soon as it is sent."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(head(method, path, headers, body) + (body or b""))
                await writer.drain()
                if abandon:
                    return LOST
                status, found = await response_head(reader)
                return Response(status, found, await whole_body(reader, status, found))
            finally:
                await close(writer)
    except FAILURES:
        return LOST


def head(method: str, path: str, headers: dict[str, str], body: bytes | None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def response_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rest = text.rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in rest)
    return int(first.split(" ")[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def whole_body(reader: asyncio.StreamReader, status: int, headers: dict[str, str]) -> bytes:
    if status in (204, 304):
        return b""
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        async for chunk in chunks(reader):
            body += chunk
        return body
    length = int(headers.get("content-length", "0"))
    if length > BODY_BYTES_MAX:
        raise ValueError("the body is too large")
    return await reader.readexactly(length)


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yields the chunks of a body. Ends only after the last chunk: a cut connection raises."""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        if size > BODY_BYTES_MAX:
            raise ValueError("the chunk is too large")
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, asyncio.TimeoutError):
        async with asyncio.timeout(1.0):
            await writer.wait_closed()


class EventStream:
    """An open stream of server-sent events."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.status: int | None = None
        self.text = b""
        self.complete = False  # the server ended the stream, the connection was not cut

    @staticmethod
    async def open(port: int, path: str, headers: dict[str, str]) -> "EventStream | None":
        try:
            async with asyncio.timeout(REQUEST_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                stream = EventStream(reader, writer)
                try:
                    writer.write(head("GET", path, headers, None))
                    stream.status, _ = await response_head(reader)
                except BaseException:
                    await close(writer)
                    raise
                return stream
        except FAILURES:
            return None

    async def events(self, until: float) -> AsyncIterator[dict[str, Any]]:
        """Yields the data of each event. Ends with the stream, or at this time of the event loop."""
        source = chunks(self.reader)
        try:
            async with asyncio.timeout_at(until):
                async for chunk in source:
                    self.text += chunk
                    while b"\n\n" in self.text:
                        block, _, self.text = self.text.partition(b"\n\n")
                        if (event := parse_event(block)) is not None:
                            yield event
                self.complete = True
        except FAILURES:
            return
        finally:
            await source.aclose()

    async def close(self) -> None:
        await close(self.writer)


def parse_event(block: bytes) -> dict[str, Any] | None:
    fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if ": " in line)
    if "data" not in fields:
        return None
    return {"id": int(fields["id"]), "job": json.loads(fields["data"])}


def multipart(job: bytes, payload: bytes) -> tuple[str, bytes]:
    """Returns content type and body of a submission with a payload."""
    mark = b"torture-boundary-of-a-form"
    body = b"".join((
        b"--", mark, b'\r\ncontent-disposition: form-data; name="job"\r\ncontent-type: application/json\r\n\r\n', job,
        b"\r\n--", mark, b'\r\ncontent-disposition: form-data; name="payload"; filename="payload.bin"\r\n',
        b"content-type: application/octet-stream\r\n\r\n", payload, b"\r\n--", mark, b"--\r\n",
    ))  # fmt: skip
    return f"multipart/form-data; boundary={mark.decode()}", body
