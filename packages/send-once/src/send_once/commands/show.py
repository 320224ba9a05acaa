"""`send-once show`: everything about one key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from send_once.audit import json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, Invocation, no_entry
from send_once.entry import Entry
from send_once.histories import earlier_states
from send_once.jsnumbers import js_number
from send_once.ledger import Ledger
from send_once.owner import liveness
from send_once.records import entry_text
from send_once.stores.base import Store
from send_once.terminal import wrapped


def run(call: Invocation) -> int:
    name, key = call.positionals(2, "a ledger and a key")
    with ledgers.opened(ledgers.existing(name), read_only=True) as store:
        entry = store.get(key)
        earlier = [] if entry is None else _settled_earlier(store, entry)
    if entry is None:
        raise no_entry(key)
    if call.json:
        process = {} if entry.claim is None else {"process": liveness(entry.claim)}
        call.console.out(json_text({**entry.to_json(), **process}))
    else:
        now_ms = call.now_ms()
        text = entry_text(entry, now_ms=now_ms, paint=call.paint, look=lambda one: liveness(one.claim))
        call.console.out(text + "".join(f"{line}\n" for line in _settlements(earlier)))
    return OK


def _settled_earlier(store: Store, entry: Entry) -> Sequence[Entry]:
    """The states that a person or evidence settled before the one it is in now, each once. A file that
    was compacted has lost its history, and an entry of the reference never carried one: each has what
    the other lacks."""
    found: list[Entry] = []
    for state in (*Ledger(store).history(entry.key), *earlier_states(entry)):
        if state.resolution and state.resolution not in [entry.resolution, *(one.resolution for one in found)]:
            found.append(state)
    return found


def _settlements(states: Sequence[Entry]) -> Iterator[str]:
    for state in states:
        what = state.resolution or {}
        note = f": {what['note']}" if what.get("note") else ""
        yield from wrapped(
            f"attempt {js_number(state.attempts)} had been resolved as {what.get('status')} by {what.get('by')} "
            f"at {what.get('at')}{note}",
            "      ",
        )
