"""Postgres: `once` beside its two bare statements in autocommit, and a duplicate beside one bare statement.

Uses the server at DATABASE_URL, or starts one as the tests do.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import psycopg
from timing import Work, interleaved, median, rounds, table

from send_once import Ledger, PostgresStore

ROW = "x" * 380
TESTS = Path(__file__).parents[1] / "packages/send-once/tests"


def floor(address: str) -> tuple[Work, Work]:
    """The two statements of a send, and one look-up, as psycopg runs them by default."""
    connection = psycopg.connect(address, autocommit=True)
    connection.execute("CREATE TABLE IF NOT EXISTS floor (key TEXT PRIMARY KEY, status TEXT, entry TEXT)")
    keys = itertools.count()

    def two_statements() -> None:
        key = f"{next(keys):064d}"
        connection.execute("INSERT INTO floor VALUES (%s, 'pending', %s) ON CONFLICT DO NOTHING", (key, ROW))
        connection.execute(
            "UPDATE floor SET status = 'sent', entry = %s WHERE key = %s AND status = 'pending'", (ROW, key)
        )

    def one_select() -> None:
        connection.execute("SELECT entry FROM floor WHERE key = %s", ("0" * 64,)).fetchall()

    return two_statements, one_select


def run(address: str) -> None:
    (two_statements, one_select), keys = floor(address), itertools.count()
    ledger = Ledger(PostgresStore(address))
    ledger.once("sent", lambda: "id")
    taken = interleaved(
        {"two bare statements": two_statements, "`once`": lambda: ledger.once(f"{next(keys):064d}", lambda: "id")},
        rounds(1_500),
    )
    table(taken, "two bare statements", "Target: at most 1.3 times the floor.\n")
    reads = interleaved(
        {"one bare SELECT": one_select, "a duplicate": lambda: ledger.once("sent", lambda: "id")}, rounds(3_000)
    )
    table(reads, "one bare SELECT", "Target: one round trip.\n")
    batches: dict[str, Any] = {
        "single": lambda: [ledger.claim(f"s{next(keys):063d}") for _ in range(100)],
        "many": lambda: ledger.claim_many([f"m{next(keys):063d}" for _ in range(100)]),
    }
    claims = interleaved(batches, rounds(40))
    print(f"claim_many(100) takes {median(claims['many']) / median(claims['single']):.3f} of 100 single claims.")
    ledger.close()


def main() -> None:
    with contextlib.ExitStack() as stack:
        address = os.environ.get("DATABASE_URL")
        if not address:
            sys.path.insert(0, str(TESTS))
            from servers.postgres import fresh_database, running_postgres

            address = stack.enter_context(fresh_database(stack.enter_context(running_postgres())))
        with psycopg.connect(address) as connection:
            print(
                f"PostgreSQL {connection.info.server_version // 10_000}, loopback, fsync and synchronous_commit on.\n"
            )
        run(address)


if __name__ == "__main__":
    main()
