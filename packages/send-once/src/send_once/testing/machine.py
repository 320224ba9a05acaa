"""A world of callers around one ledger, advanced step by step, with the truth beside it.

Each caller is a script of the protocol. The world performs its steps one at a time, in any order the
test chooses, crashes callers, fails store calls before or after they were applied, moves the clock, and
lets people resolve. It keeps what really happened: which attempts' send ran, and which messages arrived.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from send_once import approvals, batches, protocol, reconciling
from send_once.certainty import classifier
from send_once.entry import Entry, Status
from send_once.errors import RejectedSendError, SendOnceError, UncertainSendError
from send_once.outcomes import Absent, Claimed, Evidence, Found, SendContext
from send_once.owner import Liveness, new_mark
from send_once.stores.base import BatchStore, Store
from send_once.testing.faults import StoreFault

Ending = Literal["accepted", "refused", "lost answer", "accepted, lost answer"]
"""How one send really ended. In the last two the caller hears only a timeout."""

T = TypeVar("T")

FaultMoment = Literal["no", "before", "after", "repeated"]
"""When a store call fails. A call that is `repeated`, as some drivers do by themselves, answers as its second time."""

_CLASSIFY = classifier()


@dataclass(slots=True)
class Caller:
    """One call of the ledger under way."""

    script: Generator[Any, Any, Any] = field(repr=False)
    step: Any = field(default=None, repr=False)
    outcome: Any = None
    error: BaseException | None = None
    sends: dict[str, Ending | None] = field(default_factory=dict)
    """How its send of each key ended; None while it is under way."""
    claims: dict[str, str | None] = field(default_factory=dict)
    """For each key, the id of the last claim it tried to make: the one its send stands on."""
    expires_at_ms: float = float("inf")
    """Until when the approval behind it holds."""
    facts_hold: bool = True
    told_ms: float = 0.0
    """The last time of day it was told."""

    @property
    def ended(self) -> bool:
        return self.step is None

    @property
    def told(self) -> list[Any]:
        """The outcomes it was told: one, or of a batch those that are no errors."""
        told = self.outcome if isinstance(self.outcome, list) else [self.outcome]
        return [outcome for outcome in told if outcome is not None and not isinstance(outcome, Exception)]

    @property
    def send_ran(self) -> bool:
        return bool(self.sends)


@dataclass(slots=True)
class Truth:
    """What really happened to one key."""

    sends: list[tuple[str | None, int]] = field(default_factory=list)
    """(claim id, attempt) of every send that ran."""
    arrived: int = 0
    wrongly_written_off: int = 0
    """How often someone marked it failed although it had arrived, or a send was under way."""
    was_sent: bool = False
    attempts: int = 0
    """The highest attempt the ledger has shown."""
    written_off_alive: set[str | None] = field(default_factory=set)
    """Claims a person marked failed while their caller lived: it may send all the same."""
    closed: set[str | None] = field(default_factory=set)
    """Claims that may be followed by another send: refused by the provider, or marked failed by a person."""


class World:
    """Callers, a store, and the truth. `check()` holds after every move."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now_ms = 1_790_510_400_000.0
        self.callers: list[Caller] = []
        self.truth: dict[str, Truth] = {}

    def start(self, key: str) -> Caller:
        """Begin a call of `once`; its first step is not performed yet."""
        return self._begin([key], Caller(protocol.once(protocol.Request(key), _CLASSIFY)))

    def start_batch(self, keys: Sequence[str]) -> Caller:
        """Begin to claim several keys at once, send those that are ours, and record all outcomes at once."""
        return self._begin(keys, Caller(_batch(keys)))

    def dispatch(self, key: str, *, ttl_ms: float, facts_hold: bool) -> Caller:
        """Begin a dispatch under an approval that was given now."""
        approval = approvals.approve(payload={"key": key}, facts={"due": True}, ttl=ttl_ms, now=self.now_ms)
        request = approvals.prepare_dispatch(approval, key=key, payload={"key": key}, meta=None, recheck=dict)
        script = approvals.dispatch(request, _CLASSIFY)
        return self._begin([key], Caller(script, expires_at_ms=self.now_ms + ttl_ms, facts_hold=facts_hold))

    def reconcile(self, key: str) -> None:
        """The provider is asked about a pending key, and tells the truth."""
        entry = self.store.get(key)
        if entry is None or entry.status is not Status.PENDING:
            return
        truth = self.truth.setdefault(key, Truth())
        liveness: Liveness = "running here" if self._is_under_way(entry) else "process gone"
        settled = self._run(reconciling.settle_by_evidence(entry, _evidence(truth), liveness))
        if isinstance(settled, Entry) and settled.status is Status.FAILED:
            truth.closed.add(settled.claim_id)

    def advance(self, caller: Caller, *, fault: FaultMoment = "no", ending: Ending = "accepted") -> None:
        """Perform the caller's step and hand it the answer, or the error."""
        script = caller.script
        try:
            answer = self._perform(caller, fault, ending)
        except (StoreFault, SendOnceError, RejectedSendError, UncertainSendError) as error:
            self._resume(caller, functools.partial(script.throw, error))
        else:
            self._resume(caller, functools.partial(script.send, answer))

    def crash(self, caller: Caller) -> None:
        """The caller's process dies where it stands."""
        caller.script.close()
        caller.step = None

    def resolve(self, key: str, status: Status) -> None:
        """A person settles the key, rightly or wrongly."""
        truth = self.truth.setdefault(key, Truth())
        before = self.store.get(key)
        alive = self._is_under_way(before)
        script = protocol.resolve(key, status, by="someone", note=None, provider_id=None)
        try:
            after = self._run(script)
        except SendOnceError:
            return
        if before is not None and before.status is Status.PENDING and after.status is Status.FAILED:
            truth.closed.add(after.claim_id)
            truth.wrongly_written_off += alive or truth.arrived > 0
            if alive:
                truth.written_off_alive.add(after.claim_id)

    def check(self) -> None:
        """What must hold at every moment, whatever has happened."""
        for key, truth in self.truth.items():
            entry = self.store.get(key)
            attempts = [attempt for _, attempt in truth.sends]
            ids = [claim_id for claim_id, _ in truth.sends]
            assert len(set(ids)) == len(ids), f"{key}: one claim sent twice: {truth.sends}"
            assert len(set(attempts)) == len(attempts), f"{key}: one attempt sent twice: {truth.sends}"
            in_order = attempts == sorted(attempts) or truth.written_off_alive
            assert in_order, f"{key}: attempts out of order: {truth.sends}"
            assert not truth.sends or entry is not None, f"{key}: its send ran and it is forgotten"
            allowed = 1 + truth.wrongly_written_off
            assert truth.arrived <= allowed, f"{key}: {truth.arrived} copies arrived, {allowed} can be explained"
            if entry is not None:
                assert not truth.was_sent or entry.status is Status.SENT, f"{key}: sent went back to {entry.status}"
                truth.was_sent = entry.status is Status.SENT
                assert entry.attempts >= truth.attempts, f"{key}: attempt {truth.attempts} was forgotten"
                truth.attempts = entry.attempts
                if entry.status is Status.FAILED and truth.arrived > 0:
                    assert truth.wrongly_written_off > 0, f"{key}: arrived, and the ledger says failed"

    def check_told(self, caller: Caller) -> None:
        """What a caller was told must be true."""
        for outcome in caller.told:
            self._check_told(caller, outcome.outcome, outcome.key)

    def _check_told(self, caller: Caller, word: str, key: str) -> None:
        entry, ending = self.store.get(key), caller.sends.get(key)
        if word in ("expired", "payload_changed", "stale_facts"):
            assert key not in caller.sends, f"{key}: told {word}, and its send ran"
            return
        assert entry is not None, f"{key}: told {word}, and there is no entry"
        if word in ("sent", "duplicate"):
            assert entry.status is Status.SENT, f"{key}: told {word}, and the ledger says {entry.status}"
        if word == "duplicate":
            assert key not in caller.sends, f"{key}: told duplicate by a call that sent"
        if word == "sent":
            assert ending == "accepted", f"{key}: told sent, and its send ended: {ending}"
        if word == "failed":
            assert ending == "refused", f"{key}: told failed, and its send ended: {ending}"
        if word == "unknown":
            assert ending not in ("accepted", "refused"), f"{key}: told unknown, and its send ended: {ending}"

    def _begin(self, keys: Sequence[str], caller: Caller) -> Caller:
        caller.step = next(caller.script)
        self.callers.append(caller)
        for key in keys:
            self.truth.setdefault(key, Truth())
        return caller

    def _is_under_way(self, entry: Entry | None) -> bool:
        """Whether the caller that made the entry's claim is alive: it sends, or is about to."""
        if entry is None or entry.claim_id is None:
            return False
        return any(not caller.ended and entry.claim_id in caller.claims.values() for caller in self.callers)

    def _perform(self, caller: Caller, fault: FaultMoment, ending: Ending) -> Any:
        match caller.step:
            case protocol.Now():
                caller.told_ms = self.now_ms
                return self.now_ms
            case protocol.Begin(payload=payload):
                mark = new_mark(payload)
                caller.told_ms = self.now_ms
                return mark, self.now_ms
            case protocol.Recheck():
                return {"due": caller.facts_hold}
            case protocol.Claim(entry=entry):
                caller.claims[entry.key] = entry.claim_id
                return self._at_store(fault, lambda: self.store.claim(entry))
            case protocol.Transition(came_from=came_from, entry=entry):
                if entry.attempts > came_from.attempts:
                    caller.claims[entry.key] = entry.claim_id
                return self._at_store(fault, lambda: self.store.transition(came_from, entry))
            case protocol.Get(key=key):
                return self._at_store(fault, lambda: self.store.get(key))
            case batches.ClaimMany(entries=entries):
                caller.claims.update((entry.key, entry.claim_id) for entry in entries)
                return self._at_store(fault, lambda: self._claim_many(entries))
            case batches.TransitionMany(pairs=pairs):
                return self._at_store(fault, lambda: self._transition_many(pairs))
            case protocol.Send(context=context):
                return self._send(caller, context, ending)
        raise AssertionError(f"unknown step {caller.step!r}")

    def _at_store(self, fault: FaultMoment, call: Callable[[], Any]) -> Any:
        if fault == "before":
            raise StoreFault("connection terminated")
        answer = call()
        if fault == "after":
            raise StoreFault("connection terminated")
        return call() if fault == "repeated" else answer

    def _claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        if isinstance(self.store, BatchStore):
            return self.store.claim_many(entries)
        return [self.store.claim(entry) for entry in entries]

    def _transition_many(self, pairs: Sequence[tuple[Entry, Entry]]) -> Sequence[bool]:
        if isinstance(self.store, BatchStore):
            return self.store.transition_many(pairs)
        return [self.store.transition(*pair) for pair in pairs]

    def _send(self, caller: Caller, context: SendContext, ending: Ending) -> str:
        truth = self.truth[context.key]
        caller.sends[context.key] = ending
        if ending.startswith("accepted"):
            truth.arrived += 1
        if ending == "refused":
            truth.closed.add(caller.claims[context.key])
            raise RejectedSendError("refused")
        if ending != "accepted":
            raise UncertainSendError("timeout")
        return f"msg-{context.attempt}"

    def _resume(self, caller: Caller, advance: Callable[[], Any]) -> None:
        try:
            caller.step = advance()
        except StopIteration as end:
            caller.step, caller.outcome = None, end.value
            self.check_told(caller)
        except (StoreFault, SendOnceError) as error:
            caller.step, caller.error = None, error
        if isinstance(caller.step, protocol.Send):
            self._begin_send(caller, caller.step.context)

    def _begin_send(self, caller: Caller, context: SendContext) -> None:
        """From here on the message may go out."""
        key, truth = context.key, self.truth[context.key]
        claim_id = caller.claims[key]
        open_claims = [sent for sent, _ in truth.sends if sent not in truth.closed]
        if claim_id not in truth.written_off_alive:
            assert claim_id not in truth.closed, f"{key}: sent on a claim that was written off"
            assert not open_claims, f"{key}: sent again while {open_claims} may have gone out"
        assert key not in caller.sends, f"{key}: one call sends it twice"
        assert caller.facts_hold, f"{key}: sent though a fact no longer holds"
        assert caller.told_ms <= caller.expires_at_ms, f"{key}: sent after the approval had expired"
        caller.sends[key] = None
        truth.sends.append((claim_id, context.attempt))

    def _run(self, script: protocol.Script[T]) -> T:
        """Drive a script that does not send to its end, without faults."""
        answer: Any = None
        while True:
            try:
                step = script.send(answer)
            except StopIteration as end:
                answered: T = end.value
                return answered
            answer = self._perform(Caller(script, step), "no", "accepted")


def _evidence(truth: Truth) -> Evidence:
    return Found("provider-id") if truth.arrived else Absent("complete log, searched by key")


def _batch(keys: Sequence[str]) -> Generator[Any, Any, list[Any]]:
    """What a worker does with a batch: claim, send what it was given, record everything at once."""
    answers = yield from batches.claim_many([protocol.Request(key) for key in keys])
    reports = []
    for claimed in answers:
        if isinstance(claimed, Claimed):
            try:
                reports.append(batches.Report(claimed, (yield protocol.Send(claimed.context))))
            except Exception as error:
                reports.append(batches.Report(claimed, error=error))
    settled = yield from batches.settle_many(reports, _CLASSIFY)
    return [*settled, *(answer for answer in answers if not isinstance(answer, Claimed))]
