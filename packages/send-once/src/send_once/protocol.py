"""The algorithm, written once: generators that ask for steps and are handed the answers.

A driver performs each step on a store, plain (`Ledger`) or awaited (`AsyncLedger`), sends the
answer in, and throws in any `Exception` the step raised. `BaseException`s that are not
`Exception`s (KeyboardInterrupt, SystemExit, cancellation) never reach a script: they pass through
the driver and leave the entry as it is, pending if the send had begun. No I/O and no clock here.

    once      acquire ─ Send ─ settle           claim     acquire
    resolve   Get ─ Transition                  settle    Transition, or the late truth
    dispatch  checks ─ Recheck ─ checks ─ once
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, TypeVar

from send_once import moves
from send_once.certainty import Classify
from send_once.entry import Entry, Json, Status
from send_once.errors import (
    AlreadySentError,
    ContendedError,
    EntryTooLargeError,
    InvalidInputError,
    KeyReusedError,
    LedgerDamagedError,
    LockTimeoutError,
    NotFoundError,
    StoreInconsistentError,
    UnsafeStoreError,
)
from send_once.foreign import is_awaitable
from send_once.outcomes import (
    Claimed,
    ClaimOutcome,
    Duplicate,
    Failed,
    Outcome,
    Refusal,
    SendContext,
    Sent,
    Unknown,
)
from send_once.results import refuse_result

T = TypeVar("T")

ROUNDS_MAX: Final = 5
"""How often a compare-and-set is tried anew when the entry changed underneath, as in the reference."""

NOT_APPLIED: Final = (
    InvalidInputError,
    EntryTooLargeError,
    LedgerDamagedError,
    LockTimeoutError,
    UnsafeStoreError,
)
"""Store errors that say for certain that nothing was written; any other leaves it open."""


class Now(NamedTuple):
    """Answer: the clock, in milliseconds since the epoch."""


class Begin(NamedTuple):
    """Answer: a new :class:`ClaimMark` of this process, carrying `payload`, and the clock."""

    payload: str | None


class Claim(NamedTuple):
    """Answer: True if the store inserted `entry`; False, or the entry that is in the way, if not."""

    entry: Entry


class Transition(NamedTuple):
    """Answer: whether the store replaced `came_from` by `entry`."""

    came_from: Entry
    entry: Entry


class Get(NamedTuple):
    """Answer: the stored entry, or None."""

    key: str


class Send(NamedTuple):
    """Answer: what the send function returned; an Exception it raised is thrown in."""

    context: SendContext


class Recheck(NamedTuple):
    """Answer: the facts as of now."""


Step = Now | Begin | Claim | Transition | Get | Send | Recheck
Script = Generator[Step, Any, T]

Guard = Callable[[float], Refusal | None]
"""Asked with the time in milliseconds before each claim and again before the send."""


class Request(NamedTuple):
    """One intended send. `payload_hash` is compared with that of an earlier claim of the key."""

    key: str
    meta: Json = None
    payload_hash: str | None = None
    guard: Guard | None = None


def once(request: Request, classify: Classify) -> Script[Outcome[Any]]:
    """Claim, send, record. The send runs only after its claim is durable and known to be ours."""
    acquired = yield from acquire(request)
    if not isinstance(acquired, Claimed):
        return acquired
    return (yield from send_and_settle(acquired, classify))


def send_and_settle(claimed: Claimed, classify: Classify) -> Script[Outcome[Any]]:
    try:
        result = yield Send(claimed.context)
    except Exception as error:  # noqa: BLE001  # whatever the send raised is its outcome, never lost
        return (yield from settle_error(claimed.entry, error, classify))
    return (yield from settle_result(claimed.entry, result))


class Refused(Exception):  # noqa: N818  # not an error: carries a refusal out of `acquire` to `dispatch`
    """The guard refused before a claim was made."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.outcome)
        self.refusal = refusal


def acquire(request: Request) -> Script[ClaimOutcome]:
    """Claim the key, or learn why not. `Claimed` means: durable, and known by its id to be ours."""
    mark, now_ms = yield Begin(request.payload_hash)
    _refuse(request.guard, now_ms)
    entry = moves.claimed(request.key, meta=request.meta, mark=mark, now_ms=now_ms)
    applied = yield from _ask(Claim(entry), entry)
    if applied is True:
        return Claimed(request.key, entry)
    return (yield from after_claim(request, entry, applied=applied))


