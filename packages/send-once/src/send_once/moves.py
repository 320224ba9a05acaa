"""The entry after each event: pure functions from values and `now_ms`, one per kind of write.

Member order is the reference's: the six of a claim first, then what ended the attempt, `claim` last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from send_once import jsontext
from send_once.entry import ClaimMark, Entry, Json, Parts, Status, countable
from send_once.foreign import is_a
from send_once.instants import iso_from_ms

ERROR_TEXT_MAX_CHARS: Final = 4_000
PROVIDER_ID_MAX_CHARS: Final = 1_000
EARLIER_ATTEMPTS_MAX: Final = 10
EARLIER_ERROR_MAX_CHARS: Final = 300

PROVIDER_ID_NAMES: Final = ("provider_id", "providerId", "message_id", "messageId", "id", "sid")


def claimed(key: str, *, meta: Json, mark: ClaimMark, now_ms: float) -> Entry:
    """A first claim. `meta` is snapshotted: later changes by the caller do not reach the ledger."""
    meta_text = "null" if meta is None else jsontext.stringify(meta, where="meta")
    return _claim_entry(key, 1, meta_text, mark, now_ms)


def retried(existing: Entry, *, meta: Json, mark: ClaimMark, now_ms: float) -> Entry:
    """The next attempt of a failed entry. Only a `meta` of None carries the old one over; everything
    the earlier attempt left is dropped, as in the reference, but kept in the mark's `before`."""
    carried = existing.meta if meta is None else meta
    mark = mark._replace(before=(*_before(existing), _attempt_record(existing))[-EARLIER_ATTEMPTS_MAX:])
    meta_text: str | None = jsontext.stringify(carried, where="meta", infinity_as_null=meta is None)
    if meta is None and not existing.has("meta"):
        meta_text = None
    return _claim_entry(existing.key, countable(existing.attempts) + 1, meta_text, mark, now_ms)


def sent(attempt: Entry, *, provider_id: str | None, now_ms: float) -> Entry:
    now = iso_from_ms(now_ms)
    provider_id_text = "null" if provider_id is None else jsontext.stringify_text(provider_id)
    return _ended(attempt, Status.SENT, now, f',"sentAt":"{now}","providerId":{provider_id_text}')


def failed(attempt: Entry, *, error: str, now_ms: float) -> Entry:
    return _ended(attempt, Status.FAILED, iso_from_ms(now_ms), _error_member(error))


def left_unknown(attempt: Entry, *, error: str, now_ms: float) -> Entry:
    return _ended(attempt, Status.PENDING, iso_from_ms(now_ms), f'{_error_member(error)},"uncertain":true')


def sent_by_earlier_attempt(current: Entry, attempt: Entry, *, provider_id: str | None, now_ms: float) -> Entry:
    """A late truth: `attempt` went out, though a later one (`current`) holds the key by now. What the
    later one left stays readable, and `lateAttempt` names whose success it is."""
    now = iso_from_ms(now_ms)
    return current.evolve(
        {
            "status": Status.SENT.value,
            "updatedAt": now,
            "sentAt": now,
            "providerId": provider_id,
            "lateAttempt": attempt.attempts,
        }
    )


def resolved(
    current: Entry, status: Status, *, by: str | None, note: str | None, provider_id: str | None, now_ms: float
) -> Entry:
    """Settled by a person or by evidence: everything else in the entry stays."""
    now = iso_from_ms(now_ms)
    resolution = {"status": status.value, "from": current.status.value, "by": by, "note": note, "at": now}
    changes: dict[str, Json] = {"status": status.value, "updatedAt": now, "resolution": resolution}
    if provider_id:
        changes["providerId"] = provider_id
    return current.evolve(changes)


def provider_id_of(result: object) -> str | None:
    """The provider's id in what `send` returned: a non-empty string, or the first non-empty string
    among `PROVIDER_ID_NAMES` of a mapping or object. Longer ones are cut."""
    if is_a(result, str):
        return result[:PROVIDER_ID_MAX_CHARS] or None
    if result is None or is_a(result, (bool, int, float, list, tuple, bytes)):
        return None
    found = (_member(result, name) for name in PROVIDER_ID_NAMES)
    return next((value[:PROVIDER_ID_MAX_CHARS] for value in found if is_a(value, str) and value), None)


def error_text(error: BaseException) -> str:
    """What the ledger keeps of an exception: its text, or its type's name where it has none or
    its text cannot be had. Never raises, because the send has already run."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # an exception whose __str__ raises is still an ended send
        text = ""
    text = text or type(error).__name__
    return text if len(text) <= ERROR_TEXT_MAX_CHARS else text[: ERROR_TEXT_MAX_CHARS - 1] + "…"


def _claim_entry(key: str, attempts: int, meta: str | None, mark: ClaimMark, now_ms: float) -> Entry:
    now = iso_from_ms(now_ms)
    parts = Parts(jsontext.stringify_text(key), meta, mark.to_text())
    return _composed(parts, key, Status.PENDING, attempts, now, now, "", mark.id)


def _error_member(error: str) -> str:
    return f',"error":{jsontext.stringify_text(error)}'


def _ended(attempt: Entry, status: Status, now: str, ending: str) -> Entry:
    return _composed(
        attempt.parts(), attempt.key, status, attempt.attempts, attempt.claimed_at, now, ending, attempt.claim_id
    )


def _composed(
    parts: Parts,
    key: str,
    status: Status,
    attempts: int,
    claimed_at: str,
    updated_at: str,
    ending: str,
    claim_id: str | None,
) -> Entry:
    """The entry whose text is: the members of a claim, `ending` (members with a comma before each), the claim."""
    meta = "" if parts.meta is None else f',"meta":{parts.meta}'
    claim = "" if parts.claim is None else f',"claim":{parts.claim}'
    stamps = f'"claimedAt":{jsontext.stringify_text(claimed_at)},"updatedAt":"{updated_at}"'
    text = f'{{"key":{parts.key},"status":"{status}","attempts":{attempts},{stamps}{meta}{ending}{claim}}}'
    return Entry.composed(
        text,
        parts,
        key=key,
        status=status,
        attempts=attempts,
        claimed_at=claimed_at,
        updated_at=updated_at,
        claim_id=claim_id,
    )


def _before(existing: Entry) -> tuple[Json, ...]:
    mark = existing.claim
    return mark.before if mark is not None else ()


def _attempt_record(existing: Entry) -> dict[str, Json]:
    record: dict[str, Json] = {
        "attempt": existing.attempts,
        "claimedAt": existing.claimed_at,
        "updatedAt": existing.updated_at,
        "status": existing.status.value,
        "error": existing.error and existing.error[:EARLIER_ERROR_MAX_CHARS],
    }
    if existing.resolution is not None:
        record["resolution"] = dict(existing.resolution)
    return record


def _member(result: object, name: str) -> object:
    try:
        return result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
    except Exception:  # noqa: BLE001  # an object of another library: raising must not turn a sent message into a failure
        return None
