"""`send-once import`: copy the entries of one ledger into another that does not hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from send_once.audit import json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, UNRESOLVED, UNUSABLE, Invocation, Refusal
from send_once.commands.wording import as_command, counted
from send_once.entry import Entry, Status
from send_once.errors import EntryTooLargeError, InvalidInputError
from send_once.stores.addresses import Address
from send_once.stores.base import BatchStore, Store, require_encodable_key
from send_once.terminal import harmless

BATCH = 500


@dataclass(slots=True)
class Imported:
    """What an import did. `unsafe` holds keys that are sent there and not here: a call here would send
    them again. `refused` says of each entry that this ledger cannot hold why."""

    inserted: int = 0
    present: int = 0
    different: int = 0
    unsafe: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def run(call: Invocation) -> int:
    name, source = call.positionals(2, "a ledger, and the file or ledger to import from")
    entries = _entries_to_import(source)
    target, dry_run = ledgers.parsed(name), call.parsed.has("dry-run")
    result = Imported(refused=_impossible(entries, target))
    entries = [entry for entry in entries if entry.key not in result.refused]
    if dry_run and not target.exists():
        result.inserted = len(entries)
    else:
        with ledgers.opened(target, read_only=dry_run, create=True) as store:
            for start in range(0, len(entries), BATCH):
                _import(store, entries[start : start + BATCH], result, dry_run=dry_run)
    call.console.out(_as_json(result, dry_run) if call.json else _as_text(target.shown, result, dry_run))
    return UNRESOLVED if result.unsafe or result.refused else OK


def _entries_to_import(source: str) -> Sequence[Entry]:
    reading = ledgers.read(ledgers.existing(source))
    if reading.damaged:
        raise Refusal(
            f"{harmless(reading.name)} has {counted(reading.damaged, 'damaged line', 'damaged lines')}, and any may "
            f"have been a claim. Look, and accept them first: {as_command('doctor', reading.name)}",
            UNUSABLE,
            "ledger_damaged",
        )
    return reading.entries


def _impossible(entries: Sequence[Entry], target: Address) -> dict[str, str]:
    """Keys that no database can hold, though a file can, found before anything is written. Leaving them
    out is safe: a call for one of them is refused there before its send."""
    found: dict[str, str] = {}
    for entry in entries if target.kind != "file" else ():
        try:
            require_encodable_key(entry.key, store_name=target.shown)
        except InvalidInputError as error:
            found[entry.key] = str(error)
    return found


def _import(store: Store, entries: Sequence[Entry], result: Imported, *, dry_run: bool) -> None:
    present = {entry.key: store.get(entry.key) for entry in entries}
    absent = [entry for entry in entries if present[entry.key] is None]
    claimed = dict.fromkeys((entry.key for entry in absent), True) if dry_run else _claim(store, absent, result)
    result.inserted += sum(claimed.values())
    # Lost to someone who claimed in the meantime: like those that were there before.
    lost = [entry for entry in absent if claimed.get(entry.key) is False]
    for entry in [*(one for one in entries if present[one.key] is not None), *lost]:
        _compare(entry, present[entry.key] or store.get(entry.key), result)


def _claim(store: Store, entries: Sequence[Entry], result: Imported) -> Mapping[str, bool]:
    """Whether each claim was won. A batch with an entry that the store refuses is refused as a whole
    before it is written; one by one, the others still come over."""
    try:
        claimed = store.claim_many(entries) if isinstance(store, BatchStore) and entries else None
    except (InvalidInputError, EntryTooLargeError):
        claimed = None
    if claimed is not None:
        return dict(zip((entry.key for entry in entries), claimed, strict=True))
    return _claim_singly(store, entries, result)


def _claim_singly(store: Store, entries: Sequence[Entry], result: Imported) -> Mapping[str, bool]:
    claimed: dict[str, bool] = {}
    for entry in entries:
        try:
            claimed[entry.key] = store.claim(entry)
        except (InvalidInputError, EntryTooLargeError) as error:
            # Unlike a key that cannot be held, one whose entry is too large can be claimed here.
            again = isinstance(error, EntryTooLargeError) and entry.status is not Status.FAILED
            result.refused[entry.key] = f"{error}{' A call here may send it again.' if again else ''}"
    return claimed


def _compare(theirs: Entry, ours: Entry | None, result: Imported) -> None:
    result.present += 1
    if ours is None or ours == theirs:
        return
    result.different += 1
    if theirs.status is Status.SENT and ours.status is not Status.SENT:
        result.unsafe.append(theirs.key)


def _as_text(name: str, result: Imported, dry_run: bool) -> str:
    did = "Would insert" if dry_run else "Inserted"
    there = counted(result.present, "was there already and stays as it is", "were there already and stay as they are")
    lines = [f"{did} {result.inserted}; {there}."]
    if result.different:
        differ = counted(result.different, "of those differs", "of those differ")
        lines.append(f"{differ} from what was to be imported.")
    if result.refused:
        were = "was" if len(result.refused) == 1 else "were"
        lines.append(f"{len(result.refused)} cannot be kept here and {were} left out:")
        lines += [f"  {harmless(reason)}" for reason in result.refused.values()]
    if result.unsafe:
        lines.append(
            f"{counted(len(result.unsafe), 'is', 'are')} recorded as sent there and not here; a call here may send "
            f"{'it' if len(result.unsafe) == 1 else 'them'} again:"
        )
        lines += [f"  {as_command('resolve', name, key, 'sent')}" for key in result.unsafe]
    return "\n".join(lines) + "\n"


def _as_json(result: Imported, dry_run: bool) -> str:
    return json_text(
        {
            "dryRun": dry_run,
            "inserted": result.inserted,
            "present": result.present,
            "different": result.different,
            "sentThereNotHere": result.unsafe,
            "refused": [{"key": key, "reason": reason} for key, reason in result.refused.items()],
        }
    )
