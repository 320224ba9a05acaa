"""The ledger for code that calls its store plainly; `async_ledger` is the same with `await`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast, overload

from send_once import approvals, batches, protocol, reconciling
from send_once.batches import NO_RESULT
from send_once.calls import Send, prepare_dispatch_send, prepare_send, refuse_what_does_not_run, require_result
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
from send_once.stores.base import AnsweringStore, BatchStore, HistoryStore, Store, require_plain_store

T = TypeVar("T")
P = ParamSpec("P")


def _not_here(*_: object) -> object:
    raise InvalidInputError("This script neither sends nor rechecks.")


class Ledger:
    """The check in the code path that sends.

    `store` keeps the entries. `clock` answers an aware datetime or milliseconds. What `send` may
    raise is classified by the table in `certainty`, over which yours is merged; anything the table
    does not know is `failed`, or with `unclassified="unknown"` unknown.

    Safe to share between threads. After a fork a store made before it may be used in the child
    where the store says so.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        unclassified: Certainty = "failed",
        certainty: Mapping[str, Verdict] | None = None,
    ) -> None:
        require_plain_store(store)
        self._settings = checked_settings(clock, unclassified, certainty)
        self._store = store
        self._performers = _performers(store, self._settings.now_ms)

    @property
    def store(self) -> Store:
        return self._store

    def once(self, key: str, send: Send[T], meta: Json = None, *, payload: Json = NO_PAYLOAD) -> Outcome[T]:
        """Send at most once for `key`, ever, in any process that shares the store.

        1. The claim is durable before `send` runs.
        2. Sent already: Duplicate.
        3. Pending: Unknown, and never sent again by itself.
        4. Failed: claimed anew by one winner, and sent.
        5. `send` returns: Sent, and recorded.
        6. `send` raises: Unknown where the table of certainty says that the message may have been accepted,
           Failed where it says that it was not; what the table does not know is `unclassified`, Failed by
           default.

        `send` takes nothing, or one SendContext. `meta` is JSON for those who read the ledger.
        With `payload` (JSON) a later call for the key with another payload raises KeyReusedError.
        Raises InvalidInputError before anything is claimed; the store's own error when it fails,
        and then, if the send ran, the entry stays pending.
        """
        call = prepare_send(send, sync=True)
        script = protocol.once(checked_request(key, meta, payload), self._settings.classify)
        return self._run(script, lambda context: require_result(call(context)))

    def claim(self, key: str, meta: Json = None, *, payload: Json = NO_PAYLOAD) -> ClaimOutcome:
        """The first half of `once`, for queues: Claimed means that this caller alone may send, now.
        Follow it with `settle`; a claim that is never settled stays pending and is shown as unknown."""
        return self._run(protocol.acquire(checked_request(key, meta, payload)))

    @overload
    def settle(self, claimed: Claimed, result: T) -> Sent[T]: ...

    @overload
    def settle(self, claimed: Claimed, *, error: Exception) -> Failed | Unknown: ...

    def settle(self, claimed: Claimed, result: T = NO_RESULT, *, error: Exception | None = None) -> Outcome[T]:
        """The second half: record what the send returned, or with `error=` what it raised."""
        report = checked_report(claimed, result, error)
        if report.error is not None:
            return self._run(protocol.settle_error(claimed.entry, report.error, self._settings.classify))
        return self._run(protocol.settle_result(claimed.entry, result))

    def claim_many(self, items: Iterable[protocol.Request | str]) -> list[batches.BatchClaimOutcome]:
        """`claim` for many keys (or `claim_request(...)`s), in order; one durable step where the
        store can. A key standing there twice is refused before anything is claimed."""
        return self._run(batches.claim_many(checked_requests(items)))

    def settle_many(self, reports: Iterable[batches.Report]) -> list[Outcome[Any]]:
        """`settle` for many, in order; one durable step where the store can."""
        return self._run(batches.settle_many(checked_reports(reports), self._settings.classify))

    def dispatch(
        self,
        approval: Mapping[str, Json],
        *,
        key: str,
        payload: Json,
        send: Callable[..., T],
        recheck: Callable[[], Mapping[str, Json]] | None = None,
        meta: Json = None,
    ) -> DispatchOutcome[T]:
        """Send an approved payload once, and only while the approval is still true.

        Refuses, in this order: Expired, PayloadChanged, StaleFacts (what `recheck` answers against
        the facts approved). Expiry and payload are checked again at the moment of the claim.
        `send` gets its own copy of the approved payload, and a SendContext if it takes two
        arguments. Who approved is recorded; `meta` cannot overwrite it. An approval given under facts
        needs `recheck`: InvalidInputError without it, as for anything else that cannot be dispatched.
        """
        request = approvals.prepare_dispatch(approval, key=key, payload=payload, meta=meta, recheck=recheck)
        call = prepare_dispatch_send(send, request.snapshot_text, sync=True)
        script = approvals.dispatch(request, self._settings.classify)
        answer = self._run(script, lambda context: require_result(call(context)), recheck or _not_here)
        return cast("DispatchOutcome[T]", answer)

    def resolve(
        self,
        key: str,
        status: str,
        *,
        by: str | None = None,
        note: str | None = None,
        provider_id: str | None = None,
    ) -> Entry:
        """Settle by hand: "sent", or "failed" (it may then be sent again). The same status again
        changes nothing. Raises NotFoundError, and AlreadySentError for marking `sent` as failed."""
        check_by(by)
        wanted = checked_settlement(key, status, note, provider_id)
        return self._run(_resolve_script(wanted, by))

    def resolve_many(
        self, settlements: Iterable[Settlement], *, by: str | None = None
    ) -> list[tuple[str, Entry | SendOnceError]]:
        """`resolve` for each, as from a provider's export. One that cannot be settled is answered
        with its error; the others go on. Raises InvalidInputError before anything is written."""
        check_by(by)
        answers: list[tuple[str, Entry | SendOnceError]] = []
        for wanted in checked_settlements(settlements):
            try:
                answers.append((wanted.key, self._run(_resolve_script(wanted, by))))
            except SendOnceError as error:
                answers.append((wanted.key, error))
        return answers

    def get(self, key: str) -> Entry | None:
        """The entry of `key`, or None."""
        return self._run(protocol.get(require_key(key)))

    def history(self, key: str) -> Sequence[Entry]:
        """What the entry was, oldest first: every state where the store keeps them, else one state
        for each earlier attempt and the current one."""
        if isinstance(self._store, HistoryStore):
            return tuple(self._store.history(require_key(key)))
        return earlier_states(self.get(key))

    def pending(self, older_than: str | float | timedelta = 0) -> list[Entry]:
        """Claimed and never settled, oldest first. `older_than` is "10m", milliseconds or a timedelta. An entry
        whose time is unreadable is never hidden, nor one whose time lies that far ahead."""
        now_ms = self._settings.now_ms()
        unresolved((), older_than, now_ms)
        return unresolved(self._store.list(Status.PENDING), older_than, now_ms)

    def entries(self, status: str | None = None) -> Sequence[Entry]:
        """Entries of one status, or all, by claim time."""
        return self._store.list(checked_status(status))

    def reconcile(self, lookup: Callable[[Entry], Evidence], *, older_than: str | float | timedelta) -> Reconciled:
        """Ask the provider about every pending entry of that age and settle what the answer proves.

        `lookup` returns Found (sent), Absent (failed, so that it may be sent again) or CannotTell.
        Absent must mean that the look-up covers the time since the claim and is current; it settles
        nothing while the claiming process still runs here and has not reported how the send ended, or
        where the claim's time lies ahead of this clock or cannot be read. Of a process on another host
        nothing is known: choose `older_than` beyond the longest time a send takes. A look-up that raises
        cannot tell.
        """
        sent: list[Entry] = []
        failed: list[Entry] = []
        left: list[tuple[Entry, str]] = []
        for entry in self.pending(older_than):
            answer = self._run(reconciling.settle_by_evidence(entry, _looked_up(lookup, entry), liveness(entry.claim)))
            reconciling.sort_answer(entry, answer, sent, failed, left)
        return Reconciled(tuple(sent), tuple(failed), tuple(left))

    def guarded(
        self, *, key: Callable[P, str], meta: Callable[P, Json] | None = None
    ) -> Callable[[Callable[P, T]], Callable[P, Outcome[T]]]:
        """A decorator for task functions: each call sends at most once for `key(*args, **kwargs)`
        and returns the outcome. However often a queue repeats the task, it runs once."""

        def decorate(task: Callable[P, T]) -> Callable[P, Outcome[T]]:
            refuse_what_does_not_run(task, what="guarded", sync=True)

            @functools.wraps(task)
            def guarded_task(*args: P.args, **kwargs: P.kwargs) -> Outcome[T]:
                described = meta(*args, **kwargs) if meta is not None else None
                return self.once(key(*args, **kwargs), lambda: task(*args, **kwargs), described)

            return guarded_task

        return decorate

    def close(self) -> None:
        """Close the store, where it can be closed."""
        close = getattr(self._store, "close", None)
        if callable(close):
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _run(
        self,
        script: Generator[Any, Any, T],
        send: Callable[[SendContext], object] = _not_here,
        recheck: Callable[[], object] = _not_here,
    ) -> T:
        """Drive a script: perform each step, hand in the answer or the Exception it raised.

        StopIteration is caught only around advancing the script, so that one raised by a step is
        not taken for the end.
        """
        performers, send_step, recheck_step = self._performers, protocol.Send, protocol.Recheck
        answer: object = None
        failure: Exception | None = None
        while True:
            try:
                step = script.send(answer) if failure is None else script.throw(failure)
            except StopIteration as end:
                return cast("T", end.value)
            kind = type(step)
            try:
                if kind is send_step:
                    answer = send(*step)
                elif kind is recheck_step:
                    answer = recheck()
                else:
                    answer = performers[kind](*step)
                failure = None
            except Exception as error:  # noqa: BLE001  # the script decides what it means
                failure = error


