"""Stores that each break one rule, as stores in the wild do; the contract must refuse every one of them."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from send_once import Entry, InvalidInputError, MemoryStore, Status, Store, jsontext
from send_once.stores.base import Pair

A_MOMENT_SECONDS = 0.005
"""Between a check and its act, so that every other thread gets there as well."""


class Plain:
    """The four methods over a dictionary of texts, each of which one of the stores below gets wrong."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def claim(self, entry: Entry) -> bool:
        return self.texts.setdefault(entry.key, entry.text) is entry.text

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        current = self.get(entry.key)
        if current is None or not self.may_replace(current, came_from):
            return False
        self.texts[entry.key] = entry.text
        return True

    def may_replace(self, current: Entry, came_from: Entry) -> bool:
        return current == came_from

    def get(self, key: str) -> Entry | None:
        text = self.texts.get(key)
        return None if text is None else Entry.from_text(text)

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        found = [entry for entry in map(Entry.from_text, self.texts.values()) if entry is not None]
        return sorted((e for e in found if status in (None, e.status)), key=lambda e: e.claimed_at)


# Claims


class ClaimOverwrites(Plain):
    """INSERT OR REPLACE."""

    def claim(self, entry: Entry) -> bool:
        self.texts[entry.key] = entry.text
        return True


class ClaimAlwaysSaysYes(Plain):
    """ON CONFLICT DO NOTHING, and nobody looks at the number of rows."""

    def claim(self, entry: Entry) -> bool:
        super().claim(entry)
        return True


class ClaimTakesFailedKeys(Plain):
    """A failed key counts as free, without an attempt of its own."""

    def claim(self, entry: Entry) -> bool:
        current = self.get(entry.key)
        if current is not None and current.status is not Status.FAILED:
            return False
        self.texts[entry.key] = entry.text
        return True


class ClaimChecksThenActs(Plain):
    """SELECT, then INSERT."""

    def claim(self, entry: Entry) -> bool:
        if entry.key in self.texts:
            return False
        time.sleep(A_MOMENT_SECONDS)
        self.texts[entry.key] = entry.text
        return True


# Transitions


class TransitionAlwaysWrites(Plain):
    def may_replace(self, current: Entry, came_from: Entry) -> bool:
        return True


class TransitionComparesTheStatus(Plain):
    def may_replace(self, current: Entry, came_from: Entry) -> bool:
        return current.status is came_from.status


class TransitionComparesStatusAndAttempt(Plain):
    def may_replace(self, current: Entry, came_from: Entry) -> bool:
        return (current.status, current.attempts) == (came_from.status, came_from.attempts)


class TransitionComparesStatusAndClaim(Plain):
    """The reference's entries have no claim, and then every attempt looks alike."""

    def may_replace(self, current: Entry, came_from: Entry) -> bool:
        return (current.status, current.claim_id) == (came_from.status, came_from.claim_id)


class TransitionComparesClaimAndAttempt(Plain):
    """A claim keeps its id when it is settled: sent is overwritten."""

    def may_replace(self, current: Entry, came_from: Entry) -> bool:
        return (current.attempts, current.claim_id) == (came_from.attempts, came_from.claim_id)


class TransitionTakesAMissingClaimForAnyClaim(Plain):
    """WHERE claim_id = ? OR claim_id IS NULL."""

    def may_replace(self, current: Entry, came_from: Entry) -> bool:
        same = current.claim_id is None or current.claim_id == came_from.claim_id
        return same and (current.status, current.attempts) == (came_from.status, came_from.attempts)


class TransitionInserts(Plain):
    """An upsert: an absent key springs into being."""

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        if entry.key not in self.texts:
            self.texts[entry.key] = entry.text
            return True
        return super().transition(came_from, entry)


class TransitionSaysYesThoughRefused(Plain):
    def transition(self, came_from: Entry, entry: Entry) -> bool:
        super().transition(came_from, entry)
        return True


class TransitionChecksThenActs(Plain):
    def may_replace(self, current: Entry, came_from: Entry) -> bool:
        same = super().may_replace(current, came_from)
        time.sleep(A_MOMENT_SECONDS)
        return same


# What is kept


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


class StaysBroken(Plain):
    """A transaction that failed and was not rolled back."""

    broken = False

    def claim(self, entry: Entry) -> bool:
        if self.broken:
            raise RuntimeError("current transaction is aborted")
        self.broken = not entry.key.isprintable()
        if self.broken:
            raise InvalidInputError("bad key", field="key")
        return super().claim(entry)


# Batches


class BatchAnswersUnordered(MemoryStore):
    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        return sorted(super().claim_many(entries))


class BatchAnswersOnlyForWhatLanded(MemoryStore):
    """As a RETURNING clause does."""

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        return [answer for answer in super().claim_many(entries) if answer]


