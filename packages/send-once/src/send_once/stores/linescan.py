"""What a line of a ledger file is, and which line of a key counts. Pure: bytes in, values out."""

from __future__ import annotations

import json
from typing import Final, Literal

from send_once.entry import Entry, Status, countable
from send_once.jstext import js_trim
from send_once.stores.jsonprefix import is_cut_json

LineKind = Literal["entry", "blank", "torn", "damaged"]

STATUS_CODES: Final = {Status.PENDING: 0, Status.SENT: 1, Status.FAILED: 2}
"""How the index writes a status: two bits beside the line's offset."""
SENT_CODE: Final = STATUS_CODES[Status.SENT]
FAILED_CODE: Final = STATUS_CODES[Status.FAILED]
CODES_BY_TEXT: Final = {status.value: code for status, code in STATUS_CODES.items()}

_HEAD: Final = '{"key":"'


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_SCAN: Final = json.JSONDecoder(parse_constant=_refuse_constant).scan_once  # type: ignore[attr-defined]  # set in __init__; the parser without the two whitespace searches that decode() adds


def key_and_code(line: bytes) -> tuple[str, int] | None:
    """Key and status code of the entry a line holds, or None: quick for lines as the reference and
    we write them. Every line is parsed whole; one that only looks right is never taken for good."""
    text = line.decode("utf-8", "replace")
    try:
        members, end = _SCAN(text, 0)
        if end == len(text):
            code = CODES_BY_TEXT[members["status"]]
            key = members["key"]
            if type(key) is str and type(members["claimedAt"]) is str:
                return key, code
    except (ValueError, LookupError, TypeError, StopIteration, RecursionError):
        pass
    entry = Entry.from_text(text)
    return None if entry is None else (entry.key, STATUS_CODES[entry.status])


def read_entry(line: bytes) -> Entry | None:
    """The entry a line holds, read as the reference reads it (invalid UTF-8 becomes U+FFFD), or None."""
    return Entry.from_text(line.decode("utf-8", "replace"))


def kind_of(line: bytes) -> LineKind:
    """What a line (without its newline) is.

    `torn` is what a write cut short leaves: the beginning of an entry's JSON text, perhaps followed
    by NULs (a file system may have lengthened the file before the data came). Later writers end it
    with a newline and go on. `damaged` is everything else: nothing that this library, the reference
    or a crash of either would have written.
    """
    text = line.decode("utf-8", "replace")
    if not js_trim(text):
        return "blank"
    if Entry.from_text(text) is not None:
        return "entry"
    return "torn" if _is_torn(text.rstrip("\0")) else "damaged"


def takes_over(current: Entry, line: Entry) -> bool:
    """Whether a later line of the same key replaces what the key's lines said before it.

    A file has an order, and the lock keeps its writers apart; this rule decides where the lock
    failed (a peer that broke it, or another name of the file the reference did not know of).

    - A `sent` line always counts: it reports what has happened, whoever held the key.
    - `sent` does not go back. Only where neither line names a claim is a pending one believed, as
      the reference does; it is unknown then, never sent again by itself.
    - A line of the same claim counts, and between lines that name none, the last one.
    - Another claim's line counts only as the next attempt of a failed one. So of two claims for one
      attempt the first stands, and no late failure writes off an attempt that is not its own.
    """
    if line.status is Status.SENT:
        return True
    if current.status is Status.SENT:
        return line.status is Status.PENDING and current.claim_id is None and line.claim_id is None
    if line.claim_id == current.claim_id:
        return True
    return current.status is Status.FAILED and line.attempts > countable(current.attempts)


def is_fresh_claim(entry: Entry) -> bool:
    """Whether storing `entry` gives its caller the right to send: pending, and nothing learnt yet."""
    return entry.status is Status.PENDING and not entry.uncertain and entry.error is None


def _is_torn(text: str) -> bool:
    return bool(text) and (text.startswith(_HEAD) or _HEAD.startswith(text)) and is_cut_json(text)