def after_claim(request: Request, entry: Entry, *, applied: bool | Entry) -> Script[ClaimOutcome]:
    """Go on from the store's answer to a first claim of `entry`."""
    for _ in range(ROUNDS_MAX):
        if applied is True:
            return Claimed(request.key, entry)
        current = _of(request.key, applied) if isinstance(applied, Entry) else (yield from get(request.key))
        if current is None:
            raise StoreInconsistentError(
                f"The store refused to claim {request.key} but has no entry for it. Check the store's claim()."
            )
        if current.claim_id == entry.claim_id and current.status is Status.PENDING:
            # A driver that repeated our write by itself is told "already there": it is ours. No longer
            # pending, it was settled before we saw it, and a failed one may be sent by anyone by now.
            applied = True
            continue
        if current.status is not Status.FAILED:
            refuse_other_payload(current, request.payload_hash)
            return lost(current)
        entry, applied = yield from _retry(request, current)
    if applied is True:
        return Claimed(request.key, entry)
    raise ContendedError(f"Gave up claiming {request.key}: it kept changing underneath.")


def settle_result(attempt: Entry, result: T) -> Script[Sent[T]]:
    """Record that the send went out. Also when the attempt was written off meanwhile: a late truth
    becomes `sent`, and never overwrites another attempt's claim unseen."""
    refused = refuse_result(result)
    if refused is not None:
        yield from _leave_unknown(attempt, str(refused), (yield Now()))
        raise refused
    provider_id = moves.provider_id_of(result)
    try:
        now_ms = yield Now()
        entry = moves.sent(attempt, provider_id=provider_id, now_ms=now_ms)
        if not (yield Transition(attempt, entry)):
            entry = yield from _record_late_success(attempt, entry, provider_id, now_ms)
    except Exception as error:
        error.add_note(
            f"{attempt.key} was sent (provider id {provider_id!r}), but that could not be recorded. The entry "
            "stays pending and is not sent again; settle it with resolve(key, 'sent')."
        )
        raise
    return Sent(attempt.key, entry, result)


def settle_error(attempt: Entry, error: Exception, classify: Classify) -> Script[Failed | Unknown]:
    """Record how the send ended. Writes only over its own attempt while that is pending."""
    now_ms = yield Now()
    text = moves.error_text(error)
    if classify(error) == "unknown":
        current = yield from _leave_unknown(attempt, text, now_ms)
        return Unknown(attempt.key, current, error)
    current = yield from _replace_own(attempt, lambda own: moves.failed(own, error=text, now_ms=now_ms))
    return Failed(attempt.key, current, error)


def resolve(key: str, status: Status, *, by: str | None, note: str | None, provider_id: str | None) -> Script[Entry]:
    """Settle by hand or by evidence. `sent` never goes back; the same status again changes nothing."""
    for _ in range(ROUNDS_MAX):
        current = yield from get(key)
        if current is None:
            raise NotFoundError(f"No entry for {key}.")
        entry = yield from resolve_entry(current, status, by=by, note=note, provider_id=provider_id)
        if entry is not None:
            return entry
    raise ContendedError(f"Gave up resolving {key}: it kept changing underneath.")


def resolve_entry(
    current: Entry, status: Status, *, by: str | None, note: str | None, provider_id: str | None
) -> Script[Entry | None]:
    """Settle exactly the entry that was seen. None if it changed meanwhile."""
    if current.status is status:
        return current
    if current.status is Status.SENT:
        raise AlreadySentError(
            f"{current.key} is recorded as sent. It cannot be marked failed, because a failed entry may be sent again."
        )
    now_ms = yield Now()
    entry = moves.resolved(current, status, by=by, note=note, provider_id=provider_id, now_ms=now_ms)
    return entry if (yield Transition(current, entry)) else None


def get(key: str) -> Script[Entry | None]:
    current: Entry | None = yield Get(key)
    return None if current is None else _of(key, current)


def _of(key: str, found: Entry) -> Entry:
    if found.key != key:
        raise StoreInconsistentError(
            f"Asked for the entry of {key!r}, the store gave that of {found.key!r}: it takes two keys for one, and one "
            "of the sends would never happen. Give its key column a collation that tells all texts apart, or use "
            "keys from send_key()."
        )
    return found


def lost(current: Entry) -> Duplicate | Unknown:
    """What a caller learns whose claim was refused by an entry that is not failed."""
    if current.status is Status.SENT:
        return Duplicate(current.key, current)
    return Unknown(current.key, current)


