"""Lists jobs with filters that match nothing, page by page, without a pause.

Usage: list_callers.py HOST PORT CALLERS    (started by scenarios/growth.py)

Prints one line of JSON when every caller has its first page, and another with the number of pages when its stdin is
closed.
"""

import http.client
import itertools
import json
import sys
import threading

RESPONSE_S = 120
# The first examines all jobs, the second all finished ones.
FILTERS = ("label.no=match", "status=completed&label.no=match")


class Caller(threading.Thread):
    def __init__(self, host: str, port: int, query: str):
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection(host, port, timeout=RESPONSE_S)
        self.path = f"/v1/jobs?{query}&limit=20"
        self.pages = 0
        self.started = threading.Event()
        self.error = ""

    def run(self) -> None:
        cursor = None
        try:
            while True:
                self.connection.request("GET", self.path + (f"&cursor={cursor}" if cursor else ""))
                response = self.connection.getresponse()
                body = response.read()
                if response.status != 200:
                    raise OSError(f"{response.status} {body[:200]!r}")
                cursor = json.loads(body)["nextCursor"]
                self.pages += 1
                self.started.set()
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.error = str(error)
            self.started.set()


def main(host: str, port: int, count: int) -> None:
    queries = itertools.islice(itertools.cycle(FILTERS), count)
    callers = [Caller(host, port, query) for query in queries]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.started.wait()
    print(json.dumps({"callers": count}), flush=True)
    sys.stdin.read()
    if errors := [caller.error for caller in callers if caller.error]:
        sys.exit(f"{len(errors)} callers failed: {errors[0]}")
    print(json.dumps({"pages": sum(caller.pages for caller in callers)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
