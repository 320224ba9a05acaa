"""A world of callers around one ledger, advanced step by step, with the truth beside it.

Each caller is a script of the protocol. The world performs its steps one at a time, in any order the
test chooses, crashes callers, fails store calls before or after they were applied, moves the clock, and
lets people resolve. It keeps what really happened: which attempts' send ran, and which messages arrived.
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from send_once import approvals, protocol, reconciling
from send_once.certainty import classifier
from send_once.entry import Entry, Status
from send_once.errors import RejectedSendError, SendOnceError, UncertainSendError
from send_once.outcomes import Absent, Evidence, Found
from send_once.owner import Liveness, new_mark
from send_once.stores.base import Store
from send_once.testing.faults import StoreFault

Ending = Literal["accepted", "refused", "lost answer", "accepted, lost answer"]
"""How one send really ended. In the last two the caller hears only a timeout."""

T = TypeVar("T")

FaultMoment = Literal["no", "before", "after"]

_CLASSIFY = classifier()


@dataclass(slots=True)
class Caller:
    """One call of `once` under way."""

    key: str
    script: Generator[Any, Any, Any]
    step: Any = None
    outcome: Any = None
    error: BaseException | None = None
    send_ran: bool = False
    claim_id: str | None = None
    expires_at_ms: float = float("inf")
    """Until when the approval behind it holds."""
    facts_hold: bool = True
    mark_id: str | None = None
    """The id of the last claim it tried to make."""
    told_ms: float = 0.0
    """The last time of day it was told."""

    @property
    def ended(self) -> bool:
        return self.step is None


@dataclass(slots=True)
class Truth:
    """What really happened to one key."""

    sends: list[tuple[str | None, int]] = field(default_factory=list)
    """(claim id, attempt) of every send that ran."""
    arrived: int = 0
    wrongly_written_off: int = 0
    """How often someone marked it failed although it had arrived, or a send was under way."""
    was_sent: bool = False
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
        script = protocol.once(protocol.Request(key), _CLASSIFY)
        caller = Caller(key, script)
        caller.step = next(script)
        self.callers.append(caller)
        self.truth.setdefault(key, Truth())
        return caller

    def dispatch(self, key: str, *, ttl_ms: float, facts_hold: bool) -> Caller:
        """Begin a dispatch under an approval that was given now."""
        approval = approvals.approve(payload={"key": key}, facts={"due": True}, ttl=ttl_ms, now=self.now_ms)
        request = approvals.prepare_dispatch(approval, key=key, payload={"key": key}, meta=None, recheck=dict)
        script = approvals.dispatch(request, _CLASSIFY)
        caller = Caller(key, script, expires_at_ms=self.now_ms + ttl_ms, facts_hold=facts_hold)
        caller.step = next(script)
        self.callers.append(caller)
        self.truth.setdefault(key, Truth())
        return caller

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
        wrong = status is Status.FAILED and (truth.arrived > 0 or self._is_under_way(before))
        script = protocol.resolve(key, status, by="someone", note=None, provider_id=None)
        try:
            after = self._run(script)
        except SendOnceError:
            return
        if before is not None and before.status is Status.PENDING and after.status is Status.FAILED:
            truth.closed.add(after.claim_id)
            truth.wrongly_written_off += wrong

    def check(self) -> None:
        """What must hold at every moment, whatever has happened."""
        for key, truth in self.truth.items():
            entry = self.store.get(key)
            attempts = [attempt for _, attempt in truth.sends]
            ids = [claim_id for claim_id, _ in truth.sends]
            assert len(set(ids)) == len(ids), f"{key}: one claim sent twice: {truth.sends}"
            assert attempts == sorted(set(attempts)), f"{key}: attempts out of order: {truth.sends}"
            assert not truth.sends or entry is not None, f"{key}: its send ran and it is forgotten"
            allowed = 1 + truth.wrongly_written_off
            assert truth.arrived <= allowed, f"{key}: {truth.arrived} copies arrived, {allowed} can be explained"
            if entry is not None:
                assert not truth.was_sent or entry.status is Status.SENT, f"{key}: sent went back to {entry.status}"
                truth.was_sent = entry.status is Status.SENT
                if entry.status is Status.FAILED and truth.arrived > 0:
                    assert truth.wrongly_written_off > 0, f"{key}: arrived, and the ledger says failed"

    def check_told(self, caller: Caller) -> None:
        """What a caller was told must be true."""
        if caller.outcome is None:
            return
        entry = self.store.get(caller.key)
        if caller.outcome.outcome in ("expired", "payload_changed", "stale_facts"):
            assert not caller.send_ran, f"told {caller.outcome.outcome}, and its send ran"
            return
        assert entry is not None
        match caller.outcome.outcome:
            case "sent":
                assert caller.send_ran, "told sent, and its send never ran"
            case "duplicate":
                assert entry.status is Status.SENT, "told duplicate, and the ledger does not say sent"
                assert not caller.send_ran
            case "failed" | "unknown":
                pass

    def _is_under_way(self, entry: Entry | None) -> bool:
        """Whether the caller that made the entry's claim is alive: it sends, or is about to."""
        if entry is None or entry.claim_id is None:
            return False
        return any(not caller.ended and caller.mark_id == entry.claim_id for caller in self.callers)

    def _perform(self, caller: Caller, fault: FaultMoment, ending: Ending) -> Any:
        match caller.step:
            case protocol.Now():
                caller.told_ms = self.now_ms
                return self.now_ms
            case protocol.Begin(payload=payload):
                mark = new_mark(payload)
                caller.told_ms, caller.mark_id = self.now_ms, mark.id
                return mark, self.now_ms
            case protocol.Recheck():
                return {"due": caller.facts_hold}
            case protocol.Claim(entry=entry):
                return self._at_store(fault, lambda: self.store.claim(entry))
            case protocol.Transition(came_from=came_from, entry=entry):
                return self._at_store(fault, lambda: self.store.transition(came_from, entry))
            case protocol.Get(key=key):
                return self._at_store(fault, lambda: self.store.get(key))
            case protocol.Send(context=context):
                return self._send(caller, context.attempt, ending)
        raise AssertionError(f"unknown step {caller.step!r}")

    def _at_store(self, fault: FaultMoment, call: Any) -> Any:
        if fault == "before":
            raise StoreFault("connection terminated")
        answer = call()
        if fault == "after":
            raise StoreFault("connection terminated")
        return answer

    def _send(self, caller: Caller, attempt: int, ending: Ending) -> str:
        truth = self.truth[caller.key]
        if ending.startswith("accepted"):
            truth.arrived += 1
        if ending == "refused":
            truth.closed.add(caller.claim_id)
            raise RejectedSendError("refused")
        if ending != "accepted":
            raise UncertainSendError("timeout")
        return f"msg-{attempt}"

    def _resume(self, caller: Caller, advance: Any) -> None:
        try:
            caller.step = advance()
        except StopIteration as end:
            caller.step, caller.outcome = None, end.value
            self.check_told(caller)
        except (StoreFault, SendOnceError) as error:
            caller.step, caller.error = None, error
        if isinstance(caller.step, protocol.Send):
            self._begin_send(caller)

    def _begin_send(self, caller: Caller) -> None:
        """From here on the message may go out."""
        entry = self.store.get(caller.key)
        truth = self.truth[caller.key]
        open_claims = [claim_id for claim_id, _ in truth.sends if claim_id not in truth.closed]
        assert not open_claims, f"{caller.key}: sent again while {open_claims} may have gone out"
        assert caller.facts_hold, f"{caller.key}: sent though a fact no longer holds"
        assert caller.told_ms <= caller.expires_at_ms, f"{caller.key}: sent after the approval had expired"
        caller.send_ran = True
        caller.claim_id = entry.claim_id if entry is not None else None
        truth.sends.append((caller.claim_id, caller.step.context.attempt))

    def _run(self, script: protocol.Script[T]) -> T:
        """Drive a script that does not send to its end, without faults."""
        answer: Any = None
        while True:
            try:
                step = script.send(answer)
            except StopIteration as end:
                answered: T = end.value
                return answered
            answer = self._perform(Caller("", script, step), "no", "accepted")


def _evidence(truth: Truth) -> Evidence:
    return Found("provider-id") if truth.arrived else Absent("complete log, searched by key")
