"""Opens event streams of jobs and holds them.

Usage: watchers.py HOST PORT FILE    (started by scenarios/growth.py)

FILE has a path in each line. Prints one line of JSON when all streams have responded, and another with the number of
those that are still open when its stdin is closed.
"""

import json
import resource
import selectors
import socket
import sys
import time
from pathlib import Path

# Each local address has separate ports.
ADDRESSES = 8
RESPONSE_S = 120
# Requests that have no response yet, so that the server is not overloaded.
WAITING_MAX = 200


def main(host: str, port: int, file: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    selector = selectors.DefaultSelector()
    waiting: set[socket.socket] = set()
    deadline = time.monotonic() + RESPONSE_S
    for number, path in enumerate(file.read_text(encoding="utf-8").split()):
        stream = socket.create_connection((host, port), source_address=(f"127.0.0.{2 + number % ADDRESSES}", 0))
        stream.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        stream.setblocking(False)
        selector.register(stream, selectors.EVENT_READ)
        waiting.add(stream)
        while len(waiting) >= WAITING_MAX:
            read(selector, waiting, deadline)
    while waiting:
        read(selector, waiting, deadline)
    print(json.dumps({"open": len(selector.get_map())}), flush=True)
    selector.register(sys.stdin, selectors.EVENT_READ)
    while sys.stdin not in [key.fileobj for key, _ in selector.select()]:
        read(selector, waiting, None)
    print(json.dumps({"open": len(selector.get_map()) - 1}), flush=True)


def read(selector: selectors.BaseSelector, waiting: set[socket.socket], deadline: float | None) -> None:
    """Reads what has arrived. The first bytes of a stream are its status."""
    for key, _ in selector.select(1 if deadline else 0):
        if not isinstance(stream := key.fileobj, socket.socket):
            continue
        received = stream.recv(65536)
        if stream in waiting and not received.startswith(b"HTTP/1.1 200"):
            sys.exit(f"not a stream: {received[:200]!r}")
        waiting.discard(stream)
        if not received:
            selector.unregister(stream)
            stream.close()
    if deadline and time.monotonic() > deadline:
        sys.exit(f"{len(waiting)} streams have no response")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
