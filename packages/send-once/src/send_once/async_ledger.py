"""The ledger for asyncio code: the same scripts as `ledger`, each step awaited."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast, overload

from send_once import approvals, batches, protocol, reconciling
from send_once.batches import NO_RESULT
from send_once.calls import awaited, prepare_dispatch_send, prepare_send, refuse_what_does_not_run, require_result
from send_once.certainty import Certainty, Verdict
from send_once.clock import Clock
from send_once.entry import Entry, Json, Status, require_key
from send_once.errors import InvalidInputError, SendOnceError
from send_once.histories import earlier_states
from send_once.outcomes import (
    CannotTell,
    Claimed,
    ClaimOutcome,
    DispatchOutcome,
    Evidence,
    Failed,
    Outcome,
    Reconciled,
    SendContext,
    Sent,
    Unknown,
)
from send_once.owner import liveness, new_mark
from send_once.settings import (
    NO_PAYLOAD,
    Settlement,
    check_by,
    checked_report,
    checked_reports,
    checked_request,
    checked_requests,
    checked_settings,
    checked_settlement,
    checked_settlements,
    checked_status,
    evidence_or_reason,
    unresolved,
)
from send_once.stores.base import AsyncStore, require_async_store

T = TypeVar("T")
P = ParamSpec("P")

AsyncSend = Callable[[], Awaitable[T]] | Callable[[SendContext], Awaitable[T]]
"""An async send function: takes nothing, or one SendContext."""

_Perform = Callable[[Any], Awaitable[Any]]


class AsyncLedger:
    """`Ledger` for asyncio: the same methods, promises and errors; read there.

    A cancellation while the send runs leaves the entry pending. Once the send has returned or
    raised, recording the outcome is shielded: a cancellation waits for it and then takes effect. Only
    an event loop that ends meanwhile (`asyncio.run` with such tasks in the background) cuts it short;
    the entry then stays pending. Await the tasks that send before the loop ends.
    `send`, `recheck` and `lookup` may also be plain functions; they then block the event loop.
    """

    def __init__(
        self,
        store: AsyncStore,
        *,
        clock: Clock | None = None,
        unclassified: Certainty = "failed",
        certainty: Mapping[str, Verdict] | None = None,
    ) -> None:
        require_async_store(store)
        self._settings = checked_settings(clock, unclassified, certainty)
        self._store = store

    @property
    def store(self) -> AsyncStore:
        return self._store

    async def once(self, key: str, send: AsyncSend[T], meta: Json = None, *, payload: Json = NO_PAYLOAD) -> Outcome[T]:
        """See :meth:`Ledger.once`."""
        call = prepare_send(send, sync=False)
        script = protocol.once(checked_request(key, meta, payload), self._settings.classify)
        return await self._run(script, call)

    async def claim(self, key: str, meta: Json = None, *, payload: Json = NO_PAYLOAD) -> ClaimOutcome:
        """See :meth:`Ledger.claim`."""
        return await self._run(protocol.acquire(checked_request(key, meta, payload)))

    @overload
    async def settle(self, claimed: Claimed, result: T) -> Sent[T]: ...

    @overload
    async def settle(self, claimed: Claimed, *, error: Exception) -> Failed | Unknown: ...

    async def settle(self, claimed: Claimed, result: T = NO_RESULT, *, error: Exception | None = None) -> Outcome[T]:
        """See :meth:`Ledger.settle`. Shielded from cancellation."""
        report = checked_report(claimed, result, error)
        if report.error is not None:
            script: Any = protocol.settle_error(claimed.entry, report.error, self._settings.classify)
        else:
            script = protocol.settle_result(claimed.entry, result)
        return cast("Outcome[T]", await _shielded(self._run(script)))

    async def claim_many(self, items: Iterable[protocol.Request | str]) -> list[batches.BatchClaimOutcome]:
        """See :meth:`Ledger.claim_many`."""
        return cast("list[batches.BatchClaimOutcome]", await self._run(batches.claim_many(checked_requests(items))))

    async def settle_many(self, reports: Iterable[batches.Report]) -> list[Outcome[Any]]:
        """See :meth:`Ledger.settle_many`. Shielded from cancellation."""
        script = batches.settle_many(checked_reports(reports), self._settings.classify)
        return cast("list[Outcome[Any]]", await _shielded(self._run(script)))

    async def dispatch(
        self,
        approval: Mapping[str, Json],
        *,
        key: str,
        payload: Json,
        send: Callable[..., Awaitable[T]],
        recheck: Callable[[], Awaitable[Mapping[str, Json]] | Mapping[str, Json]] | None = None,
        meta: Json = None,
    ) -> DispatchOutcome[T]:
        """See :meth:`Ledger.dispatch`."""
        request = approvals.prepare_dispatch(approval, key=key, payload=payload, meta=meta, recheck=recheck)
        call = prepare_dispatch_send(send, request.snapshot_text, sync=False)
        script = approvals.dispatch(request, self._settings.classify)
        return cast("DispatchOutcome[T]", await self._run(script, call, recheck))

    async def resolve(
        self,
        key: str,
        status: str,
        *,
        by: str | None = None,
        note: str | None = None,
        provider_id: str | None = None,
    ) -> Entry:
        """See :meth:`Ledger.resolve`."""
        check_by(by)
        return await self._resolve(checked_settlement(key, status, note, provider_id), by)

    async def resolve_many(
        self, settlements: Iterable[Settlement], *, by: str | None = None
    ) -> list[tuple[str, Entry | SendOnceError]]:
        """See :meth:`Ledger.resolve_many`."""
        check_by(by)
        answers: list[tuple[str, Entry | SendOnceError]] = []
        for wanted in checked_settlements(settlements):
            try:
                answers.append((wanted.key, await self._resolve(wanted, by)))
            except SendOnceError as error:
                answers.append((wanted.key, error))
        return answers

    async def get(self, key: str) -> Entry | None:
        """See :meth:`Ledger.get`."""
        return await self._run(protocol.get(require_key(key)))

    async def history(self, key: str) -> Sequence[Entry]:
        """See :meth:`Ledger.history`."""
        kept = getattr(self._store, "history", None)
        if callable(kept):
            return tuple(await kept(require_key(key)))
        return earlier_states(await self.get(key))

    async def pending(self, older_than: str | float | timedelta = 0) -> list[Entry]:
        """See :meth:`Ledger.pending`."""
        now_ms = self._settings.now_ms()
        unresolved((), older_than, now_ms)
        return unresolved(await self._store.list(Status.PENDING), older_than, now_ms)

    async def entries(self, status: str | None = None) -> Sequence[Entry]:
        """See :meth:`Ledger.entries`."""
        return await self._store.list(checked_status(status))

    async def reconcile(
        self, lookup: Callable[[Entry], Awaitable[Evidence] | Evidence], *, older_than: str | float | timedelta
    ) -> Reconciled:
        """See :meth:`Ledger.reconcile`."""
        sent: list[Entry] = []
        failed: list[Entry] = []
        left: list[tuple[Entry, str]] = []
        for entry in await self.pending(older_than):
            evidence = await _looked_up(lookup, entry)
            answer = await self._run(reconciling.settle_by_evidence(entry, evidence, liveness(entry.claim)))
            reconciling.sort_answer(entry, answer, sent, failed, left)
        return Reconciled(tuple(sent), tuple(failed), tuple(left))

    def guarded(
        self, *, key: Callable[P, str], meta: Callable[P, Json] | None = None
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, Outcome[T]]]]:
        """See :meth:`Ledger.guarded`; for async task functions."""

        def decorate(task: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, Outcome[T]]]:
            refuse_what_does_not_run(task, what="guarded", sync=False)

            @functools.wraps(task)
            async def guarded_task(*args: P.args, **kwargs: P.kwargs) -> Outcome[T]:
                described = meta(*args, **kwargs) if meta is not None else None
                return await self.once(key(*args, **kwargs), lambda: task(*args, **kwargs), described)

            return guarded_task

        return decorate

    async def close(self) -> None:
        """Close the store, where it can be closed."""
        close = getattr(self._store, "close", None)
        if callable(close):
            await awaited(close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def _resolve(self, wanted: Settlement, by: str | None) -> Entry:
        return await self._run(
            protocol.resolve(wanted.key, wanted.status, by=by, note=wanted.note, provider_id=wanted.provider_id)
        )

    async def _run(
        self,
        script: Generator[Any, Any, T],
        send: Callable[[SendContext], Any] | None = None,
        recheck: Callable[[], object] | None = None,
    ) -> T:
        perform = functools.partial(self._perform, send=send, recheck=recheck)
        advance: Callable[[], Any] = functools.partial(next, script)
        while True:
            try:
                step = advance()
            except StopIteration as end:
                return cast("T", end.value)
            advance = await _answered(script, step, perform)
            if isinstance(step, protocol.Send):
                # The send has ended: whoever cancels now waits until that is written down.
                return await _shielded(_drive(script, advance, perform))

    async def _perform(
        self, step: object, *, send: Callable[[SendContext], Any] | None, recheck: Callable[[], object] | None
    ) -> object:
        match step:
            case protocol.Now():
                return self._settings.now_ms()
            case protocol.Begin(payload=payload):
                return new_mark(payload), self._settings.now_ms()
            case protocol.Claim(entry=entry):
                return await self._claim(entry)
            case protocol.Transition(came_from=came_from, entry=entry):
                return await self._store.transition(came_from, entry)
            case protocol.Send(context=context) if send is not None:
                return require_result(await awaited(send(context)), remedy="Await it in send.")
            case protocol.Get(key=key):
                return await self._store.get(key)
            case protocol.Recheck() if recheck is not None:
                return await awaited(recheck())
            case batches.ClaimMany(entries=entries):
                return await self._claim_many(entries)
            case batches.TransitionMany(pairs=pairs):
                return await self._transition_many(pairs)
        raise InvalidInputError(f"A script asked for a step that cannot be done here: {step!r}.")

    async def _claim(self, entry: Entry) -> bool | Entry:
        answering = getattr(self._store, "claim_or_get", None)
        if callable(answering):
            return cast("bool | Entry", await answering(entry))
        return await self._store.claim(entry)

    async def _claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        batch = getattr(self._store, "claim_many", None)
        if callable(batch):
            return cast("Sequence[bool]", await batch(entries))
        return [await self._store.claim(entry) for entry in entries]

    async def _transition_many(self, pairs: Sequence[tuple[Entry, Entry]]) -> Sequence[bool]:
        batch = getattr(self._store, "transition_many", None)
        if callable(batch):
            return cast("Sequence[bool]", await batch(pairs))
        return [await self._store.transition(came_from, entry) for came_from, entry in pairs]


async def _drive(script: Generator[Any, Any, T], advance: Callable[[], Any], perform: _Perform) -> T:
    """Drive a script to its end, from the answer that `advance` hands in."""
    while True:
        try:
            step = advance()
        except StopIteration as end:
            return cast("T", end.value)
        advance = await _answered(script, step, perform)


async def _answered(script: Generator[Any, Any, Any], step: object, perform: _Perform) -> Callable[[], Any]:
    """Perform one step; how to advance the script with its answer, or with the Exception it raised."""
    try:
        return functools.partial(script.send, await perform(step))
    except Exception as error:  # noqa: BLE001  # the script decides what it means
        return functools.partial(script.throw, error)


async def _shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end whoever cancels, then let the cancellation take effect."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:  # noqa: BLE001  # raised again below, from the task
            break
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled
    return task.result()


async def _looked_up(lookup: Callable[[Entry], Awaitable[Evidence] | Evidence], entry: Entry) -> Evidence:
    try:
        return evidence_or_reason(await awaited(lookup(entry)))
    except Exception as error:  # noqa: BLE001  # one look-up that fails must not stop the others
        return CannotTell(f"The look-up failed: {error}")
