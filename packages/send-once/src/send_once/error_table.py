"""Every code, outcome, status and exception that someone may meet: what it means, how it comes about,
what to do. Shown by `send-once explain` and in the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from send_once import errors
from send_once.commands.codes import Code, code_of_error, code_of_outcome
from send_once.commands.codes_of_mail import MAIL
from send_once.commands.codes_of_sends import PROCESSES, SEND_ERRORS, STATES
from send_once.commands.codes_of_stages import STAGES
from send_once.commands.codes_of_usage import USAGE

LEDGER: Final = (
    code_of_outcome(
        "claimed",
        "This caller may send now.",
        "`claim` made the entry, durably; nobody else holds the key.",
        "Send, then call `settle` with what came of it. A claim that is never settled stays pending.",
    ),
    code_of_outcome(
        "sent",
        "It was sent now, and recorded.",
        "The send function returned.",
        "Nothing. Every later call for the key answers `duplicate`.",
    ),
    code_of_outcome(
        "duplicate",
        "It had been sent before; nothing was sent now.",
        "The ledger says `sent` for the key.",
        "Nothing. If another message was meant, use another intent or window in its key.",
    ),
    code_of_outcome(
        "unknown",
        "It may have gone out, or be on its way. What is stored is `pending`; nothing is sent until it is settled.",
        "The send timed out or lost its connection, its process died, or another process is sending right now.",
        "See `send-once audit`. Ask the provider, then `resolve` it, or let `reconcile` do both.",
    ),
    code_of_outcome(
        "failed",
        "It did not go out, and that is known.",
        "The provider refused it, or was never reached.",
        "Mend the cause if it will last. The next call for the key sends.",
    ),
    code_of_outcome(
        "expired",
        "The approval is too old; nothing was sent.",
        "More time has passed since the approval than its limit allows.",
        "Show it to the approver again.",
    ),
    code_of_outcome(
        "payload_changed",
        "The payload is not the one that was approved; nothing was sent.",
        "Something in it changed since the approval.",
        "Have the new payload approved, or send the approved one.",
    ),
    code_of_outcome(
        "stale_facts",
        "What the approver saw no longer holds; nothing was sent.",
        "`recheck` reports other facts than the approval names.",
        "Look at `changed`, and ask for a new approval where it still makes sense.",
    ),
    code_of_error(
        "send_once_error",
        "The base of all errors of the ledger.",
        "Never raised itself; `except SendOnceError` catches every code of this table.",
        "See the code of the error that was raised.",
    ),
    code_of_error(
        "invalid_input",
        "An argument cannot be used. Nothing was claimed or written.",
        "The message names the argument, or the place inside it.",
        "Correct it and call again.",
    ),
    code_of_error(
        "not_found",
        "The ledger does not hold the key.",
        "`resolve` was asked for a key that nobody has claimed in this ledger.",
        "Check the key (they are exact, letter case and spaces included) and that this is the right ledger.",
    ),
    code_of_error(
        "already_sent",
        "The entry is `sent`, and stays so.",
        "`resolve` was to mark it failed; a failed entry may be sent again.",
        "If the message must go out once more, give it a new key.",
    ),
    code_of_error(
        "key_reused",
        "The key belongs to another payload, which went out or may have.",
        "Two different messages were given one key.",
        "Put what tells them apart into the key's intent or window.",
    ),
    code_of_error(
        "result_refused",
        "The send function returned what does not say that the message was accepted; the entry stays pending.",
        "An HTTP response with an error status or a redirect, a command that failed or has not ended, and another "
        "send's outcome say neither that the message was accepted nor that it was not.",
        "In the send function, raise RejectedSendError or UncertainSendError as the provider documents, or call "
        "`raise_for_status()`. Settle this one by evidence.",
    ),
    code_of_error(
        "contended",
        "The entry changed underneath every try.",
        "Many callers claim and settle one key at the same moment.",
        "Call again. If the message says that the send went out, record it with `resolve(key, 'sent')`.",
    ),
    code_of_error(
        "store_error",
        "The store could not do what it was asked.",
        "A file or database cannot be reached, read or written; the message says which and why.",
        "Mend that. If the send had run, the entry is pending and shown by the audit.",
    ),
    code_of_error(
        "lock_timeout",
        "The ledger was locked by someone else for the whole wait. Nothing was written.",
        "Another process holds the lock, or left its lock file, and it cannot be told that it is gone.",
        "See `send-once doctor`. If no process uses the ledger, delete the lock file it names.",
    ),
    code_of_error(
        "store_inconsistent",
        "The store contradicts itself.",
        "It refused a claim although it holds no entry for the key, for instance because something deletes rows.",
        "Find out what removes entries. A removed entry allows its message to be sent again.",
    ),
    code_of_error(
        "bad_query_result",
        "The query function returned something that cannot be read.",
        "SQLStore found neither rows nor a row count in what `query` returned.",
        "Return the rows and, for writes, the number of rows changed.",
    ),
    code_of_error(
        "unsafe_store",
        "The store is set up so that a claim might not survive, or no longer holds what it held.",
        "For example a commit that is not synced, a replica, an open transaction of the caller, or a ledger file that "
        "was cut or replaced.",
        "Change the setting that the message names, or restore the file.",
    ),
    code_of_error(
        "ledger_damaged",
        "A line of the ledger file is damaged, and nobody has accepted it. No new claim is made.",
        "Something other than this library or a crash wrote into the file.",
        "Look at the line with `send-once doctor`, find out what it was, then accept it there.",
    ),
    code_of_error(
        "entry_too_large",
        "The entry is larger than the store's limit. Nothing was written.",
        "Mostly a large `meta`.",
        "Keep bodies and attachments elsewhere and put their name into `meta`, or raise the store's limit.",
    ),
    code_of_error(
        "not_a_ledger",
        "This is no ledger.",
        "The file or table holds other things.",
        "Check the path, or the table's name in the address.",
    ),
)

TABLE: Final = (*STATES, *LEDGER, *USAGE, *SEND_ERRORS, *MAIL, *STAGES, *PROCESSES)

HEADINGS: Final = {
    "status": "Statuses: what is stored",
    "outcome": "Outcomes: what a call returns",
    "error": "Errors: what a call raises, or the command line prints",
    "send error": "Errors of a send function: how the send ended",
    "mail": "Findings about a message, before it is handed over",
    "stage": "How far an SMTP dialogue had come",
    "process": "Where the process behind a claim is",
}

_INTRODUCTION: Final = """\
The same words stand in exceptions (`error.code`), outcomes (`outcome.outcome`), the JSON of the command line
and here. `send-once explain CODE` prints one of them.
"""


def explained(code: str) -> Code | None:
    """The row of a code, a status or an exception's name; letter case is ignored."""
    return _BY_NAME.get(code.lower())


