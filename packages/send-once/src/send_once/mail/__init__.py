"""Mail: a sender over SMTP that knows how each send ended, and the message's bytes checked before.

    from send_once.mail import SMTPSender, derive_message_id

    sender = SMTPSender("smtp.example.com", 587, username="app", password=secret)
    outcome = ledger.once(key, lambda: sender.send(message, to="ana@example.com"))

Standard library only.
"""

from send_once.mail.errors import SMTPFailure, SMTPRejectedError, SMTPRetryLaterError, SMTPUncertainError
from send_once.mail.findings import Finding
from send_once.mail.message import check, render
from send_once.mail.message_id import derive_message_id
from send_once.mail.smtp import ServerReady, SMTPSender
from send_once.mail.stages import Stage
from send_once.mail.verdicts import Accepted

__all__ = [
    "Accepted",
    "Finding",
    "SMTPFailure",
    "SMTPRejectedError",
    "SMTPRetryLaterError",
    "SMTPSender",
    "SMTPUncertainError",
    "ServerReady",
    "Stage",
    "check",
    "derive_message_id",
    "render",
]
