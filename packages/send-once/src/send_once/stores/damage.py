"""Lines of a ledger that nobody would have written: what they are, and who accepted them.

A damaged line may have been a claim. As long as nobody has looked, the ledger refuses new claims;
`send-once doctor PATH` shows the lines, and acceptance is written beside the ledger, in
`<ledger>.accepted`, one JSON object a line: `sha256` of the line's bytes, `offset`, `by`, `note`, `at`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from send_once.entry import Entry, Status
from send_once.errors import LedgerDamagedError, NotALedgerError
from send_once.stores.files import sync_directory, write_all

EXCERPT_BYTES_MAX: Final = 200
SQLITE_HEAD: Final = "SQLite format 3\0"
"""https://www.sqlite.org/fileformat2.html#the_database_header"""


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """One damaged line. `number` counts from 1, `offset` and `length` are bytes, without the newline.
    `excerpt` is the beginning of the line, invalid UTF-8 as U+FFFD."""

    number: int
    offset: int
    length: int
    sha256: str
    excerpt: str
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading of a whole ledger file: `entries` in order of first appearance, `lines` that are
    not blank, `skipped` of those (torn and damaged, as the reference counts), the damaged ones, and how
    many keys are in each status (`entries` may be of one status only)."""

    entries: Sequence[Entry]
    skipped: int
    lines: int
    damaged: Sequence[DamagedLine]
    counts: Mapping[Status, int]


def damaged_line(number: int, offset: int, line: bytes) -> DamagedLine:
    excerpt = line[:EXCERPT_BYTES_MAX].decode("utf-8", "replace")
    return DamagedLine(number, offset, len(line), sha256(line).hexdigest(), excerpt)


def refusal(path: str, damaged: Sequence[DamagedLine]) -> LedgerDamagedError:
    first = damaged[0]
    more = f", and {len(damaged) - 1} more" if len(damaged) > 1 else ""
    return LedgerDamagedError(
        f"{path} is damaged: line {first.number} at byte {first.offset}{more} is no ledger entry and no torn write. "
        f"It may have been a claim, so no new claim is made and nothing is sent. Look at it with "
        f"`send-once doctor {path}`, and accept it there once you know what it was."
    )


def no_ledger(path: str, damaged: Sequence[DamagedLine]) -> NotALedgerError:
    if damaged[0].excerpt.startswith(SQLITE_HEAD):
        return NotALedgerError(
            f"{path} is a SQLite database, not a ledger file. Use SQLiteStore, or the address sqlite:{path}."
        )
    return NotALedgerError(
        f"{path} is no ledger file: none of its lines is an entry. Nothing was written to it and nothing is sent. "
        "Give the path of a ledger, or of a file that does not exist yet."
    )


class Acceptances:
    """The file `<ledger>.accepted`. Read anew whenever it has changed."""

    def __init__(self, ledger_path: str) -> None:
        self.path = ledger_path + ".accepted"
        self._seen: tuple[int, int, int] | None = None
        self._accepted: frozenset[tuple[str, int]] = frozenset()

    def mark(self, damaged: Iterable[DamagedLine]) -> list[DamagedLine]:
        """The lines, each with whether it was accepted: same bytes at the same place."""
        accepted = self._load()
        return [
            DamagedLine(d.number, d.offset, d.length, d.sha256, d.excerpt, (d.sha256, d.offset) in accepted)
            for d in damaged
        ]

    def add(self, damaged: Iterable[DamagedLine], *, by: str, note: str | None, at: str) -> None:
        """Append one record a line, durable before returning."""
        records = [
            json.dumps({"sha256": d.sha256, "offset": d.offset, "by": by, "note": note, "at": at}) for d in damaged
        ]
        # A newline first: what a crash left of an earlier record must not swallow this one.
        data = "".join(f"\n{record}\n" for record in records).encode()
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_directory(os.path.dirname(self.path))

    def _load(self) -> frozenset[tuple[str, int]]:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            self._seen, self._accepted = None, frozenset()
            return self._accepted
        seen = (found.st_ino, found.st_size, found.st_mtime_ns)
        if seen != self._seen:
            with open(self.path, "rb") as file:
                self._accepted = frozenset(filter(None, map(_acceptance, file.read().split(b"\n"))))
            self._seen = seen
        return self._accepted


def _acceptance(line: bytes) -> tuple[str, int] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("by"), str):
        return None
    digest, offset = record.get("sha256"), record.get("offset")
    return (digest, offset) if isinstance(digest, str) and isinstance(offset, int) else None
