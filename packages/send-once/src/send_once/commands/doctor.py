"""`send-once doctor`: whether a ledger is sound, and accepting damage once someone has looked."""

from __future__ import annotations

from collections.abc import Sequence

from send_once.audit import json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, UNRESOLVED, UNUSABLE, Invocation, Refusal
from send_once.commands.findings import Finding, as_json, as_text
from send_once.stores.addresses import Address
from send_once.terminal import harmless


def run(call: Invocation) -> int:
    (name,) = call.positionals(1, "one ledger")
    address = ledgers.existing(name)
    if call.parsed.has("accept-damage"):
        return _accept(call, address)
    findings = _examine(address, call.now_ms())
    if call.json:
        call.console.out(json_text({"ledger": address.shown, "findings": as_json(findings)}))
    else:
        call.console.out(as_text(findings, call.paint))
    return UNRESOLVED if any(finding.level == "bad" for finding in findings) else OK


def _examine(address: Address, now_ms: float) -> Sequence[Finding]:
    match address.kind:
        case "file":
            from send_once.commands.doctor_file import examine

            return examine(address.target, shown=address.shown, now_ms=now_ms)
        case "sqlite":
            from send_once.commands.doctor_sqlite import examine as examine_sqlite

            return examine_sqlite(address.target, address.table)
        case "postgres":
            from send_once.commands.doctor_postgres import examine as examine_postgres

            return examine_postgres(address.target, address.table)


def _accept(call: Invocation, address: Address) -> int:
    if address.kind != "file":
        raise Refusal("Only a ledger file can have damaged lines.", UNUSABLE, "not_supported")
    by = call.parsed.get("by")
    if not by or not by.strip():
        raise Refusal("--accept-damage needs --by NAME: who has looked at the lines.", UNUSABLE)
    from send_once.stores.file import FileStore

    with FileStore(address.target, create=False) as store:
        accepted = store.accept_damage(by=by, note=call.parsed.get("note"))
    numbers = [line.number for line in accepted]
    if call.json:
        call.console.out(json_text({"ledger": address.shown, "accepted": numbers, "by": by}))
    else:
        lines = f"{'line' if len(numbers) == 1 else 'lines'} {', '.join(map(str, numbers))}"
        done = f"Accepted as {harmless(by)}: {lines}. Claims go on." if numbers else "There is no damage to accept."
        call.console.out(f"{done}\n")
    return OK
