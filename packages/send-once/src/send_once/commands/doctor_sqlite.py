"""What `doctor` looks at in a SQLite ledger. The database is opened for reading only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from send_once.commands.findings import Finding
from send_once.commands.wording import counted
from send_once.entry import Entry
from send_once.stores.readonly import ReadOnlySQLite
from send_once.stores.sqliteplace import network_file_system
from send_once.stores.statements import row_of

INTEGRITY_LINES_SHOWN: Final = 5
ROWS_SHOWN: Final = 10


def examine(path: str, table: str) -> Sequence[Finding]:
    """Findings about the table of the database at `path`."""
    store = ReadOnlySQLite(path, table=table)
    rows = store.rows(f"SELECT key, status, entry, claimed_at FROM {table}", ())  # noqa: S608  # a checked name
    return [
        rows_finding(rows),
        *_settings(store),
        _integrity(store),
        _place(path),
    ]


def rows_finding(rows: Iterable[Sequence[object]]) -> Finding:
    """Whether each row's columns say what its entry says: (key, status, entry, claimed_at)."""
    reasons = [(row[0], _wrong(row)) for row in rows]
    wrong = [f"{key}: {reason}" for key, reason in reasons if reason is not None]
    number = counted(len(reasons), "row", "rows")
    if not wrong:
        return Finding("ok", "entries", f"{number}, each an entry that agrees with its columns")
    more = [f"and {len(wrong) - ROWS_SHOWN} more"] if len(wrong) > ROWS_SHOWN else []
    text = f"{len(wrong)} of {number} with columns that contradict the entry: changed by other means than this library"
    return Finding("bad", "entries", text, [*wrong[:ROWS_SHOWN], *more])


def _wrong(row: Sequence[object]) -> str | None:
    key, status, text, claimed_at = row
    entry = Entry.from_text(str(text))
    if entry is None:
        return "its entry is none"
    expected = row_of(entry)
    columns = {"key": (key, expected.key), "status": (status, expected.status)}
    columns["claimed_at"] = (claimed_at, expected.claimed_at)
    different = [name for name, (stored, meant) in columns.items() if stored != meant]
    return f"its entry has another {' and '.join(different)}" if different else None


def _settings(store: ReadOnlySQLite) -> Iterator[Finding]:
    (mode,) = store.pragma("journal_mode")
    if mode == "wal":
        yield Finding("ok", "journal mode", "wal; SQLiteStore syncs every commit and verifies that it does")
    else:
        yield Finding("note", "journal mode", f"{mode}; SQLiteStore changes it to wal when it opens the database")
    (pages,), (size,) = store.pragma("page_count"), store.pragma("page_size")
    yield Finding("ok", "size", f"{int(pages) * int(size):,} bytes")


def _integrity(store: ReadOnlySQLite) -> Finding:
    answers = store.pragma("integrity_check")
    if answers == ["ok"]:
        return Finding("ok", "integrity", "ok")
    return Finding(
        "bad",
        "integrity",
        "the database is damaged. Restore it from a copy; what it lost could be sent again",
        answers[:INTEGRITY_LINES_SHOWN],
    )


def _place(path: str) -> Finding:
    real = os.path.realpath(path)
    kind = network_file_system(os.path.dirname(real))
    if kind:
        return Finding("bad", "file system", f"{kind}, over a network, where SQLite's log is not safe")
    if not os.access(real, os.W_OK):
        return Finding("note", "file", "this user may not write it, so cannot claim")
    return Finding("ok", "file system", "local, as far as can be seen")
