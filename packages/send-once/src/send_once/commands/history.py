"""`send-once history`: what one key's entry was, and when."""

from __future__ import annotations

from send_once.audit import json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, Invocation, no_entry
from send_once.ledger import Ledger
from send_once.records import history_text


def run(call: Invocation) -> int:
    name, key = call.positionals(2, "a ledger and a key")
    with ledgers.opened(ledgers.existing(name), read_only=True) as store:
        states = Ledger(store).history(key)
    if not states:
        raise no_entry(key)
    if call.json:
        call.console.out(json_text([state.to_json() for state in states]))
    else:
        call.console.out(history_text(key, states, call.paint))
    return OK
