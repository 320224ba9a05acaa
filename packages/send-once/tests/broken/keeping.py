"""Stores that lose or change what they keep, list it wrongly, or do not recover from an error."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import ClassVar

from broken.plain import Plain
from send_once import Entry, InvalidInputError, MemoryStore, Status


class KeepsWhatItKnows(Plain):
    """Columns for the members it knows; the others are lost, the claim among them."""

    KNOWN: ClassVar = ("key", "status", "attempts", "claimedAt", "updatedAt", "meta", "claim")

    def claim(self, entry: Entry) -> bool:
        members = entry.to_json()
        return super().claim(Entry({name: members[name] for name in self.KNOWN if name in members}))


class SortsMembers(Plain):
    """As a jsonb column does."""

    def claim(self, entry: Entry) -> bool:
        members = entry.to_json()
        return super().claim(Entry({name: members[name] for name in sorted(members)}))


class CutsLongText(Plain):
    """A column of 64 KiB in a database that is not strict: the entry is unreadable ever after."""

    def claim(self, entry: Entry) -> bool:
        claimed = super().claim(entry)
        self.texts[entry.key] = self.texts[entry.key][:65_535]
        return claimed


class _KeyedBy(Plain):
    key_of: Callable[[str], str]

    def claim(self, entry: Entry) -> bool:
        return self.texts.setdefault(type(self).key_of(entry.key), entry.text) is entry.text

    def get(self, key: str) -> Entry | None:
        return super().get(type(self).key_of(key))


class FoldsCase(_KeyedBy):
    """A collation that ignores case."""

    key_of = staticmethod(lambda key: key.casefold())


class ComposesKeys(_KeyedBy):
    key_of = staticmethod(lambda key: unicodedata.normalize("NFC", key))


class StripsKeys(_KeyedBy):
    """A CHAR column: spaces at the end do not count."""

    key_of = staticmethod(lambda key: key.strip())


class ReplacesSurrogates(_KeyedBy):
    """As a driver does that encodes with errors="replace"."""

    key_of = staticmethod(lambda key: key.encode(errors="replace").decode())


class EndsKeysAtNul(_KeyedBy):
    """As in C."""

    key_of = staticmethod(lambda key: key.split("\0")[0])


class RefusesAfterWriting(Plain):
    """The key is found to be bad when the entry is in."""

    def claim(self, entry: Entry) -> bool:
        claimed = super().claim(entry)
        if not entry.key.isprintable():
            raise InvalidInputError("bad key", field="key")
        return claimed


class RefusesAlmostEveryKey(Plain):
    def claim(self, entry: Entry) -> bool:
        if not entry.key.isalnum() or not entry.key.isascii():
            raise InvalidInputError("bad key", field="key")
        return super().claim(entry)


# Lists and history


class ListsEverything(Plain):
    def list(self, status: Status | None = None) -> Sequence[Entry]:
        return super().list()


class ListsAsItCame(Plain):
    def list(self, status: Status | None = None) -> Sequence[Entry]:
        return sorted(super().list(status), key=lambda entry: [*self.texts].index(entry.key))


class ListsTiesByKey(Plain):
    def list(self, status: Status | None = None) -> Sequence[Entry]:
        return sorted(super().list(status), key=lambda entry: (entry.claimed_at, entry.key))


class TellsHistoryBackwards(MemoryStore):
    def history(self, key: str) -> Sequence[Entry]:
        return super().history(key)[::-1]


class ForgetsHistory(MemoryStore):
    def history(self, key: str) -> Sequence[Entry]:
        return super().history(key)[-1:]


class InventsHistory(MemoryStore):
    def history(self, key: str) -> Sequence[Entry]:
        return super().history(key) or [Entry({"key": key, "status": "pending", "claimedAt": ""})]


# Errors


class Aborted(Exception):  # noqa: N818  # what a database calls it
    """Every statement after the one that failed."""


class StaysBroken(Plain):
    """A transaction that failed and was not rolled back."""

    broken = False

    def claim(self, entry: Entry) -> bool:
        if self.broken:
            raise Aborted("current transaction is aborted")
        self.broken = not entry.key.isprintable()
        if self.broken:
            raise InvalidInputError("bad key", field="key")
        return super().claim(entry)
