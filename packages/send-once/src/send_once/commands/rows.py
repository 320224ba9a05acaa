"""One entry as one line, and finding the entry of a person: keys are hashes and say nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from unicodedata import normalize

from send_once import jsontext
from send_once.approvals import RESERVED_META
from send_once.audit import meta_members
from send_once.entry import Entry, Json
from send_once.jsnumbers import js_number
from send_once.records import status_word
from send_once.terminal import Paint, harmless, utf16_length

RECIPIENT_CHARS_MAX: Final = 40
NOBODY: Final = "-"


def lines(entries: Sequence[Entry], left_out: int, paint: Paint) -> str:
    """Status, claim time, attempt, whom it is for, key. The key comes last, where its length disturbs no column."""
    people = [_shortened(recipient(entry)) for entry in entries]
    width = max(map(utf16_length, people), default=0)
    shown = [
        f"{status_word(entry.status, paint, width=7)}  {harmless(entry.claimed_at)}  "
        f"{js_number(entry.attempts):>2}  {person}{' ' * (width - utf16_length(person))}  {harmless(entry.key)}\n"
        for entry, person in zip(entries, people, strict=True)
    ]
    return "".join([*shown, *([f"… and {left_out} more\n"] if left_out else [])])


def recipient(entry: Entry) -> str | None:
    """Whom it is for, as far as the meta says: its `to`, or else its first text. Who approved it is
    somebody else."""
    members = [(name, value) for name, value in meta_members(entry.meta) if name not in RESERVED_META]
    if isinstance(entry.meta, str):
        return entry.meta
    to = [value for name, value in members if name == "to"]
    return next((text for text in map(_text, [*to, *(value for _, value in members)]) if text), None)


def matching(entries: Iterable[Entry], text: str | None) -> Sequence[Entry]:
    """Entries that hold the text, letter case and the ways to write an accent aside; all of them where
    there is none."""
    if text is None:
        return tuple(entries)
    wanted = _folded(text)
    return tuple(entry for entry in entries if any(wanted in _folded(one) for one in _texts(entry)))


def _folded(text: str) -> str:
    return text.casefold() if text.isascii() else normalize("NFC", normalize("NFC", text).casefold())


def _shortened(text: str | None) -> str:
    shown = harmless(text) if text else NOBODY
    return shown if len(shown) <= RECIPIENT_CHARS_MAX else f"{shown[: RECIPIENT_CHARS_MAX - 1]}…"


def _text(value: Json) -> str | None:
    """A text, or several; a text may be one of a list (`"to": ["ana@…", "ben@…"]`)."""
    if isinstance(value, list):
        return ", ".join(one for one in value if isinstance(one, str)) or None
    return value if isinstance(value, str) else None


def _texts(entry: Entry) -> Iterator[str]:
    yield entry.key
    yield from _inside(entry.meta)
    yield entry.provider_id or ""
    yield from _inside(entry["error"] if entry.has("error") else None)


def _inside(value: Json) -> Iterator[str]:
    """Every name and value in it, as text."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif one is not None:
            yield one if isinstance(one, str) else jsontext.stringify(one, where="value", infinity_as_null=True)
