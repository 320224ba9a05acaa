"""Where to send, how to secure it, how long to wait: checked once, when the sender is made."""

from __future__ import annotations

import math
import ssl
from dataclasses import dataclass, field
from typing import Final, Literal

from send_once.errors import InvalidInputError
from send_once.mail.addresses import has_controls
from send_once.mail.domains import LABEL_CHARS_MAX, ascii_domain

Security = Literal["starttls", "tls", "none"]
SECURITIES: Final = ("starttls", "tls", "none")
PORT_MAX: Final = 65535

CONNECT_TIMEOUT_SECONDS: Final = 30.0
COMMAND_TIMEOUT_SECONDS: Final = 300.0
"""RFC 5321 4.5.3.2: 5 minutes for the greeting, MAIL and RCPT, 2 for DATA."""
DATA_TIMEOUT_SECONDS: Final = 180.0
"""RFC 5321 4.5.3.2.5: 3 minutes for a block of the message."""
FINAL_REPLY_TIMEOUT_SECONDS: Final = 600.0
"""RFC 5321 4.5.3.2.6: 10 minutes. Giving up earlier does not undo the send, it only leaves it unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of SMTPSender's arguments. Raises InvalidInputError naming the one that cannot be used."""

    host: str
    port: int
    security: Security
    username: str | None
    password: str | None = field(repr=False)
    local_hostname: str | None
    connect_timeout_seconds: float
    command_timeout_seconds: float
    data_timeout_seconds: float
    final_reply_timeout_seconds: float
    ssl_context: ssl.SSLContext | None = field(repr=False)
    allow_cleartext_auth: bool

    def __post_init__(self) -> None:
        _check_address(self.host, self.port)
        _check_credentials(self)
        if self.security not in SECURITIES:
            raise InvalidInputError(f"security: must be one of {', '.join(SECURITIES)}.", field="security")
        if self.local_hostname is not None and not _is_one_word(self.local_hostname):
            raise InvalidInputError(
                "local_hostname: must be one word, such as app.example.com.", field="local_hostname"
            )
        _ = self.server_name  # an international name that cannot be converted is refused now, not at the first send
        for name in ("connect", "command", "data", "final_reply"):
            _check_seconds(f"{name}_timeout_seconds", getattr(self, f"{name}_timeout_seconds"))

    @property
    def server_name(self) -> str:
        """The host as the resolver and the certificate know it."""
        return self.host if self.host.isascii() else ascii_domain(self.host, field="host")


def _check_address(host: object, port: object) -> None:
    if not isinstance(host, str) or not _is_one_word(host) or not _has_sound_labels(host):
        raise InvalidInputError("host: must be the server's name or IP address, without port or spaces.", field="host")
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port <= PORT_MAX:
        raise InvalidInputError(
            f"port: must be an integer from 1 to {PORT_MAX}; 587 for starttls, 465 for tls, 25 between servers.",
            field="port",
        )


def _check_credentials(settings: Settings) -> None:
    if (settings.username is None) != (settings.password is None):
        raise InvalidInputError("username and password must be given together.", field="password")
    if any("\0" in text for text in (settings.username or "", settings.password or "")):
        raise InvalidInputError("username and password must not hold a NUL character (RFC 4616).", field="password")
    if settings.username is not None and settings.security == "none" and not settings.allow_cleartext_auth:
        raise InvalidInputError(
            'security: "none" would send the password readable by anyone on the way. Use "starttls" or "tls", or pass '
            "allow_cleartext_auth=True where the connection is protected otherwise.",
            field="security",
        )


def _check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise InvalidInputError(f"{name}: must be a positive number of seconds.", field=name)


def _has_sound_labels(host: str) -> bool:
    """Else Python's resolver fails with an error about an encoding. An address with colons is none of its concern."""
    return ":" in host or all(0 < len(label) <= LABEL_CHARS_MAX for label in host.removesuffix(".").split("."))


def _is_one_word(text: str) -> bool:
    return bool(text) and not has_controls(text) and " " not in text
