"""Reading message bytes back, by the rules of RFC 5322 and no others: for the check before hand-off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from send_once.errors import InvalidInputError
from send_once.mail.comments import names_with_comments
from send_once.mail.domains import ascii_domain
from send_once.mail.fields import Field, field_named
from send_once.mail.headers import is_plain

MADE_ANEW: Final = frozenset({"content-transfer-encoding"})
"""Chosen while writing; its effect is compared instead."""


@dataclass(frozen=True, slots=True)
class RawField:
    """A field as it stands in the bytes: its lines, and the same unfolded."""

    name: str
    lines: tuple[str, ...]

    @property
    def lower(self) -> str:
        return self.name.lower()

    @property
    def value(self) -> str:
        return "".join(self.lines).partition(":")[2].removeprefix(" ")


def raw_fields(raw: bytes) -> Iterator[RawField]:
    """The fields of the header, in order. Raises ValueError for a line that is none."""
    head = raw.partition(b"\r\n\r\n")[0].decode("utf-8")
    block: list[str] = []
    for line in head.split("\r\n"):
        if line[:1] in (" ", "\t") and block:
            block.append(line)
            continue
        if block:
            yield _field(block)
        block = [line]
    yield _field(block)


def meaning(field: Field) -> object:
    """What must be the same in the message and in its bytes: addresses with names, a type with its
    parameters, or the text."""
    if hasattr(field.header, "groups"):
        return _addresses(field)
    if hasattr(field.header, "params"):
        params = {name: text for name, text in field.header.params.items() if name != "boundary"}
        return _kind(field.header), tuple(sorted(params.items()))
    return str(field.header).strip(" \t") if is_plain(field) else str(field.header)


def parsed(raw_field: RawField) -> Field:
    return field_named(raw_field.name, raw_field.value)


def addresses_of(field: Field) -> list[str]:
    """The addresses in comparable form."""
    return [comparable(f"{a.username}@{a.domain}") for a in getattr(field.header, "addresses", ())]


def comparable(address: str) -> str:
    """Domain as A-labels and in lower case; the local part as it is, but for its quotes."""
    local, _, domain = address.rpartition("@")
    if local.startswith('"') and local.endswith('"'):
        local = local[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    try:
        return f"{local}@{ascii_domain(domain, field='domain').lower()}"
    except InvalidInputError:
        return f"{local}@{domain.lower()}"


def _addresses(field: Field) -> tuple[object, ...]:
    names = tuple(names_with_comments(field))
    groups = tuple((group.display_name, len(group.addresses)) for group in field.header.groups)
    return groups, names, tuple(addresses_of(field))


def _kind(header: Any) -> str:
    """Any: Content-Type and Content-Disposition keep their first word under different names."""
    kind = getattr(header, "content_type", None) or getattr(header, "content_disposition", None)
    return str(kind).lower()


def _field(block: list[str]) -> RawField:
    name, colon, _ = block[0].partition(":")
    if not colon or not name or name != name.strip():
        raise ValueError(f"{block[0][:40]!r} is no header field")
    return RawField(name, tuple(block))
