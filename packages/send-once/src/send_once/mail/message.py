"""A message as the bytes that go out, and the check of those bytes before they do.

`render` writes the headers and bodies itself, because the standard library's policies change or
break some of them (see `folding`, `bodies`). `check` knows nothing of how they were written: it
reads the bytes back and compares them with the message.
"""

from __future__ import annotations

from email.message import EmailMessage

from send_once.errors import InvalidInputError
from send_once.mail.addresses import EnvelopeAddress, envelope_address
from send_once.mail.checks import check
from send_once.mail.entities import entity_bytes
from send_once.mail.fields import fields_of, require_email_message
from send_once.mail.findings import Finding
from send_once.mail.headers import addr_spec
from send_once.mail.wire import with_crlf

__all__ = ["Finding", "check", "refuse_errors", "render", "render_checked", "sender_of"]


def render(message: EmailMessage, *, to: str, envelope_from: str) -> bytes:
    """`message` as the octets that will go out (with CRLF line ends, before the dots are doubled).

    Deterministic: the same message gives the same bytes, boundaries included. Bcc is left out.
    All 7-bit, but for addresses whose local part is not ASCII (SMTPUTF8). Raises
    InvalidInputError naming the header that cannot be written unchanged, or `to`, `envelope_from`.
    """
    envelope_address(to, field="to")
    return_path(envelope_from)
    return with_crlf(entity_bytes(require_email_message(message)))


def render_checked(message: EmailMessage, *, to: str, envelope_from: str) -> bytes:
    """`render`, and InvalidInputError for the first error that `check` finds in the result."""
    raw = render(message, to=to, envelope_from=envelope_from)
    refuse_errors(check(raw, to=to, message=message))
    return raw


def refuse_errors(findings: tuple[Finding, ...]) -> None:
    """Raise InvalidInputError if any finding is an error; it names the header and tells all of them."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise InvalidInputError(
            " · ".join(f"{finding.message} [{finding.code}]" for finding in errors) + " Nothing was sent.",
            field=errors[0].header or "message",
        )


def return_path(envelope_from: str) -> EnvelopeAddress | None:
    """The address bounces go to; None for the empty one (`<>`, RFC 5321 4.5.5)."""
    return None if envelope_from == "" else envelope_address(envelope_from, field="envelope_from")


def sender_of(message: EmailMessage) -> str:
    """The address of Sender, or the only one of From. Raises InvalidInputError if there is none."""
    fields = {field.lower: field for field in fields_of(require_email_message(message))}
    field = fields.get("sender") or fields.get("from")
    addresses = list(field.header.addresses) if field else []
    if field is None or len(addresses) != 1:
        raise InvalidInputError(
            "envelope_from: cannot be taken from the message, which has no Sender and not exactly one From address. "
            "Pass envelope_from.",
            field="envelope_from",
        )
    return addr_spec(addresses[0], field=field.name)
