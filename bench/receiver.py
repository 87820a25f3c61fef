"""A webhook receiver that responds at once and counts deliveries."""

import asyncio
import contextlib
import queue
import threading
import time
from typing import Callable, Iterator, TypeVar

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

    def handle(self, body: bytes, write: Callable[[bytes], None]) -> None:
        self.came(body)
        write(ANSWER)

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


# Takes the body of a request, and a function that writes its response.
Handler = Callable[[bytes, Callable[[bytes], None]], None]


class Connection(asyncio.Protocol):
    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.bytes += data
        while (size := request_size(self.bytes)) is not None and len(self.bytes) >= size:
            request, self.bytes = self.bytes[:size], self.bytes[size:]
            self.handle(request.partition(b"\r\n\r\n")[2], self.transport.write)


def request_size(data: bytes) -> int | None:
    """Returns the length of the first request, once its head is complete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    for line in data[:end].lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return end + 4 + int(line.split(b":")[1])
    return end + 4


@contextlib.contextmanager
def endpoint(handle: Handler) -> Iterator[int]:
    """Serves requests in its own thread, and yields its port."""
    loop, ports = asyncio.new_event_loop(), queue.SimpleQueue[int]()

    async def listen() -> asyncio.Server:
        server = await loop.create_server(lambda: Connection(handle), "127.0.0.1", 0)
        ports.put(server.sockets[0].getsockname()[1])
        return server

    def run() -> None:
        server = loop.run_until_complete(listen())
        loop.run_forever()
        server.close()
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield ports.get()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


Some = TypeVar("Some", bound=Receiver)


@contextlib.contextmanager
def receiving(receiver: Some) -> Iterator[Some]:
    with endpoint(receiver.handle) as receiver.port:
        yield receiver
