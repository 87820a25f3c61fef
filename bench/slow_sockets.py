"""Opens sockets that a server has to wait for, and tells how long each was left open.

Usage: slow_sockets.py HOST PORT COUNT    (started by on_sockets.py)

Of every three, one says nothing, one half a head, one half a body. Prints one line of JSON when all are
open, and another when all are closed.
"""

import asyncio
import json
import resource
import sys
import time

SLOW = {
    "idle": b"",
    "head": b"GET /v1/jobs HTTP/1.1\r\nhost: x\r\nx-slow: ",
    "body": b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    b"content-length: 100\r\n\r\n{",
}
# Each address of ours has ports of its own.
ADDRESSES = 8
AT_ONCE = 64
# The limit is for a server that closes nobody.
PATIENCE_S = 120


class Slow(asyncio.Protocol):
    def __init__(self, kind: str, lives: dict[str, list[float]]):
        self.kind = kind
        self.lives = lives
        self.opened = 0.0
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.opened = time.monotonic()
        if SLOW[self.kind]:
            transport.write(SLOW[self.kind])  # type: ignore[attr-defined]

    def connection_lost(self, _: Exception | None) -> None:
        self.lives[self.kind].append(time.monotonic() - self.opened)
        self.closed.set_result(None)


async def main(host: str, port: int, count: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    lives: dict[str, list[float]] = {kind: [] for kind in SLOW}
    kinds = list(SLOW)
    sockets: list[Slow] = []
    room = asyncio.Semaphore(AT_ONCE)

    async def open_one(number: int) -> None:
        async with room:
            _, slow = await asyncio.get_running_loop().create_connection(
                lambda: Slow(kinds[number % len(kinds)], lives), host, port,
                local_addr=(f"127.0.0.{2 + number % ADDRESSES}", 0),
            )  # fmt: skip
            sockets.append(slow)

    began = time.monotonic()
    await asyncio.gather(*(open_one(number) for number in range(count)))
    closed_early = sum(map(len, lives.values()))
    took = time.monotonic() - began
    print(json.dumps({"open": count - closed_early, "seconds": took}), flush=True)
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(slow.closed for slow in sockets))
    print(json.dumps({"closedAfterS": {kind: max(of, default=0) for kind, of in lives.items()}}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
