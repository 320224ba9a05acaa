"""How far an SMTP dialogue had come when it ended. The stage tells whether the message may be out."""

from __future__ import annotations

from typing import Final

from send_once.commands.codes import Code

_NOT_OUT: Final = "Nothing was sent, and the next call for the key sends. Mend what the server's words name."
_MAYBE_OUT: Final = "The message may be out. Look for its Message-ID at the server or the recipient, then resolve it."


def _stage(code: str, title: str, cause: str, remedy: str = _NOT_OUT) -> Code:
    return Code(code, "stage", title, cause, remedy)


STAGES: Final = (
    _stage(
        "connecting",
        "The connection to the mail server was not there yet.",
        "A wrong host or port, a firewall, or a server that is down.",
    ),
    _stage(
        "greeting",
        "Connected; the server had not greeted yet.",
        "A server that is busy, refuses this address, or does not speak SMTP.",
    ),
    _stage("hello", "The two were introducing themselves (EHLO).", "The server does not like this client's name."),
    _stage(
        "tls",
        "The connection was being encrypted.",
        "No STARTTLS, a certificate that is not trusted, or one for another name.",
    ),
    _stage("auth", "The client was signing in.", "A wrong name or password, or a way of signing in not offered."),
    _stage("mail", "The sender was being named (MAIL FROM).", "The server does not let this client send for it."),
    _stage("rcpt", "The recipient was being named (RCPT TO).", "No such mailbox, or greylisting, or a full one."),
    _stage("data", "The server was asked to take the message (DATA).", "It refuses the sender or the client here."),
    _stage(
        "body_started",
        "The message was on its way, and its end was not.",
        "The connection was lost, or the server answered before the end.",
        f"If it was refused, nothing is out. Otherwise: {_MAYBE_OUT[0].lower()}{_MAYBE_OUT[1:]}",
    ),
    _stage(
        "dot_sent",
        "The whole message had been handed over; what the server makes of it was awaited.",
        "The server refused the content, or its reply never came.",
        f"If it was refused, nothing is out. Otherwise: {_MAYBE_OUT[0].lower()}{_MAYBE_OUT[1:]}",
    ),
    _stage(
        "accepted",
        "The server has taken the message over.",
        "It answered the end of the message with a 2yz reply.",
        "Nothing. What it does with the message stands in its log, under the queue id that is recorded.",
    ),
)
