"""What servers say in the text of a reply, and no standard defines: queue ids and how long to wait."""

from __future__ import annotations

import re
from typing import Final

from send_once.mail.replies import Reply

_QUEUE_IDS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\bqueued as ([\w.+/=-]*\w)",  # Postfix, SendGrid, Halon, Zone-MTA
        r"\bOK\s+id=([\w.-]*\w)",  # Exim
        r"\[InternalId=(\d+)",  # Exchange
        r"\bMessage Queued \(([0-9A-F.-]+)\)",  # Haraka
        r"\bqueued with id ([\w.-]*\w)",  # Stalwart
        r"\bok \d+ qp (\d+)",  # qmail
        r"\bOK\s+\d+ ([\w.-]+) - gsmtp",  # Gmail
        r"(?:^|\s)([0-9A-Za-z]{8,}) Message accepted for delivery",  # Sendmail, OpenSMTPD
        r"^Ok ([0-9a-f]{16}-[0-9a-f-]+)$",  # Amazon SES
    )
)

_WAIT: Final = re.compile(
    r"\b(?:in|after|for|another|least|wait)\s+(\d{1,6})\s*(seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h)\b",
    re.IGNORECASE,
)
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
WAIT_SECONDS_MAX: Final = 24 * 3600


def queue_id(reply: Reply) -> str | None:
    """The id under which the server queued the message, where its wording is known."""
    found = (pattern.search(line) for pattern in _QUEUE_IDS for line in reply.lines)
    return next((match.group(1) for match in found if match), None)


def wait_seconds(reply: Reply) -> int | None:
    """How long a reply asks to wait ("try again in 300 seconds"), as greylisting servers say it."""
    match = _WAIT.search(" ".join(reply.lines))
    if match is None:
        return None
    return min(int(match.group(1)) * _UNIT_SECONDS[match.group(2)[0].lower()], WAIT_SECONDS_MAX)
