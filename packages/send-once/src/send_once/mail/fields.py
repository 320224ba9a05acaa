"""The header fields of a message as values: what the caller meant, whichever way it was stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import InvalidHeaderDefect
from email.headerregistry import BaseHeader, HeaderRegistry
from email.message import EmailMessage, Message
from email.policy import EmailPolicy
from typing import Any, Final, TypeAlias

from send_once.errors import InvalidInputError
from send_once.mail.addresses import has_controls
from send_once.mail.words import merge_words

Part: TypeAlias = "Message[Any, Any]"
"""A message or one of its parts. Any: the two parameters exist in the type stubs only."""

_NAME: Final = re.compile(r"[!-9;-~]+")
_FOLD: Final = re.compile(r"\r?\n(?=[ \t])")
_registry = HeaderRegistry()

HIDDEN: Final = frozenset({"bcc", "resent-bcc"})
"""Never transmitted: they name recipients to the others."""


@dataclass(frozen=True, slots=True)
class Field:
    """One header field. `header` is the standard library's view of the value: a `str` (decoded,
    unfolded) that also has `groups`, `params` … where the field has such parts. Any: typeshed
    describes these only in part."""

    name: str
    header: Any

    @property
    def lower(self) -> str:
        return self.name.lower()


def require_email_message(message: object) -> EmailMessage:
    """`message` itself; refuses what has no typed headers (`email.mime.*`, policy compat32)."""
    if not isinstance(message, EmailMessage) or not isinstance(message.policy, EmailPolicy):
        raise InvalidInputError(
            "message: must be an email.message.EmailMessage with an EmailPolicy (its default). "
            "Parse older messages with email.message_from_bytes(raw, policy=email.policy.default).",
            field="message",
        )
    return message


def fields_of(part: Part) -> Iterator[Field]:
    """The fields in order. Raises InvalidInputError for a name or value that would inject, break or
    lose a field."""
    for name, value in part.raw_items():
        _check_name(name)
        yield Field(name, _typed(name, value))


def field_named(name: str, value: str) -> Field:
    """A field out of unfolded header text. Raises InvalidInputError where it cannot be parsed."""
    try:
        return Field(name, _registry(name, merge_words(value)))
    except Exception as error:  # the standard library's parser raises IndexError and others on odd input
        raise InvalidInputError(f"{name}: {value!r} cannot be parsed ({error}). Set it anew.", field=name) from error


def check_text(name: str, text: str) -> None:
    """Raises InvalidInputError naming the field for text that would not stay inside it."""
    if has_controls(text.replace("\t", "")):
        raise InvalidInputError(
            f"{name}: holds a line break or another control character, which could become another header. Remove it.",
            field=name,
        )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name!r} is no header name: only printable ASCII without colon and space (RFC 5322 3.6.8). Part of it "
            "would become another header.",
            field=name,
        )


def _typed(name: str, value: object) -> BaseHeader:
    text = _FOLD.sub("", str(value))
    header = value if isinstance(value, BaseHeader) else field_named(name, _decodable(name, text).lstrip(" \t")).header
    check_text(name, text)
    check_text(name, str(header))
    _check_defects(name, header)
    return header


def _check_defects(name: str, header: BaseHeader) -> None:
    """Where addresses or parameters are malformed, the parser has guessed, and dropped what it could not place."""
    structured = hasattr(header, "groups") or hasattr(header, "params")
    wrong = [defect for defect in header.defects if isinstance(defect, InvalidHeaderDefect)]
    if structured and wrong:
        raise InvalidInputError(
            f"{name}: {str(header)!r} is malformed ({wrong[0]}). Set it anew; names that hold commas or other special "
            "characters must be quoted, as email.headerregistry.Address(display_name=…, addr_spec=…) does.",
            field=name,
        )


def _decodable(name: str, text: str) -> str:
    """Raw 8-bit header octets are taken for UTF-8 (RFC 6532), and for nothing else."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError as error:
        raise InvalidInputError(f"{name}: holds octets that are not UTF-8. Set the header anew.", field=name) from error
