"""How far an SMTP dialogue has come. The stage, not the exception, tells whether a message may be out."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Stage(StrEnum):
    """What the client was doing, in the order of a dialogue."""

    CONNECTING = "connecting"
    GREETING = "greeting"
    HELLO = "hello"
    TLS = "tls"
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    BODY_STARTED = "body_started"
    DOT_SENT = "dot_sent"
    ACCEPTED = "accepted"


OPEN_STAGES: Final = frozenset({Stage.BODY_STARTED, Stage.DOT_SENT})
"""The message has been handed over, wholly or in part, and no reply has been read: it may go out."""
