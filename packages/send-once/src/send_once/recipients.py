"""What the key makes of a recipient, and which other spellings may mean the same person.

The key merges only what is certainly one recipient, so that no message is suppressed by mistake. The
price is that one person under two spellings gets two keys. `describe_recipient` shows both sides:

- done to it: `trimmed`, `lower_cased`, `punctuation_removed`;
- merged with something else, perhaps wrongly: `case_may_matter`, `minus_removed`, `dots_removed`;
- one person may have another spelling, with another key: the other codes.
"""

from __future__ import annotations

from dataclasses import dataclass

from send_once.errors import InvalidInputError
from send_once.jstext import js_trim
from send_once.recipient_notes import notes_about
from send_once.recipient_parts import RecipientKind, kind_of, taken_apart


@dataclass(frozen=True, slots=True)
class RecipientNote:
    """One thing to know. `code` is stable; `message` is for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class RecipientDescription:
    """`normalised` is what goes into the key. `kind` is what `given` looks like; the key does not know it."""

    given: str
    normalised: str
    kind: RecipientKind
    notes: tuple[RecipientNote, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the notes, in order."""
        return tuple(note.code for note in self.notes)


def describe_recipient(to: str) -> RecipientDescription:
    """What was normalised, and what looks like one of two spellings of one person. Changes no key.

    Raises InvalidInputError for what no key can be made of: anything but text that is not blank.
    """
    if not isinstance(to, str) or not js_trim(to):
        raise InvalidInputError("to must be a non-empty string.", field="to")
    parts = taken_apart(to)
    kind = kind_of(parts)
    notes = tuple(RecipientNote(code, message) for code, message in notes_about(parts, kind))
    return RecipientDescription(to, parts.normalised, kind, notes)
