"""A ledger's `once` and its halves: what is claimed, for which payload, and what the store is told.

Results and errors of the send are in `test_ledger_endings`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from send_once import (
    Duplicate,
    InvalidInputError,
    KeyReusedError,
    Ledger,
    MemoryStore,
    RejectedSendError,
    SendContext,
    Sent,
    Status,
    UncertainSendError,
    Unknown,
)
from send_once.testing import Fault, FaultyStore, StoreFault
from sending import Outbox, claimed_in, entry_in, raising

# once


def test_a_key_is_sent_once_and_later_calls_are_duplicates_with_its_entry() -> None:
    ledger, outbox = Ledger(MemoryStore()), Outbox()
    first, second = ledger.once("k", outbox), ledger.once("k", outbox)
    assert isinstance(first, Sent)
    assert (first.key, first.result, first.entry.provider_id) == ("k", "m1", "m1")
    assert second == Duplicate("k", first.entry)
    assert outbox.sent == [SendContext("k", 1)]


def test_each_attempt_has_its_number() -> None:
    ledger, outbox = Ledger(MemoryStore()), Outbox()
    for _ in range(3):
        ledger.once("k", raising(RejectedSendError("no")))
    ledger.once("k", outbox)
    assert outbox.sent == [SendContext("k", 4)]


def test_a_send_may_send_another_key_and_its_own_key_is_in_flight() -> None:
    ledger, outbox = Ledger(MemoryStore()), Outbox()
    inner: list[object] = []

    def send() -> str:
        inner.extend((ledger.once("other", outbox), ledger.once("k", outbox)))
        return "outer"

    assert ledger.once("k", send).outcome == "sent"
    assert [getattr(outcome, "outcome", None) for outcome in inner] == ["sent", "unknown"]
    assert [context.key for context in outbox.sent] == ["other"]


@pytest.mark.parametrize("key", ["", None, 7, b"k"])
def test_a_key_that_is_no_text_is_refused_before_anything_is_claimed(key: Any) -> None:
    store, outbox = MemoryStore(), Outbox()
    ledger = Ledger(store)
    for call in (lambda: ledger.once(key, outbox), lambda: ledger.claim(key), lambda: ledger.get(key)):
        with pytest.raises(InvalidInputError) as refused:
            call()
        assert refused.value.field == "key"
    assert list(store.list()) == []
    assert outbox.sent == []


# The two halves


def test_the_halves_do_what_once_does() -> None:
    ledger = Ledger(MemoryStore())
    claimed = claimed_in(ledger)
    assert (claimed.attempt, claimed.context) == (1, SendContext("k", 1))
    in_flight = ledger.claim("k")
    assert isinstance(in_flight, Unknown)
    assert in_flight.error is None
    sent = ledger.settle(claimed, {"id": "m1"})
    assert isinstance(sent, Sent)
    assert sent.entry.provider_id == "m1"
    assert ledger.claim("k") == Duplicate("k", sent.entry)


@pytest.mark.parametrize(
    ("error", "outcome", "next_outcome"),
    [(RejectedSendError("no"), "failed", "claimed"), (TimeoutError(), "unknown", "unknown")],
)
def test_a_settled_error_is_judged_as_in_once(error: Exception, outcome: str, next_outcome: str) -> None:
    ledger = Ledger(MemoryStore())
    assert ledger.settle(claimed_in(ledger), error=error).outcome == outcome
    assert ledger.claim("k").outcome == next_outcome


def test_none_is_a_result() -> None:
    ledger = Ledger(MemoryStore())
    sent = ledger.settle(claimed_in(ledger), None)
    assert isinstance(sent, Sent)
    assert sent.result is None


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "result"),
        ({"result": "m1", "error": RejectedSendError("no")}, "result"),
        ({"result": None, "error": RejectedSendError("no")}, "result"),
        ({"error": "no"}, "error"),
        ({"error": KeyboardInterrupt()}, "error"),
        ({"error": RejectedSendError}, "error"),
    ],
)
def test_settling_needs_either_a_result_or_an_error(arguments: dict[str, Any], field: str) -> None:
    store = MemoryStore()
    ledger = Ledger(store)
    claimed = claimed_in(ledger)
    with pytest.raises(InvalidInputError) as refused:
        ledger.settle(claimed, **arguments)
    assert refused.value.field == field
    assert entry_in(store) == claimed.entry


def test_only_what_claim_answered_can_be_settled() -> None:
    ledger = Ledger(MemoryStore())
    with pytest.raises(InvalidInputError, match="as claim\\(\\) returns it") as refused:
        ledger.settle("k", "m1")  # type: ignore[call-overload]  # wrong on purpose
    assert refused.value.field == "claimed"


def test_a_claim_settled_twice_keeps_the_truth() -> None:
    """Sent is final: an error that is reported afterwards changes nothing, and nothing is sent again."""
    ledger = Ledger(MemoryStore())
    claimed = claimed_in(ledger)
    ledger.settle(claimed, "m1")
    ledger.settle(claimed, error=RejectedSendError("no"))
    ledger.settle(claimed, "m2")
    entry = ledger.get("k")
    assert entry is not None
    assert (entry.status, entry.provider_id) == (Status.SENT, "m1")


# The payload behind a key


def test_a_key_with_another_payload_is_refused_in_flight_and_when_sent() -> None:
    ledger, outbox = Ledger(MemoryStore()), Outbox()
    refusals: list[KeyReusedError] = []

    def send() -> str:
        with pytest.raises(KeyReusedError, match="k is pending with another payload") as refused:
            ledger.once("k", outbox, payload={"body": "other"})
        refusals.append(refused.value)
        return "m"

    assert ledger.once("k", send, payload={"body": "one"}).outcome == "sent"
    with pytest.raises(KeyReusedError, match="k was sent with another payload"):
        ledger.once("k", outbox, payload={"body": "other"})
    with pytest.raises(KeyReusedError):
        ledger.claim("k", payload=None)
    assert len(refusals) == 1
    assert outbox.sent == []


def test_a_key_with_the_same_payload_or_none_named_is_a_duplicate() -> None:
    ledger, outbox = Ledger(MemoryStore()), Outbox()
    ledger.once("k", outbox, payload={"a": 1, "b": 2})
    assert ledger.once("k", outbox, payload={"b": 2, "a": 1.0}).outcome == "duplicate"
    assert ledger.once("k", outbox).outcome == "duplicate"
    ledger.once("without", outbox)
    assert ledger.once("without", outbox, payload="any").outcome == "duplicate"


def test_after_a_failure_another_payload_may_be_sent_under_the_key() -> None:
    """Nothing went out, so a corrected message is the same intended send."""
    ledger, outbox = Ledger(MemoryStore()), Outbox()
    ledger.once("k", raising(RejectedSendError("no such template")), payload={"template": "typo"})
    assert ledger.once("k", outbox, payload={"template": "right"}).outcome == "sent"
    with pytest.raises(KeyReusedError):
        ledger.once("k", outbox, payload={"template": "typo"})


def test_a_payload_that_is_no_json_is_refused_before_anything_is_claimed() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInputError) as refused:
        Ledger(store).once("k", Outbox(), payload={"at": {1, 2}})
    assert refused.value.field == "payload.at"
    assert list(store.list()) == []


# meta


def test_meta_is_kept_as_it_was_at_the_claim() -> None:
    store = MemoryStore()
    meta: dict[str, Any] = {"to": "ana", "tags": ["a"]}

    def send() -> str:
        meta["tags"].append("b")
        meta["self"] = meta
        return "m"

    Ledger(store).once("k", send, meta)
    assert [state.meta for state in store.history("k")] == [{"to": "ana", "tags": ["a"]}] * 2


def test_meta_that_contains_itself_is_refused_before_anything_is_claimed() -> None:
    store, outbox = MemoryStore(), Outbox()
    meta: dict[str, Any] = {}
    meta["self"] = meta
    with pytest.raises(InvalidInputError, match="meta"):
        Ledger(store).once("k", outbox, meta)
    assert list(store.list()) == []
    assert outbox.sent == []


# What a store raises


def test_a_store_that_fails_after_the_send_raises_and_says_which_message_went_out() -> None:
    store = MemoryStore()
    faulty = FaultyStore(store, [Fault("transition", "before")])
    with pytest.raises(StoreFault) as raised:
        Ledger(faulty).once("k", lambda: {"id": "m1"})
    (note,) = raised.value.__notes__
    assert "k was sent (provider id 'm1')" in note
    assert "resolve(key, 'sent')" in note
    assert entry_in(store).status is Status.PENDING
    assert Ledger(store).once("k", Outbox()).outcome == "unknown"


def test_a_store_that_fails_while_a_failure_is_recorded_leaves_the_entry_pending() -> None:
    store = MemoryStore()
    faulty = FaultyStore(store, [Fault("transition", "before")])
    with pytest.raises(StoreFault):
        Ledger(faulty).once("k", raising(RejectedSendError("no")))
    assert Ledger(store).once("k", Outbox()).outcome == "unknown"


def test_a_clock_that_fails_after_the_send_leaves_the_entry_pending() -> None:
    store, times = MemoryStore(), [1_000.0]
    with pytest.raises(IndexError):
        Ledger(store, clock=times.pop).once("k", Outbox())
    assert Ledger(store).once("k", Outbox()).outcome == "unknown"


def test_a_claim_that_answers_with_a_coroutine_is_no_claim() -> None:
    """A wrapper with plain methods over an async store cannot be told before it is asked."""
    store, outbox = MemoryStore(), Outbox()

    class Later:
        def __await__(self) -> Any:
            yield

    wrapper = SimpleNamespace(claim=lambda _entry: Later(), transition=store.transition, get=store.get, list=store.list)
    with pytest.raises(InvalidInputError, match="AsyncLedger") as refused:
        Ledger(wrapper).once("k", outbox)
    assert refused.value.field == "store"
    assert outbox.sent == []


def test_what_the_send_learns_when_the_claim_was_applied_and_not_answered() -> None:
    outbox = Outbox()
    outcome = Ledger(FaultyStore(MemoryStore(), [Fault("claim", "after")])).once("k", outbox)
    assert isinstance(outcome, Sent)
    assert outbox.sent == [SendContext("k", 1)]


def test_a_closed_ledger_has_closed_its_store(tmp_path: Any) -> None:
    closed: list[bool] = []

    class Closing(MemoryStore):
        def close(self) -> None:
            closed.append(True)

    with Ledger(Closing()) as ledger:
        ledger.once("k", Outbox())
        assert closed == []
    assert closed == [True]
    with pytest.raises(ZeroDivisionError), Ledger(Closing()):
        raise ZeroDivisionError
    assert closed == [True, True]
    with Ledger(MemoryStore()):
        pass  # a store without close


def test_an_uncertain_error_says_what_it_is_about() -> None:
    cause = TimeoutError("read")
    outcome = Ledger(MemoryStore()).once("k", raising(UncertainSendError(cause)))
    assert isinstance(outcome, Unknown)
    assert outcome.entry.error == "Delivery is unknown: read"
    assert outcome.error is not None
    assert outcome.error.__cause__ is cause


def test_the_store_of_a_ledger_can_be_asked_for() -> None:
    store = MemoryStore()
    assert Ledger(store).store is store


@pytest.mark.parametrize("store", [None, object(), {}, "ledger.jsonl"])
def test_what_is_no_store_is_refused_by_the_names_of_what_it_lacks(store: Any) -> None:
    with pytest.raises(InvalidInputError, match="missing claim") as refused:
        Ledger(store)
    assert refused.value.field == "store"
