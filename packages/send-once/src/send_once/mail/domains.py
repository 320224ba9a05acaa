"""Domain names in mail: checked, and as A-labels (RFC 5891) where they are international.

Python's own `idna` codec follows IDNA 2003, under which `straße.example` becomes
`strasse.example`: another domain, perhaps another owner. Here ß and ς keep their meaning.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from send_once.errors import InvalidInputError

DOMAIN_CHARS_MAX: Final = 253
LABEL_CHARS_MAX: Final = 63
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_DOTS: Final = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})
_LETTERS_MARKS_DIGITS: Final = frozenset({"Ll", "Lo", "Lm", "Mn", "Mc", "Nd"})
_JOINERS: Final = "\u200c\u200d"
_VIRAMA: Final = 9


def ascii_domain(domain: str, *, field: str) -> str:
    """`domain` as it goes on the wire: unchanged if it is ASCII, else with A-labels (`xn--…`).

    Raises InvalidInputError naming `field` for what is no domain name.
    """
    labels = _labels(domain)
    try:
        wire = ".".join(label if label.isascii() else _a_label(label) for label in labels)
    except ValueError as error:
        raise InvalidInputError(
            f"{field}: {domain!r} is not a domain name ({error}). Give its ASCII form (xn--…).", field=field
        ) from error
    if not wire or len(wire) > DOMAIN_CHARS_MAX or not all(_is_label(label) for label in wire.split(".")):
        raise InvalidInputError(
            f"{field}: {domain!r} is not a domain name. Labels of letters, digits and hyphens, at most "
            f"{LABEL_CHARS_MAX} characters each and {DOMAIN_CHARS_MAX} in all.",
            field=field,
        )
    return wire


def _labels(domain: str) -> list[str]:
    if domain.isascii():
        return domain.split(".")
    mapped = unicodedata.normalize("NFKC", domain.translate(_DOTS)).lower()
    return unicodedata.normalize("NFC", mapped).translate(_DOTS).split(".")


def _is_label(label: str) -> bool:
    return len(label) <= LABEL_CHARS_MAX and _LABEL.fullmatch(label) is not None


def _a_label(label: str) -> str:
    if unicodedata.category(label[0])[0] == "M":
        raise ValueError("a label begins with a combining mark")
    if label[0] == "-" or label[-1] == "-" or label[2:4] == "--":
        raise ValueError("a hyphen in a place it may not have")
    for before, char in zip("\0" + label, label, strict=False):
        _check_char(before, char)
    return "xn--" + label.encode("punycode").decode("ascii")


def _check_char(before: str, char: str) -> None:
    """RFC 5892, without its rules for single scripts: those characters are refused, not guessed at."""
    if char in _JOINERS and unicodedata.combining(before) == _VIRAMA:
        return
    if char != "-" and unicodedata.category(char) not in _LETTERS_MARKS_DIGITS:
        raise ValueError(f"U+{ord(char):04X} is not allowed in a domain name")