def _performers(store: Store, now_ms: Callable[[], float]) -> Mapping[type, Callable[..., object]]:
    """How each step is done on `store`. What the store can do is asked once, not at every claim."""
    in_batches = store if isinstance(store, BatchStore) else None
    return {
        protocol.Now: now_ms,
        protocol.Begin: lambda payload: (new_mark(payload), now_ms()),
        protocol.Claim: store.claim_or_get if isinstance(store, AnsweringStore) else store.claim,
        protocol.Transition: store.transition,
        protocol.Get: store.get,
        batches.ClaimMany: in_batches.claim_many if in_batches else lambda entries: [*map(store.claim, entries)],
        batches.TransitionMany: (
            in_batches.transition_many if in_batches else lambda pairs: [store.transition(*pair) for pair in pairs]
        ),
    }


def _resolve_script(wanted: Settlement, by: str | None) -> protocol.Script[Entry]:
    return protocol.resolve(wanted.key, wanted.status, by=by, note=wanted.note, provider_id=wanted.provider_id)


def _looked_up(lookup: Callable[[Entry], Evidence], entry: Entry) -> Evidence:
    try:
        return evidence_or_reason(lookup(entry))
    except Exception as error:  # noqa: BLE001  # one look-up that fails must not stop the others
        return CannotTell(f"The look-up failed: {error}")
