"""The three ways an SMTP send fails, each with the stage reached and the server's own words.

SMTPFailure                 mixed in to all three: .stage .reply_code .reply_text .enhanced_code
├── SMTPRejectedError       also a RejectedSendError   definitely not accepted
├── SMTPRetryLaterError     also a RetryLaterError     definitely not accepted; wait `after` seconds
└── SMTPUncertainError      also an UncertainSendError may have been accepted
"""

from __future__ import annotations

from send_once.errors import RejectedSendError, RetryLaterError, UncertainSendError
from send_once.mail.replies import Reply
from send_once.mail.stages import Stage


class SMTPFailure(Exception):  # noqa: N818  # a mix-in: what is raised are the three classes below
    """What every failed SMTP send carries.

    `stage`: how far the dialogue had come. `reply_code`, `reply_text`: the server's reply, or None
    where there was none. `enhanced_code`: the status of RFC 3463 (`5.1.1`), if the reply had one.
    """

    stage: Stage
    reply_code: int | None
    reply_text: str | None
    enhanced_code: str | None

    def __reduce__(self) -> tuple[object, ...]:
        """Task queues and process pools carry exceptions as pickles, and hang on one they cannot unpack."""
        return _restored, (type(self), self.args, self.__dict__)

    def _tell(self, stage: Stage, reply: Reply | None) -> None:
        self.stage = stage
        self.reply_code = reply.code if reply else None
        self.reply_text = reply.text if reply else None
        self.enhanced_code = reply.enhanced_code if reply else None


def _restored(kind: type[SMTPFailure], args: tuple[object, ...], state: dict[str, object]) -> SMTPFailure:
    failure = kind.__new__(kind, *args)
    failure.__dict__.update(state)
    return failure


class SMTPRejectedError(SMTPFailure, RejectedSendError):
    """The server definitely did not accept the message."""

    def __init__(self, message: str, *, stage: Stage, reply: Reply | None = None) -> None:
        super().__init__(message)
        self._tell(stage, reply)


class SMTPRetryLaterError(SMTPFailure, RetryLaterError):
    """The server definitely did not accept the message, and may do so in `after` seconds."""

    def __init__(self, message: str, *, after: float, stage: Stage, reply: Reply | None = None) -> None:
        RetryLaterError.__init__(self, message, after=after)
        self._tell(stage, reply)


class SMTPUncertainError(SMTPFailure, UncertainSendError):
    """The server may have accepted the message. `reply_text` holds what could not be understood, if
    anything was read. `message_id`: what to look for, in the text too, where the message has one."""

    message_id: str | None = None

    def __init__(
        self, message: str, *, stage: Stage, reply: Reply | None = None, reply_text: str | None = None
    ) -> None:
        UncertainSendError.__init__(self, message, message)
        self._tell(stage, reply)
        if reply_text is not None:
            self.reply_text = reply_text

    def name_message(self, message_id: str | None) -> None:
        """Let the text, which the ledger keeps, say what an operator has to look for. It comes first,
        because the ledger cuts a text that is long, as one with a server's odd reply may be."""
        self.message_id = message_id
        if message_id:
            self.args = (f"Message-ID {message_id}: {self}",)
