"""`send-once show`: everything about one key."""

from __future__ import annotations

from send_once.audit import json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, UNRESOLVED, Invocation, Refusal
from send_once.owner import liveness
from send_once.records import entry_text
from send_once.terminal import harmless


def run(call: Invocation) -> int:
    name, key = call.positionals(2, "a ledger and a key")
    with ledgers.opened(ledgers.existing(name), read_only=True) as store:
        entry = store.get(key)
    if entry is None:
        raise Refusal(f"No entry for {harmless(key)}.", UNRESOLVED)
    if call.json:
        process = {} if entry.claim is None else {"process": liveness(entry.claim)}
        call.console.out(json_text({**entry.to_json(), **process}))
    else:
        now_ms = call.now_ms()
        text = entry_text(entry, now_ms=now_ms, paint=call.paint, look=lambda one: liveness(one.claim))
        call.console.out(text)
    return OK
