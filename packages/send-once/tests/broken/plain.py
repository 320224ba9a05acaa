"""A plain store that keeps the rules, and those that get a claim or a transition wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from send_once import Entry, Status

A_MOMENT_SECONDS = 0.002
"""As long as a server may take to answer, so that every other thread gets there as well."""


class Plain:
    """The four methods over a dictionary of texts, each of which one of the stores below gets wrong."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.lock = threading.RLock()

    def claim(self, entry: Entry) -> bool:
        return self.texts.setdefault(entry.key, entry.text) is entry.text

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        with self.lock:
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
    """SELECT, then INSERT, as close together as a program can write it."""

    def claim(self, entry: Entry) -> bool:
        if self.get(entry.key) is not None:
            return False
        self.texts[entry.key] = entry.text
        return True


class ClaimWaitsBetween(ClaimChecksThenActs):
    """The same with a server in between."""

    def get(self, key: str) -> Entry | None:
        entry = super().get(key)
        time.sleep(A_MOMENT_SECONDS)
        return entry


class ClaimForgetsItsId(Plain):
    """The member it does not know is dropped, and nobody can tell whose claim it was."""

    def claim(self, entry: Entry) -> bool:
        members = entry.to_json()
        members.pop("claim", None)
        return super().claim(Entry(members))


class GetInventsAnEntry(Plain):
    """An outer join: a row of nothing but nulls."""

    def get(self, key: str) -> Entry | None:
        return super().get(key) or Entry({"key": key, "status": "pending", "attempts": 1, "claimedAt": ""})


class GetClaims(Plain):
    """Get or create."""

    def get(self, key: str) -> Entry | None:
        self.texts.setdefault(key, Entry({"key": key, "status": "pending", "attempts": 1, "claimedAt": ""}).text)
        return super().get(key)


# Transitions


class TransitionNeverWrites(Plain):
    def transition(self, came_from: Entry, entry: Entry) -> bool:
        return False


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
    """SELECT, then UPDATE."""

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        if self.get(entry.key) != came_from:
            return False
        self.texts[entry.key] = entry.text
        return True


class TransitionWaitsBetween(TransitionChecksThenActs):
    def get(self, key: str) -> Entry | None:
        entry = super().get(key)
        time.sleep(A_MOMENT_SECONDS)
        return entry
