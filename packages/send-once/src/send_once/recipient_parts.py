"""A recipient taken apart as a person would read it, for `describe_recipient`. The key does none of this."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Literal

from send_once.jstext import js_lower, js_trim
from send_once.keys import normalise_recipient

RecipientKind = Literal["email", "phone", "other"]

_SCHEME: Final = re.compile(r"(mailto|tel|sms|callto|whatsapp|xmpp|sip):", re.IGNORECASE)
_BRACKETS: Final = re.compile(r"(?P<name>[^<>]*)<(?P<inner>[^<>]*)>\Z")
_QUERY: Final = re.compile(r"\?.*\Z", re.DOTALL)
_PHONE: Final = re.compile(r"\+?[0-9]{7,}\Z")
EXTENSION: Final = re.compile(r"\s*(?:;\s*ext\s*=|ext\.?|x|#)\s*[0-9]+\Z", re.IGNORECASE)
PLAIN_DASH: Final = "-"
INVISIBLE_KINDS: Final = ("Cf", "Cc")
_NOT_FOUND: Final = -1


@dataclass(frozen=True, slots=True)
class Parts:
    """A recipient taken apart: `scheme` and `name` wrap the `core`; an e-mail core has `local` and `domain`."""

    given: str
    normalised: str
    scheme: str
    name: str
    brackets: bool
    core: str
    local: str
    domain: str


def taken_apart(given: str) -> Parts:
    rest = js_trim(given)
    wrapped = _BRACKETS.match(rest)
    name = js_trim(wrapped["name"]) if wrapped else ""
    rest = js_trim(wrapped["inner"]) if wrapped else rest
    scheme = _SCHEME.match(rest)
    core = _QUERY.sub("", rest[scheme.end() :]) if scheme else rest
    local, _, domain = core.rpartition("@")
    return Parts(
        given=given,
        normalised=normalise_recipient(given),
        scheme=scheme[1].lower() if scheme else "",
        name=name.strip('"'),
        brackets=wrapped is not None,
        core=core,
        local=local,
        domain=js_lower(domain),
    )


def kind_of(parts: Parts) -> RecipientKind:
    if parts.local and parts.domain and not _is_handle_or_url(parts):
        return "email"
    return "phone" if "@" not in parts.core and _PHONE.match(bare_number(parts.core)) else "other"


def _is_handle_or_url(parts: Parts) -> bool:
    """A Fediverse or Matrix handle, an XMPP address with a resource, a URL with a user name."""
    literal = parts.domain.startswith("[")
    return (
        parts.core.startswith("@")
        or "/" in parts.domain
        or "://" in parts.core
        or (":" in parts.domain and not literal)
    )


def bare_number(core: str) -> str:
    """The digits, as a person would dial them: any script's digits, no punctuation, no extension."""
    number = normalise_recipient("".join(dialled(char) for char in EXTENSION.sub("", core)))
    return number.removeprefix("-")


def dialled(char: str) -> str:
    """What a person would key in for a character: 0 to 9, `-`, `+`, nothing for the invisible, else itself."""
    digit = unicodedata.decimal(char, _NOT_FOUND)
    if digit != _NOT_FOUND:
        return str(digit)
    category = unicodedata.category(char)
    if category == "Pd" or char == "\u2212":
        return PLAIN_DASH
    if char == "\uff0b":
        return "+"
    return "" if category in INVISIBLE_KINDS else char
