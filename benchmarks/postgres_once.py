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


def floor(address: str, *, prepared: bool) -> tuple[Work, Work]:
    connection = psycopg.connect(address, autocommit=True, prepare_threshold=5 if prepared else None)
    connection.execute("CREATE TABLE IF NOT EXISTS floor (key TEXT PRIMARY KEY, status TEXT, entry TEXT)")
    keys = itertools.count(start=1_000_000 * prepared)

    def two_statements() -> None:
        key = f"{next(keys):064d}"
        connection.execute("INSERT INTO floor VALUES (%s, 'pending', %s) ON CONFLICT DO NOTHING", (key, ROW))
        connection.execute(
            "UPDATE floor SET status = 'sent', entry = %s WHERE key = %s AND status = 'pending'", (ROW, key)
        )

    def one_select() -> None:
        connection.execute("SELECT entry FROM floor WHERE key = %s", ("0" * 64,)).fetchall()

    return two_statements, one_select


def run(address: str, *, prepared: bool) -> None:
    """As it is by default (right behind any transaction pooler), or with statements prepared on the server."""
    how = "prepared on the server" if prepared else "not prepared"
    (two_statements, one_select), keys = floor(address, prepared=prepared), itertools.count()
    ledger = Ledger(PostgresStore(address, prepare=prepared, table=f"ledger_{int(prepared)}"))
    ledger.once("sent", lambda: "id")
    taken = interleaved(
        {
            f"two bare statements, {how}": two_statements,
            f"`once`, {how}": lambda: ledger.once(f"{next(keys):064d}", lambda: "id"),
        },
        rounds(1_500),
    )
    table(taken, f"two bare statements, {how}", "Target: at most 1.3 times the floor.\n")
    reads = interleaved(
        {f"one bare SELECT, {how}": one_select, f"a duplicate, {how}": lambda: ledger.once("sent", lambda: "id")},
        rounds(3_000),
    )
    table(reads, f"one bare SELECT, {how}", "Target: one round trip.\n")
    batches: dict[str, Any] = {
        "single": lambda: [ledger.claim(f"s{next(keys):063d}") for _ in range(100)],
        "many": lambda: ledger.claim_many([f"m{next(keys):063d}" for _ in range(100)]),
    }
    claims = interleaved(batches, rounds(40))
    ratio = median(claims["many"]) / median(claims["single"])
    print(f"claim_many(100) takes {ratio:.3f} of the time of 100 single claims, {how}.\n")
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
        for prepared in (False, True):
            run(address, prepared=prepared)


if __name__ == "__main__":
    main()
