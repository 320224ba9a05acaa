"""The check of a message's bytes, right before they are handed over.

It reads the bytes as a receiver would and compares them with the message. What it reports as an
error would reach someone else, break at a server on the way, or arrive changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default as default_policy
from typing import Any, Final

from send_once.errors import InvalidInputError
from send_once.mail.addresses import envelope_address
from send_once.mail.bodies import ENCODED_LINE_OCTETS_MAX, LINE_OCTETS_MAX, encoding_of, is_lines
from send_once.mail.fields import HIDDEN, Field, Part, fields_of, require_email_message
from send_once.mail.findings import Finding, error, warning
from send_once.mail.headers import is_whole
from send_once.mail.reading import MADE_ANEW, RawField, addresses_of, comparable, meaning, parsed, raw_fields
from send_once.mail.wire import crlf_line_ends
from send_once.mail.words import WORD_CHARS_MAX, decode_word

REQUIRED: Final = ("From", "To", "Date", "Message-ID", "Subject", "MIME-Version")
_REMEDIES: Final = {
    "message-id": "Set it to derive_message_id(key, domain).",
    "date": "Set it to email.utils.localtime().",
    "mime-version": "Use set_content(), which adds it.",
}
SINGLE: Final = frozenset(
    {
        "date",
        "from",
        "sender",
        "reply-to",
        "to",
        "cc",
        "bcc",
        "message-id",
        "in-reply-to",
        "references",
        "subject",
        "mime-version",
        "content-type",
        "content-transfer-encoding",
        "content-disposition",
        "content-id",
        "list-unsubscribe",
        "list-unsubscribe-post",
        "list-id",
    }
)
"""At most once: RFC 5322 3.6, RFC 2045, RFC 2369, RFC 8058."""

_RECIPIENT_FIELDS: Final = frozenset({"to", "cc", "bcc", "resent-to", "resent-cc", "resent-bcc"})
_MSG_ID: Final = re.compile(r"<[^\s<>@]+@[^\s<>@]+>")
_WORD: Final = re.compile(r"=\?[^?\s]+\?[bBqQ]\?[^?\s]*\?=")
_MAY_PRECEDE_WORD: Final = (" ", "\t", "(")
_MAY_FOLLOW_WORD: Final = ("", " ", "\t", ")")
_BARE_LINE_END: Final = re.compile(rb"\r(?!\n)|(?<!\r)\n")


def check(raw: bytes, *, to: str, message: EmailMessage) -> tuple[Finding, ...]:
    """What is wrong with `raw`, the bytes of `message` for the one recipient `to`. Empty if nothing is.

    Never raises for what it finds in `raw`; InvalidInputError if `to` or `message` cannot be used.
    """
    address = envelope_address(to, field="to")
    meant = list(fields_of(require_email_message(message)))
    try:
        found = list(raw_fields(raw))
    except ValueError as problem:
        return (error("broken_header", None, f"The header cannot be read back: {problem}."),)
    return (
        *_octets(raw),
        *_lines(found),
        *_encoded_words(found),
        *_header_set(found),
        *_same_fields(meant, found),
        *_senders(meant),
        *_recipients(meant, comparable(str(address))),
        *_unsubscribe(found),
        *_bodies(message, BytesParser(policy=default_policy).parsebytes(raw)),
    )


def _octets(raw: bytes) -> Iterator[Finding]:
    if _BARE_LINE_END.search(raw):
        yield error("bare_line_end", None, "A CR or LF stands alone; only some servers take it for a line end.")
    if b"\0" in raw:
        yield error("nul", None, "A NUL octet, which servers refuse or cut at.")
    if any(len(line) > LINE_OCTETS_MAX for line in raw.partition(b"\r\n\r\n")[2].split(b"\r\n")):
        yield error("long_line", None, f"A body line is longer than {LINE_OCTETS_MAX} octets (RFC 5322 2.1.1).")


def _lines(found: list[RawField]) -> Iterator[Finding]:
    for field in found:
        if any(len(line.encode()) > LINE_OCTETS_MAX for line in field.lines):
            yield error(
                "long_line",
                field.name,
                f"{field.name}: a line is longer than {LINE_OCTETS_MAX} octets and has no space to break it at.",
            )
        if any(not line.strip() for line in field.lines[1:]):
            yield error("blank_line", field.name, f"{field.name}: a line of white space only, which ends some headers.")


def _encoded_words(found: list[RawField]) -> Iterator[Finding]:
    """RFC 2047 sections 2 and 5: 75 a word, 76 a line, whole characters, white space on both sides."""
    for field in found:
        if any(_has_bad_word(line) for line in field.lines):
            yield error(
                "encoded_word",
                field.name,
                f"{field.name}: an encoded word is too long, touches its neighbour or cuts a character.",
            )


def _has_bad_word(line: str) -> bool:
    matches = list(_WORD.finditer(line))
    if matches and len(line) > WORD_CHARS_MAX + 1:
        return True
    return any(
        len(match.group()) > WORD_CHARS_MAX
        or line[match.start() - 1 : match.start()] not in _MAY_PRECEDE_WORD
        or line[match.end() : match.end() + 1] not in _MAY_FOLLOW_WORD
        or decode_word(match.group()) is None
        for match in matches
    )


def _header_set(found: list[RawField]) -> Iterator[Finding]:
    counts = Counter(field.lower for field in found)
    for name in REQUIRED:
        if not counts[name.lower()]:
            remedy = _REMEDIES.get(name.lower(), "")
            yield error("missing_header", name, f"{name} is missing. {remedy}".rstrip())
    for name, count in counts.items():
        if count > 1 and name in SINGLE:
            yield error("duplicate_header", name, f"{name} stands {count} times; receivers choose differently.")
        if name in HIDDEN:
            yield error("hidden_header", name, f"{name} would show its recipients to the others.")
    yield from (finding for field in found for finding in _odd_values(field))


def _odd_values(field: RawField) -> Iterator[Finding]:
    if field.lower in ("from", "to", "date") and not field.value.strip():
        yield error("empty_header", field.name, f"{field.name} is empty.")
    if field.lower == "message-id" and not _MSG_ID.fullmatch(field.value.strip()):
        yield error("message_id", field.name, f"Message-ID {field.value!r} is not like <left@right> (RFC 5322 3.6.4).")


def _same_fields(meant: list[Field], found: list[RawField]) -> Iterator[Finding]:
    """Every field of the message is there, in its order and unchanged, and no other."""
    left = _by_name((field.lower, field) for field in meant if field.lower not in HIDDEN | MADE_ANEW)
    right = _by_name((field.lower, field) for field in found if field.lower not in HIDDEN | MADE_ANEW)
    for name in left.keys() - right.keys():
        yield error("lost_header", left[name][0].name, f"{left[name][0].name} was lost.")
    for name in right.keys() - left.keys():
        yield error("injected_header", right[name][0].name, f"{right[name][0].name} is not in the message.")
    for name in left.keys() & right.keys():
        if [_meaning_or_none(field) for field in left[name]] != [_read(field) for field in right[name]]:
            yield error("changed_header", left[name][0].name, f"{left[name][0].name} would arrive changed.")


def _by_name(pairs: Any) -> dict[str, list[Any]]:
    """Any: the same grouping for the fields of the message and for those of the bytes."""
    grouped: dict[str, list[Any]] = {}
    for name, field in pairs:
        grouped.setdefault(name, []).append(field)
    return grouped


def _meaning_or_none(field: Field) -> object:
    try:
        return meaning(field)
    except InvalidInputError:
        return None


def _read(raw_field: RawField) -> object:
    """A List-Unsubscribe is compared as it stands: whoever reads it does not decode it."""
    try:
        field = parsed(raw_field)
    except InvalidInputError:
        return object()
    return raw_field.value.strip(" \t") if is_whole(field) else _meaning_or_none(field)


def _senders(meant: list[Field]) -> Iterator[Finding]:
    authors = [address for field in meant if field.lower == "from" for address in addresses_of(field)]
    if len(authors) > 1 and not any(field.lower == "sender" for field in meant):
        yield error("sender", "Sender", "From names several authors; Sender must say who of them sends it.")


def _recipients(meant: list[Field], to: str) -> Iterator[Finding]:
    named = [address for field in meant if field.lower in _RECIPIENT_FIELDS for address in addresses_of(field)]
    if to not in named:
        yield error(
            "recipient",
            "To",
            f"To, Cc and Bcc do not name the recipient {to}. Bcc is enough; it is not transmitted.",
        )
    others = sorted({address for address in named if address != to})
    if others:
        yield warning(
            "other_recipients",
            "To",
            f"Only {to} gets this copy; {', '.join(others)} must be sent theirs, each under a key of its own.",
        )


def _unsubscribe(found: list[RawField]) -> Iterator[Finding]:
    values = {field.lower: field.value for field in found if field.lower.startswith("list-unsubscribe")}
    if "list-unsubscribe-post" in values and "<https://" not in values.get("list-unsubscribe", "").lower():
        yield error(
            "one_click",
            "List-Unsubscribe",
            "List-Unsubscribe-Post needs an https address in List-Unsubscribe (RFC 8058 section 3.1).",
        )


def _bodies(message: EmailMessage, back: EmailMessage) -> Iterator[Finding]:
    meant, found = list(message.walk()), list(back.walk())
    if [part.get_content_type() for part in meant] != [part.get_content_type() for part in found]:
        yield error("structure", None, "The parts of the body would arrive as other parts.")
        return
    for part, twin in zip(meant, found, strict=True):
        if not _is_same(part, twin):
            yield error("changed_body", None, f"A part of type {part.get_content_type()} would arrive changed.")
        if _has_long_encoded_line(twin):
            yield error("long_encoded_line", None, f"An encoded line is over {ENCODED_LINE_OCTETS_MAX} characters.")


def _is_same(part: Part, twin: Part) -> bool:
    """Whether the decoded contents are equal; where line ends are the transport's, but for those."""
    left, right = _octets_of(part), _octets_of(twin)
    if is_lines(part) or (_is_plain(part) and _is_plain(twin)):
        return crlf_line_ends(left).rstrip(b"\r\n") == crlf_line_ends(right).rstrip(b"\r\n")
    return left == right


def _octets_of(part: Part) -> bytes:
    octets = None if part.is_multipart() else part.get_payload(decode=True)
    return octets if isinstance(octets, bytes) else b""


def _is_plain(part: Part) -> bool:
    return encoding_of(part) in ("7bit", "8bit")


def _has_long_encoded_line(part: Part) -> bool:
    payload = part.get_payload()
    if encoding_of(part) not in ("quoted-printable", "base64") or not isinstance(payload, str):
        return False
    return any(len(line) > ENCODED_LINE_OCTETS_MAX for line in payload.splitlines())
