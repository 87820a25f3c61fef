#!/usr/bin/env python3
"""Submits a job in the transaction that makes it necessary, from Python.

Usage: pip install "psycopg[binary]" && examples/submit.py postgres://user@host/database ORDER
"""

import json
import sys

import psycopg


def order(url: str, number: int) -> str:
    """Stores an order and the job that invoices it, both or neither; returns the job's id."""
    with psycopg.connect(url) as connection, connection.transaction():
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY)")
        connection.execute("INSERT INTO orders (id) VALUES (%s)", [number])
        row = connection.execute(
            "SELECT longhaul.submit('demo', %s, idempotency_key => %s)",
            [json.dumps({"result": number}), f"invoice-{number}"],
        ).fetchone()
    return row[0]


if __name__ == "__main__":
    print(order(sys.argv[1], int(sys.argv[2])))
