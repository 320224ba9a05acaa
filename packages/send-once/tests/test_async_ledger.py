"""The ledger for asyncio: it answers as the plain one. Cancellation is in `test_async_cancellation`."""

from __future__ import annotations

import asyncio
import contextvars
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from async_sending import Outbox, claimed_in, raising, run
from send_once import (
    Absent,
    AsyncLedger,
    AsyncStore,
    Claimed,
    Duplicate,
    Entry,
    Evidence,
    Failed,
    FileStore,
    Found,
    InvalidInputError,
    KeyReusedError,
    MemoryStore,
    NotFoundError,
    RejectedSendError,
    Report,
    ResultRefusedError,
    SendContext,
    Sent,
    Settlement,
    Status,
    Unknown,
    approve,
    claim_request,
    threaded,
)
from send_once.testing import AsyncFaultyStore, Fault, StoreFault
from sending import entry_in

# The same answers


def test_a_key_is_sent_once() -> None:
    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        outbox = Outbox()
        first, second = await ledger.once("k", outbox), await ledger.once("k", outbox)
        assert isinstance(first, Sent)
        assert first.entry.provider_id == "m1"
        assert second == Duplicate("k", first.entry)
        assert outbox.sent == [SendContext("k", 1)]

    run(body)


def test_of_many_tasks_one_sends() -> None:
    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        outbox = Outbox()
        outcomes = await asyncio.gather(*(ledger.once("k", outbox) for _ in range(50)))
        assert [outcome.outcome for outcome in outcomes].count("sent") == 1
        assert len(outbox.sent) == 1

    run(body)


def test_a_plain_function_may_send_too() -> None:
    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        plain: Any = lambda context: f"{context.key} {context.attempt}"
        outcome = await ledger.once("k", plain)
        assert isinstance(outcome, Sent)
        assert outcome.result == "k 1"

    run(body)


def test_an_awaitable_that_is_no_coroutine_is_awaited() -> None:
    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        outcome = await ledger.once("k", lambda: asyncio.ensure_future(Outbox()(SendContext("k", 1))))
        assert isinstance(outcome, Sent)
        assert outcome.entry.provider_id == "m1"

    run(body)


@pytest.mark.parametrize(
    ("error", "outcome", "again"),
    [
        (RejectedSendError("no"), "failed", "sent"),
        (TimeoutError(), "unknown", "unknown"),
        (ExceptionGroup("tasks", [TimeoutError()]), "unknown", "unknown"),
        (StopAsyncIteration(), "failed", "sent"),
    ],
    ids=repr,
)
def test_errors_are_judged_alike(error: Exception, outcome: str, again: str) -> None:
    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        ended = await ledger.once("k", raising(error))
        assert isinstance(ended, Failed | Unknown)
        assert (ended.outcome, ended.error) == (outcome, error)
        assert (await ledger.once("k", Outbox())).outcome == again

    run(body)


def test_a_timeout_inside_a_task_group_is_unknown() -> None:
    async def slow() -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    async def send() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(slow())

    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        assert (await ledger.once("k", send)).outcome == "unknown"

    run(body)


def test_the_halves_and_the_payload_behave_alike() -> None:
    async def body(ledger: AsyncLedger, store: MemoryStore) -> None:
        claimed = await ledger.claim("k", {"to": "ana"}, payload="one")
        assert isinstance(claimed, Claimed)
        with pytest.raises(KeyReusedError):
            await ledger.once("k", Outbox(), payload="other")
        neither: dict[str, Any] = {}
        both: dict[str, Any] = {"result": "m", "error": TimeoutError()}
        for arguments in (neither, both):
            with pytest.raises(InvalidInputError):
                await ledger.settle(claimed, **arguments)
        assert (await ledger.settle(claimed, None)).outcome == "sent"
        assert entry_in(store).meta == {"to": "ana"}
        failed = await ledger.settle(await claimed_in(ledger, "other"), error=RejectedSendError("no"))
        assert failed.outcome == "failed"

    run(body)


