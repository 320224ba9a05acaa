"""Entries to test stores with."""

from __future__ import annotations

from typing import Final

from send_once.entry import Entry, Json

AT: Final = "2026-09-27T12:00:00.000Z"

ODD_KEYS: Final = (
    " ", "a b", "ключ", "🎉", "a\nb", "__proto__", "constructor", "0", "10", '"', "\\", "k\t", "\u00e9", "e\u0301",
    "%s", "$1", "?", "'; DROP TABLE send_once; --", "x" * 2_000, "\u2028", "\x7f", "\x00", "a\x00", "a\x00b", "a",
    "a\ud800", "a\udfff", "\ufeff", "K", "k",
)  # fmt: skip
"""Keys that broke other stores. Two of them look alike: composed and decomposed é."""


def entry_of(
    key: str,
    *,
    status: str = "pending",
    attempts: int = 1,
    claim_id: str | None = "c1",
    claimed_at: str = AT,
    **members: Json,
) -> Entry:
    """An entry as a claim would write it, with `members` added before the claim."""
    claim = {} if claim_id is None else {"claim": {"id": claim_id, "host": "h", "pid": 1, "start": "s"}}
    return Entry(
        {
            "key": key,
            "status": status,
            "attempts": attempts,
            "claimedAt": claimed_at,
            "updatedAt": claimed_at,
            "meta": None,
            **members,
            **claim,
        }
    )


def settled(entry: Entry, status: str, **members: Json) -> Entry:
    """The same attempt in another status."""
    return entry.evolve({"status": status, **members})
