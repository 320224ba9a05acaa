"""One SMTP dialogue (RFC 5321): connection, greeting, TLS, sign-in, one transaction for one recipient.

The stage is recorded before each step, so that whatever ends the dialogue can be judged by how far
it had come. Commands are never pipelined: a reply that nobody asked for is a reply too many, and
ends the dialogue before the body.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Final, NoReturn, Self

from send_once.errors import InvalidInputError
from send_once.mail.channel import BLOCK_BYTES, Channel, connect
from send_once.mail.domains import ascii_domain
from send_once.mail.envelope import Envelope
from send_once.mail.errors import SMTPFailure, SMTPRejectedError
from send_once.mail.replies import MalformedReplyError, Reply
from send_once.mail.settings import Settings
from send_once.mail.stages import OPEN_STAGES, Stage
from send_once.mail.verdicts import Accepted, of_early_reply, of_final_reply, of_trouble, refusal
from send_once.mail.wire import END_OF_DATA, dot_stuffed

QUIT_WAIT_SECONDS: Final = 1.0
"""For the reply to QUIT, which nobody needs. Short: until `send` returns, the ledger does not know
that the message was accepted."""
_SERVICE_CLOSING: Final = 421
_DONE: Final = 2
_GO_ON: Final = 3
_REFUSED: Final = 5


class Dialogue:
    """A context manager: leaving it closes the connection, whatever happened."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server = f"{settings.host}:{settings.port}"
        self._channel: Channel | None = None
        self._is_in_step = False
        self._stage = Stage.CONNECTING
        self.extensions: Mapping[str, str] = {}
        self.greeting = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._is_in_step and (kind is None or issubclass(kind, Exception)):
                self._quit()
        finally:
            if self._channel:
                self._channel.close()

    def open(self) -> None:
        """Connect, greet, secure, sign in. Raises SMTPRejectedError or SMTPRetryLaterError."""
        with self._judged():
            self._connect()
            self._hello()
            if self._settings.security == "starttls":
                self._start_tls()
            if self._settings.username is not None:
                self._sign_in(self._settings.username, self._settings.password or "")

    def deliver(self, envelope: Envelope) -> Accepted:
        """One transaction. Raises one of the three SMTPFailure classes."""
        with self._judged():
            self._stage = Stage.MAIL
            obstacle = envelope.obstacle(self.extensions)
            if obstacle:
                self._refuse(f"{self._server} cannot take this message: {obstacle}. Nothing was sent.")
            self._command(Stage.MAIL, envelope.mail_command(self.extensions))
            self._command(Stage.RCPT, f"RCPT TO:<{envelope.recipient}>")
            self._command(Stage.DATA, "DATA", wanted=_GO_ON)
            self._refuse_unasked()
            return self._transfer(dot_stuffed(envelope.octets))

    @contextlib.contextmanager
    def _judged(self) -> Iterator[None]:
        """Any exception within becomes a verdict. Once the body has begun, even one nobody foresaw
        must say `uncertain`; those that stop the program (KeyboardInterrupt …) pass."""
        try:
            yield
        except SMTPFailure:
            raise
        except Exception as error:
            if self._stage in OPEN_STAGES or isinstance(error, OSError | MalformedReplyError):
                self._is_in_step = False
                raise of_trouble(error, server=self._server, stage=self._stage) from error
            raise

    # The steps, in order.

    def _connect(self) -> None:
        settings = self._settings
        self._channel = connect(settings.server_name, settings.port, timeout_seconds=settings.connect_timeout_seconds)
        if settings.security == "tls":
            self._secure()
        self._stage = Stage.GREETING
        greeting = self._read()
        self._require(greeting, _DONE)
        self.greeting = greeting.text

    def _hello(self) -> None:
        name = self._settings.local_hostname or _own_name(self._open_channel.local_address)
        reply = self._exchange(Stage.HELLO, f"EHLO {name}")
        if reply.kind == _REFUSED and self._settings.security == "none" and self._settings.username is None:
            self._command(Stage.HELLO, f"HELO {name}")
            self.extensions = {}
            return
        self._require(reply, _DONE)
        self.extensions = _extensions(reply)

    def _start_tls(self) -> None:
        self._stage = Stage.TLS
        if "STARTTLS" not in self.extensions:
            self._refuse(
                f"{self._server} does not offer STARTTLS, or someone on the way took the offer out. Nothing was sent. "
                'Use security="tls" on a TLS port, or security="none" where the connection is protected otherwise.'
            )
        self._command(Stage.TLS, "STARTTLS")
        self._refuse_unasked()
        self._secure()
        self._hello()

    def _secure(self) -> None:
        """What was learnt before the handshake is forgotten (RFC 3207 section 4.2)."""
        self._stage = Stage.TLS
        self._is_in_step = False
        context = self._settings.ssl_context or ssl.create_default_context()
        self._open_channel.start_tls(
            context, self._settings.server_name, timeout_seconds=self._settings.connect_timeout_seconds
        )
        self._is_in_step = True

    def _sign_in(self, username: str, password: str) -> None:
        self._stage = Stage.AUTH
        mechanisms = self.extensions.get("AUTH", "").upper().split()
        if "PLAIN" in mechanisms:
            self._command(Stage.AUTH, f"AUTH PLAIN {_base64(f'{chr(0)}{username}{chr(0)}{password}')}")
        elif "LOGIN" in mechanisms:
            self._command(Stage.AUTH, "AUTH LOGIN", wanted=_GO_ON)
            self._command(Stage.AUTH, _base64(username), wanted=_GO_ON)
            self._command(Stage.AUTH, _base64(password))
        else:
            offered = ", ".join(mechanisms) or "none"
            self._refuse(f"{self._server} offers neither AUTH PLAIN nor LOGIN (but {offered}). Nothing was sent.")

    def _transfer(self, octets: bytes) -> Accepted:
        """The body, the dot, the reply to it. From the first octet on, the message may go out."""
        self._is_in_step = False
        self._stage = Stage.BODY_STARTED
        try:
            self._write_body(octets)
        except OSError as error:
            reply = self._open_channel.last_words()
            if reply is None:
                raise
            raise of_early_reply(reply, server=self._server) from error
        self._stage = Stage.DOT_SENT
        reply = self._open_channel.read_reply(timeout_seconds=self._settings.final_reply_timeout_seconds)
        self._is_in_step = reply.code != _SERVICE_CLOSING
        verdict = of_final_reply(reply, server=self._server)
        if not isinstance(verdict, Accepted):
            raise verdict
        return verdict

    def _write_body(self, octets: bytes) -> None:
        """The dot is a write of its own, and the last one: while it is held back, whatever the server
        says is no answer to the message."""
        channel, seconds = self._open_channel, self._settings.data_timeout_seconds
        for start in range(0, len(octets), BLOCK_BYTES):
            channel.write(octets[start : start + BLOCK_BYTES], timeout_seconds=seconds)
            channel.poll()
            if channel.has_unread:
                raise of_early_reply(channel.read_reply(timeout_seconds=seconds), server=self._server)
        channel.write(END_OF_DATA, timeout_seconds=seconds)

    def _quit(self) -> None:
        """A courtesy: what comes of it changes nothing."""
        with contextlib.suppress(OSError, MalformedReplyError):
            self._open_channel.write_line("QUIT", timeout_seconds=QUIT_WAIT_SECONDS)
            self._open_channel.read_reply(timeout_seconds=QUIT_WAIT_SECONDS)

    # One command, one reply.

    @property
    def _open_channel(self) -> Channel:
        if self._channel is None:
            raise ConnectionError("not connected")
        return self._channel

    def _command(self, stage: Stage, line: str, *, wanted: int = _DONE) -> None:
        self._require(self._exchange(stage, line), wanted)

    def _exchange(self, stage: Stage, line: str) -> Reply:
        self._stage = stage
        self._refuse_unasked()
        self._is_in_step = False
        self._open_channel.write_line(line, timeout_seconds=self._settings.command_timeout_seconds)
        return self._read()

    def _read(self) -> Reply:
        reply = self._open_channel.read_reply(timeout_seconds=self._settings.command_timeout_seconds)
        self._is_in_step = reply.code != _SERVICE_CLOSING
        return reply

    def _require(self, reply: Reply, kind: int) -> None:
        if reply.kind != kind:
            raise refusal(reply, server=self._server, stage=self._stage)

    def _refuse_unasked(self) -> None:
        """A reply to nothing would be taken for the reply to the next command, the dot in the end."""
        self._open_channel.poll()
        if self._open_channel.has_unread:
            self._is_in_step = False
            reply = self._open_channel.read_reply(timeout_seconds=self._settings.command_timeout_seconds)
            raise refusal(reply, server=self._server, stage=self._stage)

    def _refuse(self, text: str) -> NoReturn:
        raise SMTPRejectedError(text, stage=self._stage)


def _extensions(reply: Reply) -> dict[str, str]:
    """Keyword → parameters, out of the lines behind the first (RFC 5321 4.1.1.1). Some servers still
    write `AUTH=PLAIN`."""
    words = (line.replace("=", " ", 1).split(None, 1) for line in reply.lines[1:])
    return {word[0].upper(): "".join(word[1:]).strip() for word in words if word}


def _own_name(local_address: str) -> str:
    """This host's full name where it has one, else its address (RFC 5321 4.1.4)."""
    name = socket.gethostname()
    with contextlib.suppress(InvalidInputError):
        if "." in name and ascii_domain(name, field="local_hostname"):
            return ascii_domain(name, field="local_hostname")
    return f"[IPv6:{local_address.partition('%')[0]}]" if ":" in local_address else f"[{local_address}]"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")
