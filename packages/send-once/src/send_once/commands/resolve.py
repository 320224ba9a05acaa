"""`send-once resolve`: record what happened to one send, by hand."""

from __future__ import annotations

from send_once.audit import json_text
from send_once.commands import ledgers, resolve_export
from send_once.commands.context import OK, UNRESOLVED, UNUSABLE, Invocation, Refusal
from send_once.commands.resolve_export import may_be_sending
from send_once.entry import Entry, Status
from send_once.errors import AlreadySentError, NotFoundError
from send_once.ledger import Ledger
from send_once.terminal import harmless

_DONE = {
    Status.SENT: "It will not be sent again.",
    Status.FAILED: "The next attempt for this key will send it.",
}


def run(call: Invocation) -> int:
    if call.parsed.has("from-export"):
        return resolve_export.run(call)
    name, key, status = call.positionals(3, "a ledger file, a key, and sent or failed")
    if status not in (Status.SENT, Status.FAILED):
        raise Refusal(f"The status must be sent or failed, got {harmless(status)}.", UNUSABLE)
    with ledgers.opened(ledgers.existing(name), read_only=False) as store:
        ledger = Ledger(store, clock=call.now_ms)
        before = ledger.get(key)
        _refuse_if_running(call, before, Status(status))
        settled = _settle(call, ledger, key, status)
    call.console.out(_answer(call, before, settled))
    return OK


def _refuse_if_running(call: Invocation, entry: Entry | None, wanted: Status) -> None:
    """Refuse to write off a send that may be happening right now, unless --even-if-running."""
    if entry is not None and may_be_sending(entry, wanted) and not call.parsed.has("even-if-running"):
        raise Refusal(_running_text(entry), UNRESOLVED)


def _running_text(entry: Entry) -> str:
    pid = entry.claim.pid if entry.claim is not None else 0
    return (
        f"{harmless(entry.key)} was claimed by process {pid}, which is still running here and may be sending it now. "
        "Marked failed, it could be sent a second time. Wait for the process or end it, then resolve; "
        "or say --even-if-running."
    )


def _settle(call: Invocation, ledger: Ledger, key: str, status: str) -> Entry:
    note, provider_id = call.parsed.get("note"), call.parsed.get("provider-id")
    try:
        return ledger.resolve(key, status, by=call.by(), note=note, provider_id=provider_id)
    except (NotFoundError, AlreadySentError) as error:
        raise Refusal(harmless(str(error)), UNRESOLVED) from None


def _answer(call: Invocation, before: Entry | None, settled: Entry) -> str:
    if call.json:
        return json_text(settled.to_json())
    key, status = harmless(settled.key), settled.status
    if before is not None and before == settled:
        return f"{key} was already {status}. Nothing changed.\n"
    return f"Resolved {key} as {status}. {_DONE[status]}\n"
