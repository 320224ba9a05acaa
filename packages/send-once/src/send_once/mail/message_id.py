"""A Message-ID that names the intended send, so that every retry of it carries the same one."""

from __future__ import annotations

import hashlib
from typing import Final

from send_once.errors import InvalidInputError
from send_once.mail.domains import ascii_domain

_CONTEXT: Final = b"send-once/message-id/1\0"
_HEX_CHARS: Final = 40


def derive_message_id(key: str, domain: str) -> str:
    """`<…@domain>`, the same for the same key and domain in every process and version.

    The left side is a hash of the key: nothing of the key, which may hold an address, can be read
    from it. `domain` is one you own; international names become A-labels. The result is a valid
    msg-id (RFC 5322 3.6.4). Raises InvalidInputError naming `key` or `domain`.
    """
    if not isinstance(key, str) or not key:
        raise InvalidInputError("key: a Message-ID is derived from a ledger key, a non-empty string.", field="key")
    if not isinstance(domain, str):
        raise InvalidInputError("domain: must be a string, such as mail.example.com.", field="domain")
    host = ascii_domain(domain, field="domain").lower()
    return f"<{_digest(key)}@{host}>"


def _digest(key: str) -> str:
    try:
        return hashlib.sha256(_CONTEXT + key.encode()).hexdigest()[:_HEX_CHARS]
    except UnicodeEncodeError as error:
        raise InvalidInputError("key: holds half a character (a lone surrogate).", field="key") from error