def test_a_response_with_an_error_status_is_refused_and_left_pending() -> None:
    async def body(ledger: AsyncLedger, store: MemoryStore) -> None:
        async def send() -> object:
            return SimpleNamespace(status=502, headers={})

        with pytest.raises(ResultRefusedError, match="status 502"):
            await ledger.once("k", send)
        assert entry_in(store).status is Status.PENDING

    run(body)


def test_batches_behave_alike_with_and_without_a_step_for_all() -> None:
    async def body(ledger: AsyncLedger, store: MemoryStore) -> None:
        inner = threaded(store)
        only_singles = SimpleNamespace(claim=inner.claim, transition=inner.transition, get=inner.get, list=inner.list)
        for number, used in enumerate((ledger, AsyncLedger(only_singles))):
            keys = [f"{name}{number}" for name in "abc"]
            await used.once(keys[1], Outbox())
            a, b, c = await used.claim_many([keys[0], keys[1], claim_request(keys[2], payload="p")])
            assert isinstance(a, Claimed)
            assert isinstance(b, Duplicate)
            assert isinstance(c, Claimed)
            outcomes = await used.settle_many([Report(c, error=TimeoutError()), Report(a, "m")])
            assert [outcome.outcome for outcome in outcomes] == ["unknown", "sent"]
        with pytest.raises(InvalidInputError):
            await ledger.settle_many([Report(await claimed_in(ledger))])
        with pytest.raises(InvalidInputError):
            await ledger.claim_many("abc")

    run(body)


def test_looking_and_settling_behave_alike() -> None:
    async def body(ledger: AsyncLedger, store: MemoryStore) -> None:
        await ledger.once("sent", Outbox())
        await ledger.once("unknown", raising(TimeoutError()))
        await ledger.claim("claimed")
        assert [entry.key for entry in await ledger.pending()] == ["unknown", "claimed"]
        assert await ledger.pending("1h") == []
        with pytest.raises(InvalidInputError):
            await ledger.pending("soon")
        assert [entry.key for entry in await ledger.entries("sent")] == ["sent"]
        assert await ledger.get("sent") == entry_in(store, "sent")
        assert [state.status.value for state in await ledger.history("sent")] == ["pending", "sent"]
        assert (await ledger.resolve("unknown", "failed", by="ana")).status is Status.FAILED
        (missing, claimed) = await ledger.resolve_many(
            [Settlement("nobody", Status.SENT), Settlement("claimed", Status.SENT)]
        )
        assert isinstance(missing[1], NotFoundError)
        assert isinstance(claimed[1], Entry)
        assert await ledger.pending() == []

    run(body)


def test_a_history_without_one_in_the_store_has_one_state_for_each_attempt() -> None:
    async def body(_: AsyncLedger, store: MemoryStore) -> None:
        ledger = AsyncLedger(AsyncFaultyStore(threaded(store), []))
        await ledger.once("k", raising(RejectedSendError("no")))
        await ledger.once("k", Outbox())
        assert [state.status.value for state in await ledger.history("k")] == ["failed", "sent"]

    run(body)


def test_a_look_up_may_be_async_or_plain_and_may_raise() -> None:
    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        for key in ("a", "b", "c"):
            await ledger.once(key, raising(TimeoutError()))

        async def lookup(entry: Entry) -> Evidence:
            await asyncio.sleep(0)
            if entry.key == "b":
                raise ConnectionResetError("down")
            return Found("m") if entry.key == "a" else Absent("not in the log")

        report = await ledger.reconcile(lookup, older_than=0)
        assert report.counts() == {"sent": 1, "failed": 1, "left": 1}
        assert [entry.key for entry, _ in report.left] == ["b"]
        assert (await ledger.reconcile(lambda _: Found("m"), older_than=0)).counts()["sent"] == 1

    run(body)


def test_a_dispatch_may_recheck_in_either_way() -> None:
    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        approval = approve(payload={"a": 1}, facts={"open": True})

        async def send(payload: Any, context: SendContext) -> Any:
            return {"id": context.key, **payload}

        async def facts() -> dict[str, Any]:
            return {"open": True}

        dispatched = await ledger.dispatch(approval, key="k", payload={"a": 1}, send=send, recheck=facts)
        assert isinstance(dispatched, Sent)
        assert dispatched.result == {"id": "k", "a": 1}
        stale = await ledger.dispatch(
            approval, key="other", payload={"a": 1}, send=send, recheck=lambda: {"open": False}
        )
        assert stale.outcome == "stale_facts"

    run(body)


