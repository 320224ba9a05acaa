"""`send-once stats`: counts."""

from __future__ import annotations

from send_once.audit import json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, Invocation
from send_once.records import stats, stats_text


def run(call: Invocation) -> int:
    (name,) = call.positionals(1, "one ledger")
    counts = stats(ledgers.read(ledgers.existing(name)), now_ms=call.now_ms())
    call.console.out(json_text(counts) if call.json else stats_text(counts, call.paint))
    return OK
