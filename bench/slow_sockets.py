"""Opens sockets of slow clients, and prints how long the server left each open.

Usage: slow_sockets.py HOST PORT COUNT    (started by scenarios/slow_clients.py)

Of every three, one sends nothing, one half a head, one half a body. Prints one line of JSON when all are
open, and another when all are closed.
"""

import json
import resource
import selectors
import socket
import sys
import time
from typing import NamedTuple

SLOW = {
    "idle": b"",
    "head": b"GET /v1/jobs HTTP/1.1\r\nhost: localhost\r\nx-slow: ",
    "body": b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"content-length: 100\r\n\r\n{",
}
# Each local address has separate ports.
ADDRESSES = 8
# The limit is for a server that closes no socket.
PATIENCE_S = 120


class Slow(NamedTuple):
    kind: str
    opened: float


def main(host: str, port: int, count: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    selector = selectors.DefaultSelector()
    began = time.monotonic()
    for number in range(count):
        kind = list(SLOW)[number % len(SLOW)]
        # On this machine a connection is there at once, and blocking costs less than waiting by turns.
        slow = socket.create_connection((host, port), source_address=(f"127.0.0.{2 + number % ADDRESSES}", 0))
        slow.sendall(SLOW[kind])
        slow.setblocking(False)
        selector.register(slow, selectors.EVENT_READ, Slow(kind, time.monotonic()))
    took = time.monotonic() - began
    lives: dict[str, list[float]] = {kind: [] for kind in SLOW}
    close_ready(selector, lives, 0)
    print(json.dumps({"open": len(selector.get_map()), "seconds": took}), flush=True)
    while selector.get_map():
        if time.monotonic() > began + PATIENCE_S:
            sys.exit(f"{len(selector.get_map())} sockets are still open")
        close_ready(selector, lives, 1)
    print(json.dumps({"closedAfterS": {kind: max(of, default=0) for kind, of in lives.items()}}), flush=True)


def close_ready(selector: selectors.BaseSelector, lives: dict[str, list[float]], wait_s: float) -> None:
    """Whatever the server says to a slow peer is its last word."""
    for key, _ in selector.select(wait_s):
        lives[key.data.kind].append(time.monotonic() - key.data.opened)
        selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
