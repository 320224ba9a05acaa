"""Stores that break the promise, one way each. The harness must catch every one of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from crash.scenarios import Place
from send_once.entry import Entry
from send_once.stores.base import Store
from send_once.stores.file import FileStore


class ClaimsInMemory(FileStore):
    """Writes a claim down only when the send has ended."""

    def claim_or_get(self, entry: Entry) -> bool | Entry:
        return self.get(entry.key) or True

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        super().claim(came_from)
        return super().transition(came_from, entry)


class WritesOverAnything(FileStore):
    """Claims without looking whether somebody else has."""

    def claim_or_get(self, entry: Entry) -> bool | Entry:
        with open(self.path, "a") as file:
            file.write(entry.text + "\n")
            file.flush()
            os.fsync(file.fileno())
        return True


class NeverSyncs(FileStore):
    """Everything is written and nothing is synced."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        setattr(os, "fdatasync", _no_sync)  # noqa: B010  # a plain assignment does not type-check
        setattr(os, "fsync", _no_sync)  # noqa: B010  # the same


class IgnoresFailedSyncs(FileStore):
    """Goes on when the disk says that it could not keep what was written."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        real = os.fdatasync

        def tolerant(fd: int) -> None:
            try:
                real(fd)
            except OSError:
                return

        os.fdatasync = tolerant  # type: ignore[assignment]  # takes less than the real one: an int only


class ForgetsOnFailure(FileStore):
    """When recording the outcome fails, puts the key back to "never tried"."""

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        try:
            return super().transition(came_from, entry)
        except Exception:
            os.truncate(self.path, 0)
            raise


def _no_sync(fd: int) -> None:
    """Says that the disk has it."""


CONTROLS: Mapping[str, Callable[[str], Store]] = {
    "claims in memory": ClaimsInMemory,
    "writes over anything": WritesOverAnything,
    "never syncs": NeverSyncs,
    "ignores failed syncs": IgnoresFailedSyncs,
    "forgets on failure": ForgetsOnFailure,
}


def open_control(place: Place) -> Store:
    return CONTROLS[place.store.partition(":")[2]](os.path.join(place.directory, "ledger.jsonl"))