def refuse_other_payload(current: Entry, payload_hash: str | None) -> None:
    """Refuse a key whose send went out, or may have, with another payload than this caller's."""
    if payload_hash is None:
        return
    earlier = current.claim.payload if current.claim is not None else None
    if earlier is None or earlier == payload_hash:
        return
    state = "was sent" if current.status is Status.SENT else "is pending"
    raise KeyReusedError(
        f"{current.key} {state} with another payload (sha256 {earlier[:12]}…, not {payload_hash[:12]}…). "
        "A key names one intended send: use another intent or window for another message."
    )


def check(guard: Guard | None) -> Script[float]:
    """Ask the clock and the guard. Answers the time in milliseconds; raises :class:`Refused`."""
    now_ms: float = yield Now()
    _refuse(guard, now_ms)
    return now_ms


def _refuse(guard: Guard | None, now_ms: float) -> None:
    refusal = guard(now_ms) if guard is not None else None
    if refusal is not None:
        raise Refused(refusal)


def _retry(request: Request, current: Entry) -> Script[tuple[Entry, bool | Entry]]:
    """Claim a failed entry anew; its next attempt has its own id."""
    mark, now_ms = yield Begin(request.payload_hash)
    _refuse(request.guard, now_ms)
    entry = moves.retried(current, meta=request.meta, mark=mark, now_ms=now_ms)
    applied = yield from _ask(Transition(current, entry), entry)
    return entry, applied


def _ask(step: Claim | Transition, entry: Entry) -> Script[bool | Entry]:
    """Claim, and when the store fails to answer, look whether our claim is there all the same."""
    try:
        answer = yield step
        return True if answer is True else _claim_answer(answer)
    except NOT_APPLIED:
        raise
    except Exception as error:
        ours = yield from is_stored(entry)
        if not ours:
            raise
        error.add_note("The claim had been applied; it was recognised by its id.")
        return True


def _claim_answer(answer: object) -> bool | Entry:
    if isinstance(answer, Entry):
        return answer
    if is_awaitable(answer):
        # True by Python's rules, though nothing has been claimed.
        raise InvalidInputError("The store's claim() must be awaited. Use AsyncLedger.", field="store")
    return bool(answer)


def is_stored(entry: Entry) -> Script[bool]:
    """Whether exactly this claim stands in the store now; False also when the store does not answer."""
    try:
        current = yield Get(entry.key)
    except Exception:  # noqa: BLE001  # asking failed too: the first error is the one to report
        return False
    return current is not None and current.claim_id == entry.claim_id and current.status is Status.PENDING


def _leave_unknown(attempt: Entry, text: str, now_ms: float) -> Script[Entry]:
    return (yield from _replace_own(attempt, lambda own: moves.left_unknown(own, error=text, now_ms=now_ms)))


def _replace_own(attempt: Entry, ended: Callable[[Entry], Entry]) -> Script[Entry]:
    """Write the attempt's end over its own pending entry; leave anything else that stands there."""
    current = attempt
    for _ in range(ROUNDS_MAX):
        entry = ended(attempt)
        if (yield Transition(current, entry)):
            return entry
        stored = yield from get(attempt.key)
        if stored is None:
            # Someone deleted it. Absent would mean "never tried": put the truth back, if still absent.
            if (yield Claim(entry)) is True:
                return entry
            continue
        if stored.status is not Status.PENDING or not stored.same_attempt(attempt):
            return stored
        current = stored
    return current


def _record_late_success(attempt: Entry, entry: Entry, provider_id: str | None, now_ms: float) -> Script[Entry]:
    """The stored entry is no longer the one we claimed. What went out is recorded all the same."""
    for _ in range(ROUNDS_MAX):
        current = yield from get(attempt.key)
        if current is None:
            # Deleted: absent would mean "may be sent".
            if (yield Claim(entry)) is True:
                return entry
            continue
        if current.status is Status.SENT:
            return current
        if not current.same_attempt(attempt):
            entry = moves.sent_by_earlier_attempt(current, attempt, provider_id=provider_id, now_ms=now_ms)
        if (yield Transition(current, entry)):
            return entry
    raise ContendedError(
        f"{attempt.key} was sent (provider id {provider_id!r}) but recording it failed {ROUNDS_MAX} times because "
        f"the entry kept changing underneath. Record it with resolve(key, 'sent')."
    )
