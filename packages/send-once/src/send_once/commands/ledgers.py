"""Opening the ledger a command names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from send_once.audit import Reading, count_statuses
from send_once.commands.context import UNUSABLE, Refusal
from send_once.entry import Status
from send_once.stores.addresses import Address, open_address, parse_address
from send_once.stores.base import Store
from send_once.terminal import harmless


def existing(address: str) -> Address:
    """The parsed address; refused where there is no such file. No command makes a ledger by a typing error."""
    found = parse_address(address)
    if not found.exists():
        raise Refusal(f"No such ledger: {harmless(found.shown)}", UNUSABLE)
    return found


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


def read(address: Address, *, only: Status | None = None) -> Reading:
    """The whole ledger as of one reading; entries of another status than `only` may be merely counted.
    Refused where a file holds lines but no entry."""
    with opened(address, read_only=True) as store:
        reading = _reading(address.shown, store, only)
    if reading.is_no_ledger:
        raise Refusal(
            f"{harmless(address.shown)} is not a send-once ledger: none of its {reading.lines} lines is an entry.",
            UNUSABLE,
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
