"""`send-once list`: entries, one line each."""

from __future__ import annotations

from send_once.audit import json_text
from send_once.commands import ledgers, rows
from send_once.commands.context import OK, Invocation
from send_once.records import chosen


def run(call: Invocation) -> int:
    (name,) = call.positionals(1, "one ledger")
    address = ledgers.existing(name)
    status, older_than_ms = call.status(), call.duration_ms("older-than")
    limit, text = call.count("limit"), call.text("grep")
    reading = ledgers.read(address, only=status)
    of_age = chosen(reading.entries, status=status, older_than_ms=older_than_ms, now_ms=call.now_ms())
    found = rows.matching(of_age, text)
    shown = found[:limit]
    if call.json:
        call.console.out(json_text([entry.to_json() for entry in shown]))
    else:
        call.console.out(rows.lines(shown, len(found) - len(shown), call.paint))
        if not found:
            # Not on standard output, where a program would take it for an entry.
            call.console.err("No entry matches.\n" if any(reading.counts.values()) else "The ledger is empty.\n")
    return OK
