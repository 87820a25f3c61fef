"""A TCP proxy before Postgres that loses, delays and freezes connections on command.

Each replica has its own. It parses the server's half of the protocol far enough to find the response to a commit.
"""

import asyncio
import contextlib
import random
import struct

READ_BYTES = 65536
# Tags of statements that may have changed something. A statement outside of a transaction commits before the server is
# ready for the next one.
WRITES = (b"COMMIT", b"INSERT", b"UPDATE", b"DELETE", b"SELECT")


class Proxy:
    """Forwards connections to one server until it is told otherwise."""

    def __init__(self, upstream_port: int, seed: int) -> None:
        self.upstream_port = upstream_port
        self.chance = random.Random(seed)
        self.port = 0
        self.server: asyncio.Server | None = None
        self.connections: set[Connection] = set()
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.delay_s = 0.0
        self.refusing = False
        self.to_swallow = 0
        self.swallowed = 0

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            abort(writer)
            return
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        except OSError:
            abort(writer)
            return
        connection = Connection(self, (reader, writer), upstream)
        self.connections.add(connection)
        try:
            await connection.forward()
        finally:
            self.connections.discard(connection)

    # Faults.

    def cut(self) -> int:
        """Resets all connections and returns their number."""
        count = len(self.connections)
        for connection in list(self.connections):
            connection.abort()
        return count

    def freeze(self) -> None:
        """Lets the present connections carry nothing any more, without closing them. New ones work."""
        for connection in self.connections:
            connection.flowing.clear()

    def stall(self) -> None:
        """Stops all traffic, also of new connections."""
        self.flowing.clear()

    def heal(self) -> None:
        """Ends all faults. Frozen connections stay frozen: nothing but their owner ends them."""
        self.flowing.set()
        self.delay_s, self.refusing, self.to_swallow = 0.0, False, 0

    async def close(self) -> None:
        self.cut()
        if self.server:
            self.server.close()
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(2.0):
                    await self.server.wait_closed()


class Connection:
    """One connection of a client, and the proxy's own to the server."""

    def __init__(
        self,
        proxy: Proxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.proxy, self.client, self.server = proxy, client, server
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.pending = b""  # an incomplete message of the server
        self.batch: list[bytes] = []  # messages that are not forwarded yet
        self.has_written = False

    async def forward(self) -> None:
        tasks = [
            asyncio.create_task(self.pump(self.client[0], self.server[1], parse=False)),
            asyncio.create_task(self.pump(self.server[0], self.client[1], parse=True)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.abort()

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, parse: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(READ_BYTES):
                if self.proxy.delay_s:
                    await asyncio.sleep(self.proxy.delay_s)
                await self.proxy.flowing.wait()
                await self.flowing.wait()
                if parse:
                    data = self.answer(data)
                    if data is None:
                        return
                writer.write(data)
                await writer.drain()

    def answer(self, data: bytes) -> bytes | None:
        """Returns the bytes to forward, or None if a response is swallowed, and the connection with it.

        While there are responses to swallow, messages are kept until the server is ready for the next statement,
        because only then the one before is committed.
        """
        data = self.pending + data
        at, forwarded = 0, []
        while len(data) - at >= 5:
            length = 1 + struct.unpack_from("!I", data, at + 1)[0]
            if len(data) - at < length:
                break
            message, at = data[at : at + length], at + length
            if not self.proxy.to_swallow and not self.batch:
                forwarded.append(message)
                continue
            self.batch.append(message)
            if message[:1] == b"C":
                self.has_written = self.has_written or self.may_write(message[5:-1])
            elif message[:1] == b"Z":
                idle = message[5:6] == b"I"
                if idle and self.has_written and self.proxy.to_swallow:
                    self.proxy.to_swallow -= 1
                    self.proxy.swallowed += 1
                    return None
                forwarded += self.batch
                self.batch, self.has_written = [], False
            elif message[:1] == b"A" or len(self.batch) > 1_000:
                # A notification is no response. A long response is a read.
                forwarded += self.batch
                self.batch = []
        self.pending = data[at:]
        return b"".join(forwarded)

    def may_write(self, tag: bytes) -> bool:
        words = tag.split()
        if not words or words[0] not in WRITES or words[-1] == b"0":
            return False
        return words[0] != b"SELECT" or self.proxy.chance.random() < 0.2

    def abort(self) -> None:
        abort(self.client[1])
        abort(self.server[1])


def abort(writer: asyncio.StreamWriter) -> None:
    """Closes a connection at once, as a reset."""
    writer.transport.abort()
