"""Sending one message to one recipient over SMTP, and knowing how it ended."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage

from send_once.mail.dialogue import Dialogue
from send_once.mail.envelope import Envelope, make_envelope
from send_once.mail.errors import SMTPUncertainError
from send_once.mail.message import render_checked, sender_of
from send_once.mail.settings import (
    COMMAND_TIMEOUT_SECONDS,
    CONNECT_TIMEOUT_SECONDS,
    DATA_TIMEOUT_SECONDS,
    FINAL_REPLY_TIMEOUT_SECONDS,
    Security,
    Settings,
)
from send_once.mail.verdicts import Accepted


@dataclass(frozen=True, slots=True)
class ServerReady:
    """A server that can be reached, secured and signed in to. `extensions`: EHLO keyword → parameters."""

    greeting: str
    extensions: Mapping[str, str]


class SMTPSender:
    """Sends over SMTP, one recipient and one transaction a call, and never repeats anything by itself.

    Each call opens a connection of its own and closes it, so that one object serves any number of
    threads. From async code call it as `await asyncio.to_thread(sender.send, message, to=…)`.

    `security`: "starttls" (the default; refused before anything is sent where the server does not
    offer it), "tls" (from the first byte, port 465), "none". Certificates are verified; `ssl_context`
    replaces the default context. Credentials are never sent over "none" unless
    `allow_cleartext_auth` says so.

    Time limits, in seconds: `connect` for each address and the TLS handshake, `command` for each
    command with its reply, `data` for each block of the message, `final_reply` for the reply to the
    final dot alone. The last one is long on purpose (RFC 5321 4.5.3.2.6): giving up earlier does
    not take the message back.
    """

    def __init__(
        self,
        host: str,
        port: int = 25,
        *,
        security: Security = "starttls",
        username: str | None = None,
        password: str | None = None,
        local_hostname: str | None = None,
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        command_timeout_seconds: float = COMMAND_TIMEOUT_SECONDS,
        data_timeout_seconds: float = DATA_TIMEOUT_SECONDS,
        final_reply_timeout_seconds: float = FINAL_REPLY_TIMEOUT_SECONDS,
        ssl_context: ssl.SSLContext | None = None,
        allow_cleartext_auth: bool = False,
    ) -> None:
        """Checks the arguments and connects to nothing. Raises InvalidInputError naming the argument."""
        self._settings = Settings(
            host=host,
            port=port,
            security=security,
            username=username,
            password=password,
            local_hostname=local_hostname,
            connect_timeout_seconds=connect_timeout_seconds,
            command_timeout_seconds=command_timeout_seconds,
            data_timeout_seconds=data_timeout_seconds,
            final_reply_timeout_seconds=final_reply_timeout_seconds,
            ssl_context=ssl_context,
            allow_cleartext_auth=allow_cleartext_auth,
        )

    def __repr__(self) -> str:
        return f"SMTPSender({self._settings.host!r}, {self._settings.port}, security={self._settings.security!r})"

    def send(self, message: EmailMessage, *, to: str, envelope_from: str | None = None) -> Accepted:
        """Send `message` to the one address `to`. Returning means: the server has taken it over.

        `envelope_from` gets the bounces; without it the address of Sender, or the only one of From.
        `""` asks for none. Bcc fields are not transmitted.

        Raises InvalidInputError, before any connection, if the bytes of the message would not
        arrive as it is (see `send_once.mail.check`); SMTPRejectedError or SMTPRetryLaterError if
        the server definitely has not accepted it; SMTPUncertainError if it may have. Each of the
        last three says in `stage` how far the dialogue had come.
        """
        sender = sender_of(message) if envelope_from is None else envelope_from
        raw = render_checked(message, to=to, envelope_from=sender)
        return self._deliver(make_envelope(raw, to=to, envelope_from=sender))

    def send_bytes(self, raw: bytes, *, to: str, envelope_from: str) -> Accepted:
        """Send a message rendered before, signed or stored since, so that a retry sends the same bytes.

        Line ends are made CRLF; nothing else is changed or checked. Raises like `send`.
        """
        return self._deliver(make_envelope(raw, to=to, envelope_from=envelope_from))

    def check(self) -> ServerReady:
        """Connect, greet, secure, sign in, quit: a health probe. Sends nothing. Raises like `send`."""
        with Dialogue(self._settings) as dialogue:
            dialogue.open()
            return ServerReady(dialogue.greeting, dict(dialogue.extensions))

    def _deliver(self, envelope: Envelope) -> Accepted:
        with Dialogue(self._settings) as dialogue:
            dialogue.open()
            try:
                return dialogue.deliver(envelope)
            except SMTPUncertainError as error:
                error.name_message(envelope.message_id)
                raise
