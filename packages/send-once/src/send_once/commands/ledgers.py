"""Opening the ledger a command names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from send_once.audit import Reading, count_statuses
from send_once.commands.context import UNUSABLE, Refusal
from send_once.entry import Status
from send_once.stores.addresses import Address, open_address, parse_address
from send_once.stores.base import Store
from send_once.terminal import harmless

SQLITE_HEADER: Final = b"SQLite format 3\0"
"""How every SQLite database begins (its file format, 1.3)."""


def existing(address: str) -> Address:
    """The parsed address; refused where there is no such file. No command makes a ledger by a typing error."""
    found = parsed(address)
    require(found)
    return found


def require(address: Address) -> None:
    """Refused where there is no such file, or its folder does not let one look."""
    if address.exists():
        return
    shown = harmless(address.shown)
    if _is_hidden(address.target):
        raise Refusal(f"Cannot look at {shown}: permission denied in its folder.", UNUSABLE, "os_error")
    raise Refusal(f"No such ledger: {shown}", UNUSABLE, "no_such_ledger")


def parsed(address: str) -> Address:
    """The address as it is meant; refused for a database that is named as if it were a ledger file, and
    for a path that can be no database."""
    found = parse_address(address)
    what = _mistaken(found)
    if what is not None:
        raise Refusal(f"{harmless(found.shown)} {what}", UNUSABLE, "not_a_ledger")
    return found


def _mistaken(address: Address) -> str | None:
    path = address.target
    if address.kind == "postgres" or not os.path.exists(path):
        return None
    if address.kind == "file":
        is_database = _first_bytes(path) == SQLITE_HEADER
        return f"is a SQLite database. As a ledger it is named sqlite:{harmless(path)}" if is_database else None
    if not os.path.isfile(path):
        return f"cannot be a ledger: {harmless(path)} is a directory, device, pipe or socket, not a regular file."
    if not os.access(path, os.R_OK):
        return "cannot be read: permission denied for this user."
    if _first_bytes(path) not in (SQLITE_HEADER, b"", None):
        return f"is not a SQLite database. A ledger file is named without sqlite: as {harmless(path)}"
    return None


def _is_hidden(path: str) -> bool:
    """Whether a path that seems not to be there only cannot be seen by this user."""
    try:
        os.stat(path)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return False


def _first_bytes(path: str) -> bytes | None:
    """As many as SQLite's header has; None where they cannot be read. A pipe would be waited for."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE_HEADER))
    except OSError:
        return None


@contextmanager
def opened(address: Address, *, read_only: bool, create: bool = False) -> Iterator[Store]:
    """The store, closed afterwards."""
    store = open_address(address, read_only=read_only, create=create)
    try:
        yield store
    finally:
        close = getattr(store, "close", None)
        if close is not None:
            close()


def read(address: Address, *, only: Status | None = None, refuse_in_json: bool = True) -> Reading:
    """The whole ledger as of one reading; entries of another status than `only` may be merely counted.
    Refused where a file holds lines but no entry."""
    with opened(address, read_only=True) as store:
        reading = _reading(address.shown, store, only)
    if reading.is_no_ledger:
        raise Refusal(
            f"{harmless(address.shown)} is not a send-once ledger: none of its {reading.lines} lines is an entry.",
            UNUSABLE,
            "not_a_ledger",
            in_json=refuse_in_json,
        )
    return reading


def _reading(name: str, store: Store, status: Status | None) -> Reading:
    snapshot = getattr(store, "snapshot", None)
    if snapshot is None:
        # All of them: a second statement for the counts would see another moment.
        entries = tuple(store.list())
        return Reading(name, entries, count_statuses(entries))
    found = snapshot(status)
    damaged = sum(1 for line in found.damaged if not line.accepted)
    return Reading(name, found.entries, found.counts, found.lines, found.skipped, damaged)
