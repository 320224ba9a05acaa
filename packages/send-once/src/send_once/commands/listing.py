"""`send-once list`: entries, one line each."""

from __future__ import annotations

from send_once.audit import json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, Invocation
from send_once.records import chosen, list_text


def run(call: Invocation) -> int:
    (name,) = call.positionals(1, "one ledger")
    address = ledgers.existing(name)
    status, older_than_ms = call.status(), call.duration_ms("older-than")
    limit = call.parsed.whole_number("limit", 0)
    entries = chosen(
        ledgers.read(address, only=status).entries, status=status, older_than_ms=older_than_ms, now_ms=call.now_ms()
    )
    shown = entries[:limit] if limit else entries
    if call.json:
        call.console.out(json_text([entry.to_json() for entry in shown]))
    else:
        call.console.out(list_text(shown, len(entries) - len(shown), call.paint))
    return OK
