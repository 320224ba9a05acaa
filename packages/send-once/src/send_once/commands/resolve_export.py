"""`send-once resolve --from-export`: settle many sends from a provider's export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from send_once.audit import json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, UNRESOLVED, UNUSABLE, Invocation, Refusal
from send_once.commands.settling import Settled, may_be_sending, settle
from send_once.commands.wording import counted
from send_once.entry import Status
from send_once.errors import AlreadySentError, InvalidInputError, NotFoundError
from send_once.exports import Columns, Plan, plan, read_rows
from send_once.settings import Settlement, checked_settlement
from send_once.stores.base import Store
from send_once.terminal import harmless

STAYS_SENT = "recorded as sent; a failed entry may be sent again, so it stays"
STILL_RUNNING = "still running here, and may be sending; say --even-if-running to mark it failed all the same"


@dataclass(slots=True)
class Settlements:
    """What became of an export: counts, and for each key that stays open, why."""

    rows: int
    done: Counter[Status] = field(default_factory=Counter)
    already: int = 0
    absent: int = 0
    left: dict[str, str] = field(default_factory=dict)


def run(call: Invocation) -> int:
    (name,) = call.positionals(1, "one ledger, and no key, beside --from-export")
    path = call.text("from-export") or ""
    checked_settlement("any", Status.SENT, call.parsed.get("note"), None)  # once, and not for every row
    wanted = _plan(call, path)
    dry_run = call.parsed.has("dry-run")
    with ledgers.opened(ledgers.existing(name), read_only=dry_run) as store:
        result = _settle(call, store, wanted, dry_run=dry_run)
    call.console.out(_as_json(result, dry_run) if call.json else _as_text(result, dry_run))
    return UNRESOLVED if result.left else OK


def _plan(call: Invocation, path: str) -> Plan:
    columns = _columns(call)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Refusal(f"Cannot read {harmless(path)}: {why}.", UNUSABLE, "os_error") from None
    return plan(read_rows(text, name=path), columns, _words(call), source=path)


def _columns(call: Invocation) -> Columns:
    key, status = call.text("key-column") or "key", call.text("status-column") or "status"
    if key == status:
        raise Refusal(f"--key-column and --status-column name one column, {harmless(key)}.", UNUSABLE)
    return Columns(key, status, call.text("provider-id-column"))


def _words(call: Invocation) -> Mapping[str, Status]:
    words: dict[str, Status] = {}
    for status, name in ((Status.SENT, "sent-when"), (Status.FAILED, "failed-when")):
        given = call.parsed.get(name)
        for word in (status.value if given is None else given).split(","):
            if words.setdefault(word.strip().lower(), status) is not status:
                raise InvalidInputError(f"{word.strip()!r} stands in --sent-when and in --failed-when.", field=name)
    words.pop("", None)
    return words


def _settle(call: Invocation, store: Store, wanted: Plan, *, dry_run: bool) -> Settlements:
    result = Settlements(wanted.rows)
    for one in wanted.settlements:
        try:
            answer = _foreseen(call, store, one) if dry_run else _settle_one(call, store, one)
        except NotFoundError:
            result.absent += 1
        except AlreadySentError:
            result.left[one.key] = STAYS_SENT
        except InvalidInputError as error:
            _leave(one.key, error, result)
        else:
            _count(answer, one, result)
    for key, word in wanted.without_meaning.items():
        try:
            entry = store.get(key)
        except InvalidInputError as error:
            _leave(key, error, result)
            continue
        if entry is None:
            result.absent += 1
        elif entry.status is Status.PENDING:
            result.left[key] = f"the export says {word!r}, which stands neither in --sent-when nor in --failed-when"
    return result


def _leave(key: str, error: InvalidInputError, result: Settlements) -> None:
    """One row that cannot be recorded keeps no other from it. A key that a store cannot hold is not in it."""
    if error.field == "key":
        result.absent += 1
    else:
        result.left[key] = str(error)


def _count(answer: Settled | str, one: Settlement, result: Settlements) -> None:
    if isinstance(answer, str):
        result.left[one.key] = STILL_RUNNING
    elif answer.before.status is one.status:
        result.already += 1
    else:
        result.done[one.status] += 1


def _settle_one(call: Invocation, store: Store, one: Settlement) -> Settled | str:
    noted = replace(one, note=call.parsed.get("note") or one.note)
    return settle(store, noted, by=call.by(), now_ms=call.now_ms, even_if_running=call.even_if_running)


def _foreseen(call: Invocation, store: Store, one: Settlement) -> Settled | str:
    """What settling would answer now, without doing it."""
    checked_settlement(one.key, one.status, one.note, one.provider_id)
    entry = store.get(one.key)
    if entry is None:
        raise NotFoundError(one.key)
    if entry.status is Status.SENT and one.status is Status.FAILED:
        raise AlreadySentError(one.key)
    if may_be_sending(entry, one.status) and not call.even_if_running:
        return STILL_RUNNING
    return Settled(entry, entry)


def _as_text(result: Settlements, dry_run: bool) -> str:
    did = "Would settle" if dry_run else "Settled"
    sent, failed = result.done[Status.SENT], result.done[Status.FAILED]
    lines = [
        f"{did} {sent} as sent and {failed} as failed, from {counted(result.rows, 'row', 'rows')}.",
        *([f"{counted(result.already, 'was', 'were')} settled so already."] if result.already else []),
        *([f"{counted(result.absent, 'is', 'are')} not in this ledger."] if result.absent else []),
        *([f"{counted(len(result.left), 'stays as it is', 'stay as they are')}:"] if result.left else []),
        *(f"  {harmless(key)}: {harmless(reason)}" for key, reason in result.left.items()),
    ]
    return "\n".join(lines) + "\n"


def _as_json(result: Settlements, dry_run: bool) -> str:
    left: Sequence[dict[str, str]] = [{"key": key, "reason": reason} for key, reason in result.left.items()]
    return json_text(
        {
            "dryRun": dry_run,
            "rows": result.rows,
            "settled": {"sent": result.done[Status.SENT], "failed": result.done[Status.FAILED]},
            "already": result.already,
            "notInLedger": result.absent,
            "left": left,
        }
    )
