"""What one transaction carries, what it needs of the server, and the commands that say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from send_once.errors import InvalidInputError
from send_once.mail.addresses import EnvelopeAddress, envelope_address
from send_once.mail.message import return_path
from send_once.mail.wire import with_crlf

_MESSAGE_ID: Final = re.compile(rb"^message-id:\s*(<[^>\s]+>)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Envelope:
    """One sender, one recipient, the message's octets with CRLF line ends."""

    sender: EnvelopeAddress | None
    recipient: EnvelopeAddress
    octets: bytes = field(repr=False)

    @property
    def message_id(self) -> str | None:
        """As the message's head says, angle brackets included; None where it says none."""
        found = _MESSAGE_ID.search(self._head)
        return found[1].decode("utf-8", "replace") if found else None

    @property
    def _head(self) -> bytes:
        return self.octets.partition(b"\r\n\r\n")[0]

    @property
    def needs_smtputf8(self) -> bool:
        addresses = [address for address in (self.sender, self.recipient) if address]
        return not self._head.isascii() or any(address.needs_smtputf8 for address in addresses)

    @property
    def needs_8bit(self) -> bool:
        return not self.octets.isascii()

    def obstacle(self, extensions: Mapping[str, str]) -> str | None:
        """Why a server with these extensions cannot take it, or None."""
        if self.needs_smtputf8 and "SMTPUTF8" not in extensions:
            return (
                "an address is not ASCII before its @, and the server does not offer SMTPUTF8 (RFC 6531). Ask for "
                "another address, or send through a server that offers it"
            )
        if self.needs_8bit and "8BITMIME" not in extensions:
            return "the message is 8-bit, and the server does not offer 8BITMIME (RFC 6152)"
        limit = _size_limit(extensions)
        if limit and len(self.octets) > limit:
            return f"the message has {len(self.octets)} octets, and the server takes at most {limit} (RFC 1870)"
        return None

    def mail_command(self, extensions: Mapping[str, str]) -> str:
        """MAIL with what the server offers and the message needs. `obstacle` has been asked before."""
        parameters = (
            f"SIZE={len(self.octets)}" if "SIZE" in extensions else "",
            "BODY=8BITMIME" if self.needs_8bit else "",
            "SMTPUTF8" if self.needs_smtputf8 else "",
        )
        return " ".join(filter(None, (f"MAIL FROM:<{self.sender or ''}>", *parameters)))


def make_envelope(raw: bytes, *, to: str, envelope_from: str) -> Envelope:
    """Raises InvalidInputError naming `to`, `envelope_from` or `raw`."""
    if not isinstance(raw, bytes) or not raw or b"\0" in raw:
        raise InvalidInputError("raw: must be the message's bytes, not empty and without NUL octets.", field="raw")
    return Envelope(return_path(envelope_from), envelope_address(to, field="to"), with_crlf(raw))


def _size_limit(extensions: Mapping[str, str]) -> int:
    """0 where the server names none (RFC 1870 section 4)."""
    limit = extensions.get("SIZE", "")
    return int(limit) if limit.isascii() and limit.isdigit() else 0