class BatchOverwrites(MemoryStore):
    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        for entry in entries:
            self._states[entry.key] = {0: [entry]}
        return [True] * len(entries)


class BatchTransitionsUnfenced(MemoryStore):
    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        return [self.transition(self.get(entry.key) or came_from, entry) for came_from, entry in pairs]


class BatchTransitionsCompareTheStatus(MemoryStore):
    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        currents = [self.get(entry.key) for _, entry in pairs]
        return [
            current is not None and current.status is came_from.status and self.transition(current, entry)
            for current, (came_from, entry) in zip(currents, pairs, strict=True)
        ]


class BatchHalfDone(MemoryStore):
    """Refuses what is too large when the entries before it are in."""

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        answers = []
        for entry in entries:
            if len(entry.text) > 1_000_000:
                raise InvalidInputError("too large", field="meta")
            answers.append(self.claim(entry))
        return answers


class BatchChecksThenActs(MemoryStore):
    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        absent = [entry.key not in self._states for entry in entries]
        time.sleep(A_MOMENT_SECONDS)
        self._states.update({entry.key: {0: [entry]} for entry, free in zip(entries, absent, strict=True) if free})
        return absent


# Answering stores


class AnswersWithTheClaim(MemoryStore):
    """A refused claim is answered with the caller's own entry, which then looks claimed."""

    def claim_or_get(self, entry: Entry) -> bool | Entry:
        return True if self.claim(entry) else entry


class AnswersYes(MemoryStore):
    def claim_or_get(self, entry: Entry) -> bool | Entry:
        self.claim(entry)
        return True


class AnswersWithTheFirstState(MemoryStore):
    """What was in the way when the key was new."""

    def claim_or_get(self, entry: Entry) -> bool | Entry:
        return True if self.claim(entry) else self.history(entry.key)[0]


class AnswersWithoutClaiming(MemoryStore):
    def claim_or_get(self, entry: Entry) -> bool | Entry:
        return self.get(entry.key) or True


# Several handles on one set of data


class RemembersWhatItRead(Plain):
    """Another handle writes, and this one answers from its cache."""

    shared: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.texts = self.shared
        self.read: dict[str, Entry | None] = {}

    def get(self, key: str) -> Entry | None:
        if key not in self.read:
            self.read[key] = super().get(key)
        return self.read[key]


class WritesWhenClosed(Plain):
    """Keeps claims in memory until it is closed; who is killed never closes."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = Path(path)
        if self.path.exists():
            self.texts = jsontext.parse(self.path.read_text())

    def close(self) -> None:
        self.path.write_text(jsontext.stringify(self.texts))


class LeavesRecordsForLater(Plain):
    """A claim is on the disk when it is answered, the outcome of its send only when it is closed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = Path(path)
        if self.path.exists():
            self.texts = jsontext.parse(self.path.read_text())

    def get(self, key: str) -> Entry | None:
        if self.path.exists():
            self.texts = jsontext.parse(self.path.read_text()) | self.texts
        return super().get(key)

    def claim(self, entry: Entry) -> bool:
        if self.get(entry.key) is not None:
            return False
        claimed = super().claim(entry)
        self.path.write_text(jsontext.stringify(self.texts))
        return claimed

    def close(self) -> None:
        self.path.write_text(jsontext.stringify(self.texts))


IN_ONE_PROCESS: dict[str, Callable[[], Store]] = {
    kind.__name__: kind
    for kind in (
        ClaimOverwrites, ClaimAlwaysSaysYes, ClaimTakesFailedKeys, ClaimChecksThenActs, TransitionAlwaysWrites,
        TransitionComparesTheStatus, TransitionComparesStatusAndAttempt, TransitionComparesStatusAndClaim,
        TransitionComparesClaimAndAttempt, TransitionTakesAMissingClaimForAnyClaim, TransitionInserts,
        TransitionSaysYesThoughRefused, TransitionChecksThenActs, KeepsWhatItKnows, SortsMembers, CutsLongText,
        FoldsCase, ComposesKeys, StripsKeys, ReplacesSurrogates, EndsKeysAtNul, RefusesAfterWriting,
        RefusesAlmostEveryKey, ListsEverything, ListsAsItCame, ListsTiesByKey, TellsHistoryBackwards, ForgetsHistory,
        InventsHistory, StaysBroken, BatchAnswersUnordered, BatchAnswersOnlyForWhatLanded, BatchOverwrites,
        BatchTransitionsUnfenced, BatchTransitionsCompareTheStatus, BatchHalfDone, BatchChecksThenActs,
        AnswersWithTheClaim, AnswersYes, AnswersWithTheFirstState, AnswersWithoutClaiming,
    )
}  # fmt: skip


def look(store: Store) -> object:
    """Something a child process can do with a store that claims nothing."""
    return store.get("k")
