"""A message, or one part of it, as bytes: fields, an empty line, content; parts of parts likewise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from email.headerregistry import BaseHeader
from email.message import Message
from email.policy import EmailPolicy
from typing import Final

from send_once.errors import InvalidInputError
from send_once.mail.bodies import LINE_OCTETS_MAX, Content, encoding_of, leaf_content
from send_once.mail.fields import HIDDEN, Field, Part, field_named, fields_of
from send_once.mail.headers import content_type_bytes, field_bytes
from send_once.mail.wire import crlf_line_ends

_ENCODING: Final = "content-transfer-encoding"
_DIGEST_CHARS: Final = 40
_GROUPS_OF_FIELDS: Final = "delivery-status"
"""RFC 3464 2.1: groups of fields with an empty line between two of them, and no body."""


def entity_bytes(part: Part) -> bytes:
    """`part` as it will go out. The same part gives the same bytes every time: a missing multipart
    boundary is made from the content, not from chance."""
    if part.get_content_maintype() == "multipart":
        return _multipart_bytes(part)
    if part.get_content_maintype() == "message" and part.is_multipart():
        content = Content(_enclosed_bytes(part), None if encoding_of(part) == "7bit" else "7bit")
    else:
        content = leaf_content(part)
    return b"".join(_leaf_fields(part, content.encoding)) + b"\r\n" + content.octets


def _leaf_fields(part: Part, encoding: str | None) -> Iterator[bytes]:
    for field in _sent_fields(part):
        if encoding is None or field.lower != _ENCODING:
            yield field_bytes(field)
    if encoding is not None:
        yield field_bytes(field_named("Content-Transfer-Encoding", encoding))


def _multipart_bytes(part: Part) -> bytes:
    make = _signed_bytes if part.get_content_subtype() == "signed" else entity_bytes
    parts = [make(inner) for inner in _parts_of(part)]
    boundary = part.get_boundary() or _boundary_for(parts)
    _check_boundary(boundary, parts)
    mark = b"--" + boundary.encode("ascii")
    # The CRLF before a boundary belongs to the boundary (RFC 2046 5.1.1), so it is always added.
    body = b"".join(mark + b"\r\n" + inner + b"\r\n" for inner in parts)
    return b"".join(_multipart_fields(part, boundary)) + b"\r\n" + body + mark + b"--\r\n"


def _multipart_fields(part: Part, boundary: str) -> Iterator[bytes]:
    """A multipart itself is never encoded (RFC 2045 6.4), and all its parts are 7-bit here."""
    for field in _sent_fields(part):
        if field.lower == "content-type":
            yield content_type_bytes(field, boundary)
        elif field.lower != _ENCODING:
            yield field_bytes(field)


def _sent_fields(part: Part) -> Iterator[Field]:
    return (field for field in fields_of(part) if field.lower not in HIDDEN)


def _parts_of(part: Part) -> list[Part]:
    payload = part.get_payload()
    if not isinstance(payload, list) or not payload:
        raise InvalidInputError(
            f"message: {part.get_content_type()} has no parts. Use set_content(), add_alternative(), add_attachment().",
            field="message",
        )
    return [inner for inner in payload if isinstance(inner, Message)]


def _signed_bytes(part: Part) -> bytes:
    """A part a signature covers: as it was written, or not at all."""
    raw = _as_written(part)
    if raw is None:
        raise InvalidInputError(
            "message: a part of multipart/signed cannot be sent as it is (8-bit, or a line beyond 998 octets), and any "
            "change would break its signature. Encode it as quoted-printable or base64 before signing.",
            field="message",
        )
    return raw


def _enclosed_bytes(part: Part) -> bytes:
    """What a message/* part encloses: a forwarded message, the groups of a delivery status. What came
    from outside stays as it was written; its oddities are not ours to mend."""
    enclosed = [_foreign_bytes(inner) for inner in _parts_of(part)]
    if part.get_content_subtype() != _GROUPS_OF_FIELDS:
        return b"".join(enclosed)
    return b"\r\n".join(group.removesuffix(b"\r\n") for group in enclosed)


def _foreign_bytes(inner: Part) -> bytes:
    is_ours = any(isinstance(value, BaseHeader) for _, value in inner.raw_items())
    raw = None if is_ours else _as_written(inner)
    return entity_bytes(inner) if raw is None else raw


def _as_written(part: Part) -> bytes | None:
    """The part untouched but for its line ends, if it may travel like that."""
    policy = part.policy.clone(linesep="\r\n")
    if isinstance(policy, EmailPolicy):
        policy = policy.clone(refold_source="none")
    raw = crlf_line_ends(part.as_bytes(policy=policy))
    fits = raw.isascii() and b"\0" not in raw and all(len(line) <= LINE_OCTETS_MAX for line in raw.split(b"\r\n"))
    return raw if fits else None


def _boundary_for(parts: list[bytes]) -> str:
    """ "=_" can stand in neither quoted-printable nor base64 (RFC 2045 6.7)."""
    return "=_" + hashlib.sha256(b"\0".join(parts)).hexdigest()[:_DIGEST_CHARS]


def _check_boundary(boundary: str, parts: list[bytes]) -> None:
    if not boundary.isascii() or any(b"--" + boundary.encode("ascii") in inner for inner in parts):
        raise InvalidInputError(
            f"message: the multipart boundary {boundary!r} also stands in a part, or is not ASCII. Leave it out of "
            "Content-Type; one that fits is chosen.",
            field="Content-Type",
        )
