"""A webhook receiver that responds at once and counts deliveries."""

import asyncio
import contextlib
import threading
import time
from typing import Iterator, TypeVar

from program import Failed

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Receiver:
    """Counts deliveries in its own thread, since the last reset."""

    def __init__(self) -> None:
        self.port = 0
        self.count = 0
        self.wanted = 0
        self.first_at = self.last_at = 0.0
        self.enough = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def expect(self, count: int) -> None:
        self.enough.clear()
        self.count, self.wanted = 0, count

    def came(self, _body: bytes) -> None:
        self.last_at = time.monotonic()
        if self.count == 0:
            self.first_at = self.last_at
        self.count += 1
        if self.count == self.wanted:
            self.enough.set()

    def rate(self, timeout_s: float) -> float:
        """Returns deliveries per second, from the first to the last expected one."""
        if not self.enough.wait(timeout_s):
            raise Failed(f"{self.count} of {self.wanted} deliveries arrived within {timeout_s:.0f} s")
        return self.wanted / max(self.last_at - self.first_at, 0.001)


class Line(asyncio.Protocol):
    """Serves one connection."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.bytes += data
        while (size := request_size(self.bytes)) is not None and len(self.bytes) >= size:
            request, self.bytes = self.bytes[:size], self.bytes[size:]
            self.receiver.came(request.partition(b"\r\n\r\n")[2])
            self.transport.write(ANSWER)


def request_size(data: bytes) -> int | None:
    """Returns the length of the first request, once its head is complete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    for line in data[:end].lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return end + 4 + int(line.split(b":")[1])
    return end + 4


Some = TypeVar("Some", bound=Receiver)


@contextlib.contextmanager
def receiving(receiver: Some) -> Iterator[Some]:
    loop, ready = asyncio.new_event_loop(), threading.Event()

    async def listen() -> asyncio.Server:
        server = await loop.create_server(lambda: Line(receiver), "127.0.0.1", 0)
        receiver.port = server.sockets[0].getsockname()[1]
        ready.set()
        return server

    def run() -> None:
        server = loop.run_until_complete(listen())
        loop.run_forever()
        server.close()
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield receiver
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
