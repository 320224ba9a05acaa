"""What a reply, or its absence, says about the message. Pure: one table, no I/O.

| seen                                                           | verdict                       |
|----------------------------------------------------------------|-------------------------------|
| no connection, refused, no greeting, lost, before the body     | later (not accepted)          |
| name unknown, certificate refused, no STARTTLS, no SMTP reply  | rejected                      |
| 421 or 4yz before the body                                     | later                         |
| 5yz, or a reply that does not fit, before the body             | rejected                      |
| 4yz or 5yz volunteered during the body, no final dot sent      | later or rejected             |
| anything else lost or odd from the body's first byte on        | uncertain                     |
| 2yz to the final dot                                           | accepted                      |
| 4yz or 5yz to the final dot                                    | later or rejected             |
| 3yz, no reply, half a reply, no SMTP reply to the final dot    | uncertain                     |

Sources: RFC 5321 4.2.5 (after 4yz or 5yz the server must not deliver), 4.3.2 (act on the first
digit), 4.5.3.2.6 and RFC 1047 (a lost reply to the dot says nothing), 4.5.4.1 (when to retry).
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import Final

from send_once.mail.errors import SMTPRejectedError, SMTPRetryLaterError, SMTPUncertainError
from send_once.mail.replies import MalformedReplyError, Reply
from send_once.mail.stages import OPEN_STAGES, Stage
from send_once.mail.texts import queue_id, wait_seconds

RETRY_AFTER_SECONDS: Final = 1800.0
"""After a 4yz that names no time: RFC 5321 4.5.4.1, "at least 30 minutes"."""
RECONNECT_AFTER_SECONDS: Final = 60.0
"""After a connection that never came about or was lost before the body."""

SMTPError = SMTPRejectedError | SMTPRetryLaterError | SMTPUncertainError


@dataclass(frozen=True, slots=True)
class Accepted:
    """The server has taken responsibility for the message (2yz to the final dot).

    `provider_id` is the queue id out of the server's text where its wording is known, else the
    text itself; a mail administrator can find the message by it. `enhanced_code` is the status of
    RFC 3463 (`2.0.0`), if the reply had one.
    """

    provider_id: str
    reply_code: int
    reply_text: str
    enhanced_code: str | None = None
    stage: Stage = Stage.ACCEPTED


def of_final_reply(reply: Reply, *, server: str, stage: Stage = Stage.DOT_SENT) -> Accepted | SMTPError:
    """What the reply to the final dot means."""
    if reply.kind == 2:  # noqa: PLR2004  # positive completion
        return Accepted(queue_id(reply) or reply.text or str(reply.code), reply.code, reply.text, reply.enhanced_code)
    if reply.kind in (4, 5):
        return refusal(reply, server=server, stage=stage)
    return SMTPUncertainError(
        f"{server} answered the message with {reply}, which neither accepts nor refuses it. {_HOW_TO_SETTLE}",
        stage=stage,
        reply=reply,
    )


def of_early_reply(reply: Reply, *, server: str) -> SMTPError:
    """What a reply means that came while the body was being written. The dot is not sent any more."""
    if reply.kind in (4, 5):
        return refusal(reply, server=server, stage=Stage.BODY_STARTED)
    return SMTPUncertainError(
        f"{server} said {reply} before the message had ended. {_HOW_TO_SETTLE}",
        stage=Stage.BODY_STARTED,
        reply=reply,
    )


def refusal(reply: Reply, *, server: str, stage: Stage) -> SMTPError:
    """What a reply means that is not the one a command needs. Only for what cannot accept a message."""
    text = f"{server} refused at {stage.value}: {reply}"
    if reply.kind == 4:  # noqa: PLR2004  # transient negative completion, 421 and 454 included
        return SMTPRetryLaterError(text, after=wait_seconds(reply) or RETRY_AFTER_SECONDS, stage=stage, reply=reply)
    if reply.kind == 5:  # noqa: PLR2004  # permanent negative completion
        return SMTPRejectedError(text, stage=stage, reply=reply)
    return SMTPRejectedError(
        f"{server} answered at {stage.value} with {reply}, which does not fit the command. Nothing was sent.",
        stage=stage,
        reply=reply,
    )


def of_trouble(error: Exception, *, server: str, stage: Stage) -> SMTPError:
    """What it means that the dialogue broke off with `error` at `stage`."""
    if stage in OPEN_STAGES:
        return _uncertain(error, server, stage)
    if isinstance(error, MalformedReplyError):
        return SMTPRejectedError(
            f"{server} does not speak SMTP at {stage.value} ({error}). Nothing was sent. Check host and port.",
            stage=stage,
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return SMTPRejectedError(
            f"The certificate of {server} was refused ({error.verify_message}). Nothing was sent. Check the host name, "
            "or pass an ssl_context that trusts its issuer.",
            stage=stage,
        )
    if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
        return SMTPRejectedError(f"The name of {server} cannot be resolved ({error}). Nothing was sent.", stage=stage)
    return SMTPRetryLaterError(
        f"{_what_broke(error)} at {stage.value} with {server}. Nothing was sent.",
        after=RECONNECT_AFTER_SECONDS,
        stage=stage,
    )


_HOW_TO_SETTLE: Final = (
    "The message may have gone out: look for its Message-ID in the server's log or the recipient's mailbox, "
    "then resolve the entry. Do not send it again before that."
)


def _uncertain(error: Exception, server: str, stage: Stage) -> SMTPUncertainError:
    where = "while the message was being sent" if stage is Stage.BODY_STARTED else "before the message was answered"
    return SMTPUncertainError(
        f"{_what_broke(error)} with {server} {where}. {_HOW_TO_SETTLE}",
        stage=stage,
        reply_text=error.shown if isinstance(error, MalformedReplyError) else None,
    )


def _what_broke(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "Timeout"
    if isinstance(error, MalformedReplyError):
        return f"Unreadable reply ({error})"
    if isinstance(error, OSError):
        return f"Connection lost ({str(error) or type(error).__name__})"
    return f"Interrupted ({type(error).__name__}: {error})"
