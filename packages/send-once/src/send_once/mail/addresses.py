"""One address of an SMTP envelope (RFC 5321 4.1.2): checked, and ready for the wire."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from send_once.errors import InvalidInputError
from send_once.mail.domains import ascii_domain

LOCAL_PART_OCTETS_MAX: Final = 64
PATH_OCTETS_MAX: Final = 254
"""RFC 5321 4.5.3.1.3 allows 256 with the angle brackets."""

_ATEXT: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\U0010ffff-]"
DOT_ATOM: Final = re.compile(rf"{_ATEXT}+(?:\.{_ATEXT}+)*")
ATOM: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+")
_QUOTED: Final = re.compile(r'"(?:[ !#-\[\]-~\u0080-\U0010ffff]|\\[ -~])*"')
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class EnvelopeAddress:
    """The local part as given (never converted: that would be another mailbox) and the domain in ASCII."""

    local: str
    domain: str

    @property
    def needs_smtputf8(self) -> bool:
        return not self.local.isascii()

    def __str__(self) -> str:
        return f"{self.local}@{self.domain}"


def envelope_address(text: str, *, field: str) -> EnvelopeAddress:
    """The one bare address `ana@example.com` in `text`.

    Raises InvalidInputError naming `field` for anything else: a display name, several addresses,
    line breaks, spaces, angle brackets, parts that are too long.
    """
    local, at, domain = text.strip(" ").rpartition("@") if isinstance(text, str) else ("", "", "")
    if not at or not is_local_part(local):
        raise InvalidInputError(
            f"{field}: {text!r} is not one bare address like ana@example.com. Leave out names, angle brackets and "
            "line breaks; send to several recipients one by one.",
            field=field,
        )
    address = EnvelopeAddress(local, _domain_or_literal(domain, field))
    if len(local.encode()) > LOCAL_PART_OCTETS_MAX or len(str(address).encode()) > PATH_OCTETS_MAX:
        raise InvalidInputError(
            f"{field}: the address is too long (at most {LOCAL_PART_OCTETS_MAX} octets before the @ and "
            f"{PATH_OCTETS_MAX} in all).",
            field=field,
        )
    return address


def has_controls(text: str) -> bool:
    """Whether `text` holds what no header or command may: controls, line separators, half characters."""
    return _CONTROLS.search(text) is not None


def is_local_part(local: str) -> bool:
    return not has_controls(local) and bool(DOT_ATOM.fullmatch(local) or _QUOTED.fullmatch(local))


def quoted(text: str) -> str:
    """`text` as an RFC 5322 quoted-string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _domain_or_literal(domain: str, field: str) -> str:
    if not (domain.startswith("[") and domain.endswith("]")):
        return ascii_domain(domain, field=field)
    try:
        ipaddress.ip_address(domain[1:-1].removeprefix("IPv6:"))
    except ValueError as error:
        raise InvalidInputError(f"{field}: {domain!r} is not an address literal.", field=field) from error
    return domain
