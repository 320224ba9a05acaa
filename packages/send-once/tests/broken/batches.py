"""Stores that do a batch wrongly, or answer a refused claim with the wrong entry."""

from __future__ import annotations

import time
from collections.abc import Sequence

from broken.plain import A_MOMENT_SECONDS, Plain
from send_once import Entry, InvalidInputError, MemoryStore
from send_once.stores.base import Pair


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
        absent = [self.get(entry.key) is None for entry in entries]
        time.sleep(A_MOMENT_SECONDS)
        self._states.update({entry.key: {0: [entry]} for entry, free in zip(entries, absent, strict=True) if free})
        return absent


class BatchForgetsItsIds(MemoryStore):
    """As with single claims: dropped with the member it does not know."""

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        members = [entry.to_json() for entry in entries]
        return super().claim_many([Entry({k: v for k, v in each.items() if k != "claim"}) for each in members])


class BatchRecordsNothing(MemoryStore):
    """Says yes, and keeps the batch for a flush that never comes."""

    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        return [True] * len(pairs)


class BatchClaimsOnly(Plain):
    """Half of a batch, which a ledger never uses; who wrote it believes it does."""

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        return [self.claim(entry) for entry in entries]


class BatchTransitionsOnly(Plain):
    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        return [self.transition(*pair) for pair in pairs]


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