def as_markdown(rows: Iterable[Code] = TABLE) -> str:
    """The page of the documentation."""
    rows = list(rows)
    parts = ["# Statuses, outcomes and error codes\n", _INTRODUCTION]
    for kind, heading in HEADINGS.items():
        parts.append(f"## {heading}\n")
        parts += [
            f"### `{row.code}`\n\n{row.title}\n\n- Why: {row.cause}\n- What to do: {row.remedy}\n"
            for row in rows
            if row.kind == kind
        ]
    return "\n".join(parts)


def _kinds(kind: type[errors.SendOnceError]) -> Iterator[type[errors.SendOnceError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


NAMES: Final = {
    **{kind.__name__: kind.code for kind in _kinds(errors.SendOnceError)},
    "ConnectionLostError": "store_error",
    "SMTPRejectedError": "RejectedSendError",
    "SMTPRetryLaterError": "RetryLaterError",
    "SMTPUncertainError": "UncertainSendError",
    "SMTPFailure": "SendError",
    "rejected": "RejectedSendError",
    "uncertain": "UncertainSendError",
}
"""Other names that stand in a log or a traceback, and the code that explains them."""

_BY_CODE: Final = {row.code: row for row in TABLE}
_BY_NAME: Final = {
    **{name.lower(): _BY_CODE[code] for name, code in NAMES.items()},
    **{row.code.lower(): row for row in TABLE},
}
