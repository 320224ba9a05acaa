"""What is stored about a send, what a send function says by raising, and where its process is."""

from __future__ import annotations

from typing import Final

from send_once.commands.codes import Code

STATES: Final = (
    Code(
        "pending",
        "status",
        "It was claimed, and no end is recorded. What a call learns from it is `unknown`.",
        "It is being sent right now, or its process died, or its send ended without an answer.",
        "`send-once audit` shows it, with where its process is. Ask the provider, then resolve it. Nothing sends it "
        "again by itself.",
    ),
)

SEND_ERRORS: Final = (
    Code(
        "SendError",
        "send error",
        "The base of the three errors with which a send function says how the send ended.",
        "Raised as one of those three; `except SendError` catches them all.",
        "See the one that was raised.",
    ),
    Code(
        "RejectedSendError",
        "send error",
        "The provider did not accept the message, and that is known. It is recorded as `failed`.",
        "The provider said no (a wrong address, a refused content, missing rights), or was never reached.",
        "Mend what it names. The next call for the key sends.",
    ),
    Code(
        "RetryLaterError",
        "send error",
        "The provider did not accept the message, and asks to wait. It is recorded as `failed`.",
        "Too many messages, greylisting, or a provider that is busy; `after` says how many seconds to wait.",
        "Call again after that time. Nothing calls by itself.",
    ),
    Code(
        "UncertainSendError",
        "send error",
        "The message may have been accepted. The entry stays `pending`, and the call answers `unknown`.",
        "A time limit, a lost connection or a server's error came after the message was handed over.",
        "Look the message up at the provider, then resolve it, or let `reconcile` do both. Do not send it before.",
    ),
)

PROCESSES: Final = (
    Code(
        "running here",
        "process",
        "The process that claimed the send still runs on this machine.",
        "It is sending, or waits for something else while nobody settles its claim.",
        "Wait for it, or end it. Until then the send is not marked failed.",
    ),
    Code(
        "process gone",
        "process",
        "The process that claimed the send has ended on this machine.",
        "It was killed or died between the claim and the record of how the send ended.",
        "Nobody will settle it. Ask the provider, then resolve it.",
    ),
    Code(
        "another boot",
        "process",
        "The send was claimed on a machine of this name, before this machine last started.",
        "The machine restarted, and the process is gone; or another machine or container bears the same name.",
        "Where names are used again (containers, cloned machines), look whether the other one still runs. Then ask the "
        "provider, and resolve it.",
    ),
    Code(
        "another host",
        "process",
        "The send was claimed on another machine, whose processes cannot be seen from here.",
        "The ledger is shared, or was copied.",
        "Look there whether the process still runs, before marking the send failed.",
    ),
    Code(
        "another container",
        "process",
        "The send was claimed in another container of this machine, whose processes cannot be seen from here.",
        "Containers number their processes by themselves.",
        "Look there whether the process still runs, before marking the send failed.",
    ),
    Code(
        "not known",
        "process",
        "Whether the process that claimed the send still runs cannot be told from here.",
        "The claim does not name it well enough, or this system does not show when a process began.",
        "Look for it by its number and machine, before marking the send failed.",
    ),
    Code(
        "not recorded",
        "process",
        "The claim names no process.",
        "The Node package of the same name, or another tool, made the claim.",
        "Make sure that no such process still sends, before marking the send failed.",
    ),
)
