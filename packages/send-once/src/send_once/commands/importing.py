"""`send-once import`: copy the entries of one ledger into another that does not hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from send_once.audit import json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, UNRESOLVED, UNUSABLE, Invocation, Refusal
from send_once.entry import Entry, Status
from send_once.stores.addresses import parse_address
from send_once.stores.base import BatchStore, Store
from send_once.terminal import harmless

BATCH = 500


@dataclass(slots=True)
class Imported:
    """What an import did. `unsafe` holds keys that are sent there and not here: a call here would send
    them again."""

    inserted: int = 0
    present: int = 0
    different: int = 0
    unsafe: list[str] = field(default_factory=list)


def run(call: Invocation) -> int:
    name, source = call.positionals(2, "a ledger, and the file or ledger to import from")
    entries = _entries_to_import(source)
    target, dry_run = parse_address(name), call.parsed.has("dry-run")
    result = Imported()
    if dry_run and not target.exists():
        result.inserted = len(entries)
    else:
        with ledgers.opened(target, read_only=dry_run, create=True) as store:
            for start in range(0, len(entries), BATCH):
                _import(store, entries[start : start + BATCH], result, dry_run=dry_run)
    call.console.out(_as_json(result, dry_run) if call.json else _as_text(name, result, dry_run))
    return UNRESOLVED if result.unsafe else OK


def _entries_to_import(source: str) -> Sequence[Entry]:
    reading = ledgers.read(ledgers.existing(source))
    if reading.damaged:
        raise Refusal(
            f"{harmless(source)} has damaged lines ({reading.damaged}), each of which may have been a claim. Look at "
            f"them and accept them first: send-once doctor {harmless(source)}",
            UNUSABLE,
        )
    return reading.entries


def _import(store: Store, entries: Sequence[Entry], result: Imported, *, dry_run: bool) -> None:
    present = {entry.key: store.get(entry.key) for entry in entries}
    absent = [entry for entry in entries if present[entry.key] is None]
    claimed = [True] * len(absent) if dry_run else _claim(store, absent)
    result.inserted += sum(claimed)
    # Lost to someone who claimed in the meantime: like those that were there before.
    lost = [entry for entry, ours in zip(absent, claimed, strict=True) if not ours]
    for entry in [*(one for one in entries if present[one.key] is not None), *lost]:
        _compare(entry, present[entry.key] or store.get(entry.key), result)


def _claim(store: Store, entries: Sequence[Entry]) -> Sequence[bool]:
    if isinstance(store, BatchStore):
        return store.claim_many(entries) if entries else []
    return [store.claim(entry) for entry in entries]


def _compare(theirs: Entry, ours: Entry | None, result: Imported) -> None:
    result.present += 1
    if ours is None or ours == theirs:
        return
    result.different += 1
    if theirs.status is Status.SENT and ours.status is not Status.SENT:
        result.unsafe.append(theirs.key)


def _as_text(name: str, result: Imported, dry_run: bool) -> str:
    did = "Would insert" if dry_run else "Inserted"
    lines = [f"{did} {result.inserted}; {result.present} were there already and stay as they are."]
    if result.different:
        lines.append(f"{result.different} of those differ from what was to be imported.")
    if result.unsafe:
        lines.append(f"{len(result.unsafe)} are recorded as sent there and not here; a call here may send them again:")
        lines += [f"  send-once resolve {harmless(name)} {harmless(key)} sent" for key in result.unsafe]
    return "\n".join(lines) + "\n"


def _as_json(result: Imported, dry_run: bool) -> str:
    return json_text(
        {
            "dryRun": dry_run,
            "inserted": result.inserted,
            "present": result.present,
            "different": result.different,
            "sentThereNotHere": result.unsafe,
        }
    )
