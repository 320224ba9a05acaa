"""The public types read as promised: mypy checks each line of this file, and the runs show that it tells the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, assert_never, assert_type

import pytest

import send_once
from send_once import (
    Absent,
    AsyncLedger,
    CannotTell,
    Claimed,
    ClaimOutcome,
    DispatchOutcome,
    Duplicate,
    Entry,
    Evidence,
    Expired,
    Failed,
    Found,
    InvalidInputError,
    Ledger,
    MemoryStore,
    Outcome,
    PayloadChanged,
    Reconciled,
    Refusal,
    SendContext,
    Sent,
    StaleFacts,
    Unknown,
    approve,
    threaded,
)


def words_of_a_send(outcome: Outcome[str]) -> str:
    """No case is missing: mypy would say so at `assert_never`."""
    match outcome:
        case Sent(result=result):
            return assert_type(result, str)
        case Duplicate(entry=entry):
            return assert_type(entry, Entry).key
        case Unknown(error=error):
            return str(assert_type(error, BaseException | None))
        case Failed(error=refusal):
            return str(assert_type(refusal, BaseException))
        case never:
            assert_never(never)


def words_of_a_claim(outcome: ClaimOutcome) -> str:
    match outcome:
        case Claimed() | Duplicate() | Unknown():
            return outcome.outcome
        case never:
            assert_never(never)


def words_of_a_dispatch(outcome: DispatchOutcome[int]) -> str:
    match outcome:
        case Sent(result=result):
            return str(assert_type(result, int))
        case Duplicate() | Unknown() | Failed():
            return outcome.outcome
        case Expired(age_hours=hours):
            return f"{hours:.1f} hours"
        case PayloadChanged() | StaleFacts():
            return assert_type(outcome, PayloadChanged | StaleFacts).outcome
        case never:
            assert_never(never)


def words_of_evidence(evidence: Evidence) -> str:
    match evidence:
        case Found(provider_id=provider_id):
            return str(assert_type(provider_id, str | None))
        case Absent(note=note):
            return assert_type(note, str)
        case CannotTell(reason=reason):
            return assert_type(reason, str)
        case never:
            assert_never(never)


def narrowed_by_its_word(outcome: Outcome[str]) -> str:
    """The reference's word tells the classes apart as well as `match` does."""
    if outcome.outcome == "sent":
        return assert_type(outcome, Sent[str]).result
    return assert_type(outcome, Duplicate | Unknown | Failed).outcome


def test_a_send_returns_what_its_function_returns() -> None:
    ledger = Ledger(MemoryStore())
    assert words_of_a_send(assert_type(ledger.once("a", lambda: "msg-1"), Outcome[str])) == "msg-1"
    assert words_of_a_send(ledger.once("a", lambda: "msg-2")) == "a"
    assert narrowed_by_its_word(ledger.once("b", lambda: "msg-3")) == "msg-3"

    def with_context(context: SendContext) -> int:
        return context.attempt

    outcome = assert_type(ledger.once("c", with_context), Outcome[int])
    assert isinstance(outcome, Sent)
    assert outcome.result == 1


def test_the_halves_of_a_send_keep_the_types() -> None:
    ledger = Ledger(MemoryStore())
    claimed = assert_type(ledger.claim("a"), ClaimOutcome)
    assert words_of_a_claim(claimed) == "claimed"
    assert isinstance(claimed, Claimed)
    assert words_of_a_send(assert_type(ledger.settle(claimed, "msg-1"), Sent[str])) == "msg-1"
    late = assert_type(ledger.settle(claimed, error=TimeoutError("no answer")), Failed | Unknown)
    assert words_of_a_send(late) == "no answer"
    assert_type(ledger.get("a"), Entry | None)
    assert_type(ledger.history("a"), Sequence[Entry])
    assert_type(ledger.pending(), list[Entry])


def test_a_dispatch_adds_the_refusals() -> None:
    ledger = Ledger(MemoryStore())
    approval = approve(payload={"n": 1}, ttl="1h")

    def send(payload: Any) -> int:
        return int(payload["n"])

    changed = ledger.dispatch(approval, key="a", payload={"n": 2}, send=send)
    assert words_of_a_dispatch(assert_type(changed, DispatchOutcome[int])) == "payload_changed"
    refusal: Refusal | None = changed if isinstance(changed, Expired | PayloadChanged | StaleFacts) else None
    assert refusal is not None
    assert words_of_a_dispatch(ledger.dispatch(approval, key="a", payload={"n": 1}, send=send)) == "1"


def test_a_guarded_task_keeps_its_parameters() -> None:
    ledger = Ledger(MemoryStore())

    def key_of(order: int, *, copy: bool = False) -> str:
        return f"order:{order}:{copy}"

    @ledger.guarded(key=key_of)
    def confirm(order: int, *, copy: bool = False) -> str:
        return f"msg-{order}"

    assert words_of_a_send(assert_type(confirm(7, copy=True), Outcome[str])) == "msg-7"
    wrong: Callable[[], object] = lambda: confirm("7", kopie=True)  # type: ignore[arg-type,call-arg]  # noqa: E731  # mypy must refuse this call: an unused ignore is an error
    with pytest.raises(TypeError):
        wrong()


def test_evidence_settles() -> None:
    ledger = Ledger(MemoryStore())
    ledger.claim("a")
    lookups: list[Evidence] = [Found("msg-1"), Absent("not in the log"), CannotTell("no answer")]
    assert [words_of_evidence(evidence) for evidence in lookups] == ["msg-1", "not in the log", "no answer"]
    assert len(assert_type(ledger.reconcile(lambda _: Found("msg-1"), older_than=0), Reconciled).sent) == 1


def test_the_async_ledger_reads_the_same() -> None:
    async def send() -> str:
        return "msg-1"

    async def played() -> str:
        ledger = AsyncLedger(threaded(MemoryStore()))
        claimed = assert_type(await ledger.claim("b"), ClaimOutcome)
        assert isinstance(claimed, Claimed)
        assert_type(await ledger.settle(claimed, 7), Sent[int])
        outcome = await ledger.once("a", send)
        return words_of_a_send(assert_type(outcome, Outcome[str]))

    assert asyncio.run(played()) == "msg-1"


def test_a_result_is_not_read_from_what_was_not_sent() -> None:
    outcome = Ledger(MemoryStore()).once("a", lambda: "msg-1")
    read: Callable[[], object] = lambda: outcome.result  # type: ignore[union-attr]  # noqa: E731  # mypy must refuse this: only Sent has a result
    assert read() == "msg-1"


def test_refused_input_is_typed() -> None:
    ledger = Ledger(MemoryStore())
    with pytest.raises(InvalidInputError):
        ledger.once(7, lambda: "msg")  # type: ignore[arg-type]  # mypy must refuse this: a key is text
    assert ledger.get("7") is None


def test_all_public_names_exist_and_the_package_is_marked_as_typed() -> None:
    assert all(getattr(send_once, name) is not None for name in send_once.__all__)
    assert resources.files(send_once).joinpath("py.typed").is_file()
