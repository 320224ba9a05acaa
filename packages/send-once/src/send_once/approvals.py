"""Approvals: a person's yes to one exact payload, under the facts they saw, for a limited time.

An approval is plain JSON, equal to the reference's: payloadHash, facts, approvedAt, expiresAt,
approvedBy, and `key` only where it was bound to one. It can be stored anywhere and read by both
implementations. It is not signed: whoever can write it can approve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from send_once import jsontext, protocol
from send_once.canonical import canonical_json, hash_payload
from send_once.certainty import Classify
from send_once.clock import system_clock_ms
from send_once.durations import parse_duration
from send_once.entry import Entry, Json, Status, require_key
from send_once.errors import InvalidInputError, RejectedSendError
from send_once.instants import iso_from_ms, moment_ms, parse_instant
from send_once.outcomes import (
    ChangedFact,
    Claimed,
    DispatchOutcome,
    Duplicate,
    Expired,
    PayloadChanged,
    Refusal,
    StaleFacts,
    Unknown,
)

DEFAULT_TTL: Final = "12h"
RESERVED_META: Final = ("approvedBy", "approvedAt")
_MS_PER_HOUR: Final = 3_600_000
_NOT_GIVEN: Final = object()

ApprovalRecord = dict[str, Json]
"""{"payloadHash", "facts", "approvedAt", "expiresAt", "approvedBy"[, "key"]}"""


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval record, read and checked."""

    payload_hash: str
    facts: Mapping[str, Json]
    approved_at: str
    expires_at: str
    approved_by: Json
    key: str | None

    @property
    def approved_at_ms(self) -> float:
        return parse_instant(self.approved_at) or 0.0

    @property
    def expires_at_ms(self) -> float:
        return parse_instant(self.expires_at) or 0.0


def approve(
    *,
    payload: Json,
    facts: Mapping[str, Json] | None = None,
    ttl: str | float | timedelta = DEFAULT_TTL,
    approved_by: Json = None,
    key: str | None = None,
    now: datetime | float | None = None,
) -> ApprovalRecord:
    """Record a yes to exactly this payload, under these facts, until `now` + `ttl`.

    Returns plain JSON. `now` is an aware datetime or milliseconds, the system clock by default; `ttl` is
    text like "12h" or milliseconds. With `key` the approval can be dispatched under that key only.
    Raises InvalidInputError for a payload or facts that are not JSON, naming the place, and for a `ttl`
    that is zero or not a duration.
    """
    ttl_ms = parse_duration(ttl)
    if ttl_ms <= 0:
        raise InvalidInputError("approve: ttl must be longer than zero.", field="ttl")
    now_ms = system_clock_ms() if now is None else moment_ms(now)
    record: ApprovalRecord = {
        "payloadHash": hash_payload(payload),
        "facts": _facts_snapshot({} if facts is None else facts),
        "approvedAt": iso_from_ms(now_ms),
        "expiresAt": iso_from_ms(now_ms + ttl_ms),
        "approvedBy": _as_json(approved_by, "approved_by"),
    }
    if key is not None:
        record["key"] = require_key(key)
    return record


def read_approval(record: object) -> Approval:
    """Check an approval record from anywhere; InvalidInputError for anything else."""
    if not isinstance(record, Mapping):
        raise _not_an_approval()
    payload_hash, facts, key = record.get("payloadHash"), record.get("facts"), record.get("key")
    approved_at, expires_at = record.get("approvedAt"), record.get("expiresAt")
    if not isinstance(payload_hash, str) or not isinstance(facts, dict):
        raise _not_an_approval()
    if not isinstance(approved_at, str) or parse_instant(approved_at) is None:
        raise _not_an_approval()
    if not isinstance(expires_at, str) or parse_instant(expires_at) is None:
        raise _not_an_approval()
    if key is not None and not isinstance(key, str):
        raise _not_an_approval()
    # Copies: the record is the caller's, and the recheck whose answer is compared with it may change it.
    return Approval(
        payload_hash,
        _copy(facts, "approval.facts"),
        approved_at,
        expires_at,
        _copy(record.get("approvedBy"), "approval.approvedBy"),
        key,
    )


def refusal_by_time(approval: Approval, key: str, now_ms: float) -> Expired | None:
    """Expired strictly after `expiresAt`; at that very millisecond it still holds."""
    if now_ms <= approval.expires_at_ms:
        return None
    age_hours = math.floor((now_ms - approval.approved_at_ms) / _MS_PER_HOUR * 10 + 0.5) / 10
    return Expired(key, approval.approved_at, approval.expires_at, age_hours)


def refusal_by_payload(approval: Approval, key: str, payload: Json) -> PayloadChanged | None:
    current = hash_payload(payload)
    return None if current == approval.payload_hash else PayloadChanged(key, approval.payload_hash, current)