def test_a_guarded_task_runs_once_for_its_key() -> None:
    async def body(ledger: AsyncLedger, store: MemoryStore) -> None:
        ran: list[str] = []

        @ledger.guarded(key=lambda order: f"invoice:{order}", meta=lambda order: {"order": order})
        async def send_invoice(order: str) -> str:
            """Send an invoice."""
            ran.append(order)
            return f"m-{order}"

        first, again = await send_invoice("1042"), await send_invoice("1042")
        assert isinstance(first, Sent)
        assert first.result == "m-1042"
        assert again.outcome == "duplicate"
        assert ran == ["1042"]
        assert entry_in(store, "invoice:1042").meta == {"order": "1042"}
        assert (send_invoice.__name__, send_invoice.__doc__) == ("send_invoice", "Send an invoice.")

    run(body)


# Closing


def test_leaving_the_block_closes_the_store_however_it_closes(tmp_path: Path) -> None:
    closed: list[str] = []

    async def body() -> None:
        inner = threaded(MemoryStore())

        async def close() -> None:
            closed.append("async")

        for how in (close, lambda: closed.append("plain")):
            store = SimpleNamespace(
                claim=inner.claim, transition=inner.transition, get=inner.get, list=inner.list, close=how
            )
            async with AsyncLedger(store) as ledger:
                await ledger.once("k", Outbox())
        async with AsyncLedger(threaded(FileStore(tmp_path / "l.jsonl"))) as ledger:
            await ledger.once("k", Outbox())
            assert ledger.store is not None
        async with AsyncLedger(AsyncFaultyStore(inner, [])):
            pass  # a store without close

    asyncio.run(body())
    assert closed == ["async", "plain"]


# What a send sees and leaves


SPAN: contextvars.ContextVar[str] = contextvars.ContextVar("SPAN", default="none")


def test_context_variables_reach_the_send_and_come_back() -> None:
    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        seen: list[str] = []

        async def send() -> None:
            seen.append(SPAN.get())
            SPAN.set("set in the send")

        SPAN.set("set by the caller")
        await ledger.once("k", send)
        assert seen == ["set by the caller"]
        assert SPAN.get() == "set in the send"

    run(body)


def test_the_send_runs_in_the_callers_task() -> None:
    """So that a cancellation, a task group or a time limit inside it means the caller's."""

    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        tasks: list[object] = []

        async def send() -> None:
            tasks.append(asyncio.current_task())

        await ledger.once("k", send)
        assert tasks == [asyncio.current_task()]

    run(body)


def test_a_send_may_send_another_key_and_its_own_key_is_in_flight() -> None:
    async def body(ledger: AsyncLedger, _: MemoryStore) -> None:
        outbox = Outbox()

        async def send() -> list[str]:
            inner = [await ledger.once("other", outbox), await ledger.once("k", outbox)]
            return [outcome.outcome for outcome in inner]

        outcome = await ledger.once("k", send)
        assert isinstance(outcome, Sent)
        assert outcome.result == ["sent", "unknown"]
        assert [context.key for context in outbox.sent] == ["other"]

    run(body)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_store_that_fails_after_the_send_raises_and_says_which_message_went_out(moment: Any) -> None:
    async def body(_: AsyncLedger, store: MemoryStore) -> None:
        faulty: AsyncStore = AsyncFaultyStore(threaded(store), [Fault("transition", moment)])
        with pytest.raises(StoreFault) as raised:
            await AsyncLedger(faulty).once("k", Outbox())
        (note,) = raised.value.__notes__
        assert "k was sent (provider id 'm1')" in note
        again = Outbox()
        assert (await AsyncLedger(threaded(store)).once("k", again)).outcome in ("unknown", "duplicate")
        assert again.sent == []

    run(body)
