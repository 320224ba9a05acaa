"""A header field as the bytes that go out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from send_once.errors import InvalidInputError
from send_once.mail.addresses import ATOM, is_local_part, quoted
from send_once.mail.comments import names_with_comments
from send_once.mail.domains import ascii_domain
from send_once.mail.fields import Field
from send_once.mail.folding import LINE_CHARS, Piece, folded, unstructured, words
from send_once.mail.words import ENCODED_WORD

VERBATIM: Final = frozenset(
    {
        "message-id",
        "in-reply-to",
        "references",
        "resent-message-id",
        "content-id",
        "date",
        "resent-date",
        "mime-version",
        "content-transfer-encoding",
        "return-path",
        "received",
        "dkim-signature",
        "auto-submitted",
    }
)
"""ASCII by their grammar (RFC 5322 3.6): never encoded, broken only at white space they have."""
_LIST_PREFIX: Final = "list-"
_LIST_WITH_PHRASE: Final = "list-id"
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`{|}~-]+")
_RFC2231_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$&+-.^_`{|}~")
_SEGMENT_CHARS: Final = 54


def field_bytes(field: Field) -> bytes:
    """The field, folded, with CRLF. UTF-8 only inside an address whose local part needs SMTPUTF8.

    Raises InvalidInputError naming the field where it cannot be written without changing it.
    """
    return _field_text(field).encode()


def content_type_bytes(field: Field, boundary: str) -> bytes:
    """A multipart's Content-Type with `boundary` in it."""
    return _with_params(field, {**field.header.params, "boundary": boundary}).encode()


def is_whole(field: Field) -> bool:
    """List-Unsubscribe and its kin: on one line, since Gmail ignores an encoded one and folding
    has broken DKIM signatures of others (RFC 2369 section 2 asks for plain URLs)."""
    return field.lower.startswith(_LIST_PREFIX) and field.lower != _LIST_WITH_PHRASE


def is_plain(field: Field) -> bool:
    """Written as it is, without encoding."""
    return is_whole(field) or field.lower in VERBATIM


def _field_text(field: Field) -> str:
    if hasattr(field.header, "groups"):
        return folded(field.name, _address_pieces(field))
    if hasattr(field.header, "params"):
        return _with_params(field, field.header.params)
    if is_whole(field):
        return f"{field.name}: {_plain(field)}\r\n"
    if field.lower in VERBATIM:
        return folded(field.name, words(_plain(field)))
    return folded(field.name, unstructured(str(field.header)))


def _plain(field: Field) -> str:
    text = str(field.header).strip(" \t")
    if not text.isascii():
        raise InvalidInputError(
            f"{field.name}: holds a non-ASCII character. Encoded, it would no longer be read as what it is; write "
            "URLs percent-encoded and domains as xn--….",
            field=field.name,
        )
    return text


def _address_pieces(field: Field) -> Iterator[Piece]:
    """All addresses, a comma behind each but the last of its list; groups as `name: …;`."""
    names = iter(names_with_comments(field))
    groups = field.header.groups
    for index, group in enumerate(groups):
        end = "," if index + 1 < len(groups) else ""
        if group.display_name is None:
            yield from _mailbox(field, group.addresses[0], next(names), end)
            continue
        yield from _phrase(group.display_name, ":" if group.addresses else f":;{end}")
        for count, address in enumerate(group.addresses, 1):
            yield from _mailbox(field, address, next(names), "," if count < len(group.addresses) else f";{end}")


def _mailbox(field: Field, address: Any, name: str, end: str) -> Iterator[Piece]:
    spec = addr_spec(address, field=field.name)
    if not name:
        yield Piece(spec + end)
        return
    yield from _phrase(name)
    yield Piece(f"<{spec}>{end}")


def addr_spec(address: Any, *, field: str) -> str:
    """`local@domain` of a header's address, the local part quoted if need be and never encoded, the
    domain in ASCII. Any: an Address as the standard library parses it."""
    if not address.username or not address.domain:
        raise InvalidInputError(
            f"{field}: {str(address)!r} is no address. A name with a comma or another special character must be "
            "quoted: use email.headerregistry.Address(display_name=…, addr_spec=…).",
            field=field,
        )
    local = address.username if is_local_part(address.username) else quoted(address.username)
    domain = address.domain if address.domain.startswith("[") else ascii_domain(address.domain, field=field)
    return f"{local}@{domain}"


def _phrase(name: str, end: str = "") -> Iterator[Piece]:
    """A display name: atoms, else a quoted string, else encoded words. Never with the address inside."""
    if not name.isascii() or ENCODED_WORD.search(name):
        yield Piece(name, encoded=True)
        if end:
            yield Piece(end)
    elif all(ATOM.fullmatch(word) for word in name.split(" ")):
        yield from words(name + end)
    else:
        yield Piece(quoted(name) + end)


def _with_params(field: Field, params: Mapping[str, str]) -> str:
    value = getattr(field.header, "content_type", None) or getattr(field.header, "content_disposition", None)
    pieces = [part for name, text in params.items() for part in _param(name, text)]
    ends = [";"] * len(pieces) + [""]
    return folded(field.name, (Piece(text + end) for text, end in zip([str(value), *pieces], ends, strict=True)))


def _param(name: str, value: str) -> list[str]:
    """A MIME parameter; non-ASCII after RFC 2231, in sections where it is long."""
    if value.isascii() and not ENCODED_WORD.search(value):
        return [f"{name}={value if _TOKEN.fullmatch(value) else quoted(value)}"]
    octets = [chr(o) if o in _RFC2231_SAFE else f"%{o:02X}" for o in value.encode()]
    if len(name) + sum(map(len, octets)) + len(" *=utf-8'';") <= LINE_CHARS:
        return [f"{name}*=utf-8''{''.join(octets)}"]
    size = _SEGMENT_CHARS // 3
    sections = ["".join(octets[at : at + size]) for at in range(0, len(octets), size)]
    return [f"{name}*{n}*={text}" for n, text in enumerate(["utf-8''" + sections[0], *sections[1:]])]
