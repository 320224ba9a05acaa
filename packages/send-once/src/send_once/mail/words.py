"""Encoded words (RFC 2047): `=?utf-8?q?…?=`, made and read."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable
from typing import Final

WORD_CHARS_MAX: Final = 75
_OVERHEAD_CHARS: Final = len("=?utf-8?q??=")
WORD_ROOM_MIN: Final = _OVERHEAD_CHARS + 12
"""Room that holds any one character: four octets, three characters each in Q."""

ENCODED_WORD: Final = re.compile(r"=\?([^?\s*]+)(?:\*[^?\s]*)?\?([bBqQ])\?([^?\s]*)\?=")
_RUN: Final = re.compile(rf"{ENCODED_WORD.pattern}(?:\s+{ENCODED_WORD.pattern})+")
_Q_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/")
_ZERO_WIDTH_JOINER: Final = "\u200d"

Encode = Callable[[str], str]


def shorter_encoding(text: str) -> Encode:
    """Q or B, whichever is shorter for the whole of `text`, so that one header uses one of them."""
    return min((_q_word, _b_word), key=lambda encode: len(encode(text)))


def fitting_count(text: str, encode: Encode, room: int) -> int:
    """How many characters of `text` fit into one encoded word of `room` characters.

    Never part of a character (RFC 2047 section 5), and none without the marks and joiners that
    belong to it; 0 if not even the first fits with all of its own.
    """
    count = _count_of_chars(text, encode, room)
    return next((n for n in range(count, 0, -1) if not _belongs_together(text, n)), 0)


def cut_count(text: str, encode: Encode, room: int) -> int:
    """The same where a cluster is too long for any word: cut between two of its characters."""
    return fitting_count(text, encode, room) or _count_of_chars(text, encode, room)


def decode_words(text: str) -> str:
    """`text` with its encoded words decoded; white space between two of them is no text (RFC 2047 6.2).

    What cannot be decoded stays as it is.
    """
    return ENCODED_WORD.sub(lambda match: _decoded(match.group(0)) or match.group(0), merge_words(text))


def merge_words(text: str) -> str:
    """`text` with each run of encoded words, white space between them, made into one encoded word.

    Parsers read one word right where they put spaces between several, or cut characters in two.
    """
    return _RUN.sub(lambda run: _merged(run.group(0)), text)


def decode_word(word: str) -> str | None:
    """The text of one encoded word; None if it is none, or cannot stand for itself."""
    return _decoded(word) if ENCODED_WORD.fullmatch(word) else None


def _count_of_chars(text: str, encode: Encode, room: int) -> int:
    room = min(room, WORD_CHARS_MAX)
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(encode(text[:middle])) <= room else (low, middle - 1)
    return low


def _belongs_together(text: str, cut: int) -> bool:
    if cut >= len(text):
        return False
    before, after = text[cut - 1], text[cut]
    return _ZERO_WIDTH_JOINER in (before, after) or unicodedata.category(after)[0] == "M"


def _q_word(text: str) -> str:
    return f"=?utf-8?q?{''.join(map(_q_octet, text.encode()))}?="


def _q_octet(octet: int) -> str:
    if octet in _Q_SAFE:
        return chr(octet)
    return "_" if octet == ord(" ") else f"={octet:02X}"


def _b_word(text: str) -> str:
    return f"=?utf-8?b?{base64.b64encode(text.encode()).decode('ascii')}?="


def _merged(run: str) -> str:
    """Octets are joined before they are decoded where charset and encoding allow: some senders cut
    characters in two."""
    matches = list(ENCODED_WORD.finditer(run))
    charsets = {match.group(1).lower() for match in matches}
    octets = [_octets(match.group(2), match.group(3)) for match in matches]
    if None in octets:
        return run
    if len(charsets) == 1:
        text = _text(b"".join(part for part in octets if part is not None), charsets.pop())
    else:
        texts = [_decoded(match.group(0)) for match in matches]
        text = None if None in texts else "".join(part for part in texts if part is not None)
    return run if text is None else _b_word(text)


def _decoded(word: str) -> str | None:
    match = ENCODED_WORD.fullmatch(word)
    octets = _octets(match.group(2), match.group(3)) if match else None
    return None if match is None or octets is None else _text(octets, match.group(1))


def _octets(encoding: str, encoded: str) -> bytes | None:
    try:
        if encoding in "bB":
            return base64.b64decode(encoded, validate=True)
        return binascii.a2b_qp(encoded.encode("ascii"), header=True)
    except (binascii.Error, ValueError):
        return None


def _text(octets: bytes, charset: str) -> str | None:
    try:
        return octets.decode(charset)
    except (UnicodeDecodeError, LookupError):
        return None
