"""Putting a header field on lines (RFC 5322 2.2.3, RFC 2047 section 2).

The standard library's policies are not used for this: in Python 3.11 they turn long URLs and words
into encoded words, put two of them beside each other or let them grow past 76 characters, and encode
inside addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from send_once.mail.fields import check_text
from send_once.mail.words import ENCODED_WORD, WORD_ROOM_MIN, cut_count, fitting_count, shorter_encoding

LINE_CHARS: Final = 76
"""A line with an encoded word may not be longer (RFC 2047); others need not be."""
_TOKEN: Final = re.compile(r"([ \t]*)([^ \t]+)")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text that stays on one line, or, if `encoded`, becomes as many encoded words as it takes.
    `space` is the white space in front of it, where a line may be broken."""

    text: str
    space: str = " "
    encoded: bool = False


@dataclass(slots=True)
class _Lines:
    line: str
    done: list[str] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        if not self._is_empty and len(self.line) + len(piece.space) + len(piece.text) > LINE_CHARS:
            self._break()
        self.line += piece.space + piece.text

    def add_words(self, piece: Piece) -> None:
        encode = shorter_encoding(piece.text)
        rest, space = piece.text, piece.space
        while rest:
            room = LINE_CHARS - len(self.line) - len(space)
            count = fitting_count(rest, encode, room) if room >= WORD_ROOM_MIN else 0
            if not count and self.line:
                self._break()
                continue
            count = count or cut_count(rest, encode, room)
            self.line += space + encode(rest[:count])
            rest, space = rest[count:], " "

    def _break(self) -> None:
        self.done.append(self.line)
        self.line = ""

    @property
    def _is_empty(self) -> bool:
        """Nothing but the name: a line of that alone is legal, but trips some receivers."""
        return not self.done and self.line.endswith(":")


def folded(name: str, pieces: Iterable[Piece]) -> str:
    """The field `name: pieces` on lines of at most 76 characters where its white space allows it,
    each ended by CRLF. Unfolding gives back the pieces and their white space exactly.

    Raises InvalidInputError for a piece that would begin a line of its own.
    """
    lines = _Lines(f"{name}:")
    for piece in pieces:
        check_text(name, piece.text)
        if piece.encoded:
            lines.add_words(piece)
        else:
            lines.add(piece)
    return "".join(f"{line}\r\n" for line in [*lines.done, lines.line])


def unstructured(text: str) -> Iterator[Piece]:
    """Free text: ASCII words as they are; words that need it encoded, with the space between them."""
    pieces = list(_tokens(text))
    index = 0
    while index < len(pieces):
        end = index + 1
        if pieces[index].encoded:
            while end < len(pieces) and pieces[end].encoded:
                end += 1
            yield _joined(pieces[index:end])
        else:
            yield pieces[index]
        index = end


def words(text: str) -> Iterator[Piece]:
    """Text whose words must stay as they are, broken only at single white space between them."""
    return (Piece(match.group(2), match.group(1) or " ") for match in _TOKEN.finditer(text))


def _tokens(text: str) -> Iterator[Piece]:
    """White space at either end would be lost in transport, so it is encoded too."""
    body = text.strip(" \t")
    lead, trail = text[: len(text) - len(text.lstrip(" \t"))], text[len(text.rstrip(" \t")) :] if body else ""
    found = [Piece(m.group(2), m.group(1) or " ", encoded=_must_encode(m.group(2))) for m in _TOKEN.finditer(body)]
    if lead:
        found[:1] = [Piece(lead + "".join(piece.text for piece in found[:1]), encoded=True)]
    if trail:
        found[-1:] = [Piece(found[-1].text + trail, found[-1].space, encoded=True)]
    return iter(found)


def _joined(run: list[Piece]) -> Piece:
    """One space stays outside the words, as their separator; all others are part of the text."""
    first = run[0]
    text = first.space[1:] + first.text + "".join(piece.space + piece.text for piece in run[1:])
    return Piece(text, first.space[0], encoded=True)


def _must_encode(word: str) -> bool:
    return not word.isascii() or ENCODED_WORD.search(word) is not None