def refusal_by_facts(approval: Approval, key: str, facts: object) -> StaleFacts | None:
    """Every fact the approver saw must still hold; facts that are new are ignored. A fact that is
    missing now counts as changed, also where it was null."""
    if not isinstance(facts, Mapping):
        raise InvalidInputError("dispatch: recheck() must return an object of named facts.", field="recheck")
    changed = tuple(
        ChangedFact(name, before, _as_json(facts.get(name), f"facts.{name}"))
        for name, before in approval.facts.items()
        if name not in facts or canonical_json(facts[name], where=f"facts.{name}") != canonical_json(before)
    )
    return StaleFacts(key, changed) if changed else None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One dispatch, its arguments checked. `payload` is the caller's own object; `snapshot_text` is
    what is sent."""

    approval: Approval
    key: str
    payload: Json
    snapshot_text: str
    meta: Json
    with_recheck: bool


def prepare_dispatch(approval: object, *, key: str, payload: Json, meta: Json, recheck: object) -> Dispatch:
    """Check every argument before the ledger is asked anything."""
    if not isinstance(key, str) or not key:
        raise InvalidInputError("dispatch needs a key.", field="key")
    if recheck is not None and not callable(recheck):
        raise InvalidInputError("dispatch: recheck must be a function returning the facts.", field="recheck")
    checked = read_approval(approval)
    if checked.key is not None and checked.key != key:
        raise InvalidInputError(
            f"dispatch: the approval is bound to key {checked.key}, not {key}. Approve this send for itself.",
            field="key",
        )
    if checked.facts and recheck is None:
        raise InvalidInputError(
            f"dispatch: the approval holds only while its facts do ({', '.join(checked.facts)}). Pass recheck, a "
            "function that answers what they are now, or approve without facts.",
            field="recheck",
        )
    return Dispatch(checked, key, payload, canonical_json(payload), _approved_meta(checked, meta), recheck is not None)


def dispatch(request: Dispatch, classify: Classify) -> protocol.Script[DispatchOutcome[Any]]:
    """Send once, and only while the approval holds.

    Expiry, then payload, then facts, as in the reference; expiry and payload again after the
    recheck and at the moment of each claim, and expiry once more when the claim is durable, because
    taking it may have waited. A key that was already sent is a duplicate whatever the approval says.
    """
    claim = protocol.Request(
        request.key, request.meta, request.approval.payload_hash, guard=lambda now_ms: _refusal_now(request, now_ms)
    )
    try:
        yield from protocol.check(claim.guard)
        if request.with_recheck:
            stale = refusal_by_facts(request.approval, request.key, (yield protocol.Recheck()))
            if stale is not None:
                raise protocol.Refused(stale)
        acquired = yield from protocol.acquire(claim)
    except protocol.Refused as guarded:
        return (yield from _already_settled(request.key, guarded.refusal))
    if not isinstance(acquired, Claimed):
        return acquired
    expired = refusal_by_time(request.approval, request.key, (yield protocol.Now()))
    if expired is not None:
        error = RejectedSendError("The approval expired while the claim was being made; nothing was sent.")
        yield from protocol.settle_error(acquired.entry, error, lambda _error: "failed")
        return expired
    return (yield from protocol.send_and_settle(acquired, classify))


def _refusal_now(request: Dispatch, now_ms: float) -> Refusal | None:
    approval, key = request.approval, request.key
    return (
        refusal_by_time(approval, key, now_ms)
        or refusal_by_payload(approval, key, request.payload)
        # Both the caller's payload and what is sent: it may have changed between the two looks at it.
        or refusal_by_payload(approval, key, jsontext.parse(request.snapshot_text))
    )


def _already_settled(key: str, refusal: Refusal) -> protocol.Script[Refusal | Duplicate | Unknown]:
    """A refusal is only news where nothing was sent: a repeated dispatch learns what became of the key."""
    current: Entry | None = yield protocol.Get(key)
    if current is None or current.status is Status.FAILED:
        return refusal
    return protocol.lost(current)


def _approved_meta(approval: Approval, meta: Json) -> Json:
    own = {"approvedBy": approval.approved_by, "approvedAt": approval.approved_at}
    if meta is None:
        return own
    if not isinstance(meta, Mapping):
        raise InvalidInputError("dispatch: meta must be an object of named values.", field="meta")
    taken = [name for name in RESERVED_META if name in meta]
    if taken:
        raise InvalidInputError(
            f"dispatch: meta must not set {' and '.join(taken)}; the ledger records who approved.", field="meta"
        )
    return {**own, **meta}


def _facts_snapshot(facts: object) -> Json:
    if not isinstance(facts, Mapping):
        raise InvalidInputError("approve: facts must be an object of named values.", field="facts")
    return jsontext.parse(canonical_json(dict(facts), where="facts"))


def _copy(value: object, where: str) -> Json:
    """Its own copy, members in the order they have."""
    return jsontext.parse(jsontext.stringify(value, where=where))


def _as_json(value: object, where: str) -> Json:
    return jsontext.parse(canonical_json(value, where=where))


def _not_an_approval() -> InvalidInputError:
    return InvalidInputError("dispatch: not an approval record. Create one with approve().", field="approval")
