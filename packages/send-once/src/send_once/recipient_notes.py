"""What there is to say about a recipient: one check for each code of `describe_recipient`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

from send_once.jstext import js_trim
from send_once.recipient_parts import EXTENSION, INVISIBLE_KINDS, PLAIN_DASH, Parts, RecipientKind, bare_number, dialled

Check = Callable[[Parts], Iterator[str]]
"""Yields a message where it has something to say."""

_DOTTED: Final = re.compile(r"[0-9]+(?:\.[0-9]+){3,}\Z")
_INTERNATIONAL_PREFIX: Final = re.compile(r"(00|011)(?=[1-9])")
_GMAIL: Final = ("gmail.com", "googlemail.com")
_LOOK_ALIKE_SCRIPTS: Final = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "COPTIC", "CHEROKEE"})
"""Alphabets whose letters are drawn alike (Unicode Technical Standard 39, mixed-script detection)."""


def notes_about(parts: Parts, kind: RecipientKind) -> Iterator[tuple[str, str]]:
    """Codes and messages, in a fixed order."""
    for code, check in _CHECKS_ALWAYS + _CHECKS_BY_KIND[kind]:
        for message in check(parts):
            yield code, message


# What the key did.


def _trimmed(parts: Parts) -> Iterator[str]:
    if js_trim(parts.given) != parts.given:
        yield "Space around it is not part of the key."


def _lower_cased(parts: Parts) -> Iterator[str]:
    if parts.normalised != js_trim(parts.given):
        yield f"The key has it in lower case: {parts.normalised!r}."


def _punctuation_removed(parts: Parts) -> Iterator[str]:
    if parts.normalised != js_trim(parts.given):
        yield f"The key has it without spaces, dots, dashes and brackets: {parts.normalised!r}."


def _case_may_matter(parts: Parts) -> Iterator[str]:
    if parts.normalised != js_trim(parts.given):
        yield (
            f"It has an @, so the key has it in lower case: {parts.normalised!r}. Where upper and lower case are two "
            "recipients (URLs, some user ids), put the exact id into the intent too."
        )


def _minus_removed(parts: Parts) -> Iterator[str]:
    if re.match(r"-[0-9 ().-]+\Z", js_trim(parts.given)):
        yield (
            f"The leading minus is not part of the key: {parts.normalised!r} is the same recipient. Where it is not "
            '(chat ids), prefix the id, as in "chat:-100123".'
        )


def _dots_removed(parts: Parts) -> Iterator[str]:
    if _DOTTED.match(js_trim(parts.given)):
        yield (
            f"It reads like an IP address or a version; as a number it is {parts.normalised!r}, and others come to "
            'the same. Prefix it, as in "host:10.1.2.3".'
        )


# What wraps or fills it, whatever it is.


def _scheme(parts: Parts) -> Iterator[str]:
    if parts.scheme:
        yield f'"{parts.scheme}:" is part of the key; pass {parts.core!r} alone.'


def _display_name(parts: Parts) -> Iterator[str]:
    if parts.name:
        yield f"The name {parts.name!r} is part of the key; pass {parts.core!r} alone."


def _angle_brackets(parts: Parts) -> Iterator[str]:
    if parts.brackets and not parts.name:
        yield f"The angle brackets are part of the key; pass {parts.core!r} alone."


def _invisible(parts: Parts) -> Iterator[str]:
    found = sorted({char for char in js_trim(parts.given) if unicodedata.category(char) in INVISIBLE_KINDS})
    if found:
        yield f"It holds characters nobody sees ({', '.join(f'U+{ord(char):04X}' for char in found)}); remove them."


def _unicode_form(parts: Parts) -> Iterator[str]:
    composed = unicodedata.normalize("NFC", parts.normalised)
    compatible = unicodedata.normalize("NFKC", parts.normalised)
    if composed != parts.normalised:
        yield f"Its letters are decomposed (not NFC); {composed!a} looks the same and has another key."
    elif compatible != composed:
        yield f"It holds compatibility forms (wide or styled characters); {compatible!r} has another key."


def _mixed_script(parts: Parts) -> Iterator[str]:
    for piece in re.split(r"[@.\s+_-]", parts.core):
        scripts = {unicodedata.name(char, "").split(" ")[0] for char in piece if char.isalpha()} & _LOOK_ALIKE_SCRIPTS
        if len(scripts) > 1:
            mixed = " and ".join(sorted(script.capitalize() for script in scripts))
            yield f"{piece!r} mixes {mixed} letters, which look alike; written in one script it has another key."


def _several(parts: Parts) -> Iterator[str]:
    if parts.given.count("@") > 1 and re.search(r"[,;]", parts.given):
        yield "It reads like several recipients; make one send, with its own key, for each."


# E-mail addresses.


def _plus_tag(parts: Parts) -> Iterator[str]:
    plain, plus, tag = parts.local.partition("+")
    if plus and plain:
        yield (
            f"With the tag {plus + tag!r} it has its own key; many providers deliver it to "
            f"{plain + '@' + parts.domain!r}."
        )


def _gmail_dots(parts: Parts) -> Iterator[str]:
    plain = parts.local.partition("+")[0].replace(".", "")
    if parts.domain in _GMAIL and "." in parts.local.partition("+")[0]:
        yield f"Gmail ignores dots: {plain + '@' + parts.domain!r} is the same mailbox, with another key."


def _googlemail(parts: Parts) -> Iterator[str]:
    if parts.domain in _GMAIL:
        other = _GMAIL[1 - _GMAIL.index(parts.domain)]
        yield f"{parts.local + '@' + other!r} is the same mailbox, with another key."


def _trailing_dot(parts: Parts) -> Iterator[str]:
    if parts.domain.endswith("."):
        yield f"The dot at the end is part of the key; pass {parts.local + '@' + parts.domain.rstrip('.')!r}."


def _idn(parts: Parts) -> Iterator[str]:
    if not parts.domain.isascii():
        yield f"The domain can also be written {_to_punycode(parts.domain)!r}, which has another key."


def _punycode(parts: Parts) -> Iterator[str]:
    readable = _from_punycode(parts.domain)
    if readable not in (None, parts.domain):
        yield f"The domain can also be written {readable!r}, which has another key."


def _quoted_local(parts: Parts) -> Iterator[str]:
    found = re.match(r'"([A-Za-z0-9.+_-]+)"\Z', parts.local)
    if found:
        yield f"{found[1] + '@' + parts.domain!r} is the same mailbox (RFC 5321, 4.1.2), with another key."


def _to_punycode(domain: str) -> str:
    labels = unicodedata.normalize("NFC", domain).split(".")
    return ".".join(
        label if label.isascii() else "xn--" + label.encode("punycode", "replace").decode("ascii") for label in labels
    )


def _from_punycode(domain: str) -> str | None:
    try:
        return ".".join(
            label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else label
            for label in domain.split(".")
        )
    except UnicodeError:
        return None  # not punycode, whatever it starts with


# Telephone numbers.


def _trunk_zero(parts: Parts) -> Iterator[str]:
    if re.search(r"\(\s*0\s*\)", parts.core):
        yield 'The zero of "(0)" is part of the key; it is not dialled from abroad. Pass the number without it.'


def _international_prefix(parts: Parts) -> Iterator[str]:
    number = bare_number(parts.core)
    found = _INTERNATIONAL_PREFIX.match(number)
    if found:
        yield f"{found[0]!r} stands for +: {'+' + number[found.end() :]!r} is the same number, with another key."


def _no_country_code(parts: Parts) -> Iterator[str]:
    number = bare_number(parts.core)
    if not number.startswith("+") and not _INTERNATIONAL_PREFIX.match(number):
        yield (
            "Without + and country code it has another key than the full number. Keep numbers in E.164, "
            "as in +4930123456."
        )


def _extension(parts: Parts) -> Iterator[str]:
    if EXTENSION.search(parts.core):
        yield "The extension keeps it from being read as a number: spaces and dashes stay in the key. Pass it without."


def _unusual_digits(parts: Parts) -> Iterator[str]:
    if any(char.isdecimal() and not char.isascii() for char in parts.core):
        yield (
            f"Its digits are not 0 to 9, so the key has it as it stands; {bare_number(parts.core)!r} has another key."
        )


def _unusual_dashes(parts: Parts) -> Iterator[str]:
    if any(not char.isascii() and dialled(char) in (PLAIN_DASH, "+") for char in parts.core):
        yield (
            "It holds dashes or a plus that are not the keyboard's, so the key has it as it stands; "
            f"{bare_number(parts.core)!r} has another key."
        )


_Checks = tuple[tuple[str, Check], ...]

_CHECKS_ALWAYS: Final[_Checks] = (
    ("trimmed", _trimmed),
    ("scheme", _scheme),
    ("display_name", _display_name),
    ("angle_brackets", _angle_brackets),
    ("several", _several),
    ("invisible", _invisible),
    ("unicode_form", _unicode_form),
    ("mixed_script", _mixed_script),
)
_CHECKS_EMAIL: Final[_Checks] = (
    ("lower_cased", _lower_cased),
    ("plus_tag", _plus_tag),
    ("gmail_dots", _gmail_dots),
    ("googlemail", _googlemail),
    ("trailing_dot", _trailing_dot),
    ("idn", _idn),
    ("punycode", _punycode),
    ("quoted_local", _quoted_local),
)
_CHECKS_PHONE: Final[_Checks] = (
    ("punctuation_removed", _punctuation_removed),
    ("minus_removed", _minus_removed),
    ("dots_removed", _dots_removed),
    ("trunk_zero", _trunk_zero),
    ("international_prefix", _international_prefix),
    ("no_country_code", _no_country_code),
    ("extension", _extension),
    ("unusual_digits", _unusual_digits),
    ("unusual_dashes", _unusual_dashes),
)
_CHECKS_OTHER: Final[_Checks] = (("case_may_matter", _case_may_matter),)
_CHECKS_BY_KIND: Final = {"email": _CHECKS_EMAIL, "phone": _CHECKS_PHONE, "other": _CHECKS_OTHER}
