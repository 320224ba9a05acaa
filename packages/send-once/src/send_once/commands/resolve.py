"""`send-once resolve`: record what happened to one send, by hand."""

from __future__ import annotations

from send_once.audit import json_text
from send_once.commands import ledgers, resolve_export
from send_once.commands.arguments import UsageError, did_you_mean
from send_once.commands.context import OK, UNRESOLVED, UNUSABLE, Invocation, Refusal
from send_once.commands.settling import Settled, settle
from send_once.entry import Status
from send_once.errors import AlreadySentError, NotFoundError
from send_once.settings import Settlement
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
        hint = did_you_mean(status, _DONE)  # letter case counts here: the reference's answer has no hint
        raise Refusal(f"The status must be sent or failed, got {harmless(status)}.{hint and f' {hint}'}", UNUSABLE)
    if status == Status.SENT and call.even_if_running:
        raise UsageError("--even-if-running goes only with the status failed, not with sent.")
    address = ledgers.existing(name)
    wanted = Settlement(key, Status(status), call.parsed.get("note"), call.text("provider-id"))
    with ledgers.opened(address, read_only=False) as store:
        try:
            answer = settle(store, wanted, by=call.by(), now_ms=call.now_ms, even_if_running=call.even_if_running)
        except (NotFoundError, AlreadySentError) as error:
            raise Refusal(harmless(str(error)), UNRESOLVED, error.code, in_json=False) from None
    if isinstance(answer, str):
        raise Refusal(harmless(answer), UNRESOLVED, "still_running")
    call.console.out(json_text(answer.after.to_json()) if call.json else _text(answer))
    return OK


def _text(answer: Settled) -> str:
    key, status = harmless(answer.after.key), answer.after.status
    if answer.before == answer.after:
        return f"{key} was already {status}. Nothing changed.\n"
    return f"Resolved {key} as {status}. {_DONE[status]}\n"
