"""The scripts of the protocol, handed each answer by hand: which steps they ask for, in which order, and when they send."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from send_once import (
    AlreadySentError,
    Claimed,
    ContendedError,
    Duplicate,
    Entry,
    Expired,
    Failed,
    InvalidInputError,
    RejectedSendError,
    ResultRefusedError,
    SendContext,
    Sent,
    Status,
    StoreInconsistentError,
    Unknown,
    approvals,
    protocol,
)
from send_once.certainty import classifier
from send_once.entry import LEGAL_MOVES, ClaimMark
from send_once.errors import EntryTooLargeError, LedgerDamagedError, LockTimeoutError, UnsafeStoreError
from send_once.protocol import Begin, Claim, Get, Now, Recheck, Send, Transition
from send_once.testing import entry_of, settled

NOW_MS = 1_790_510_400_000.0
CLASSIFY = classifier()
REQUEST = protocol.Request("k")

Answer = Any
"""What a step is answered with: a value, an exception to raise, or a function of the step."""


class Hand:
    """Drives a script to its end with the answers given, and lists the steps it asked for."""

    def __init__(self, script: Generator[Any, Any, Any], *answers: Answer) -> None:
        self.steps: list[Any] = []
        self.marks = 0
        self.left = list(answers)
        self.outcome, self.error = None, None
        try:
            self.outcome = self._drive(script)
        except AssertionError:
            raise
        except Exception as error:
            self.error = error
        assert not self.left, f"answers nobody asked for: {self.left}, after {self.names}"

    @property
    def names(self) -> list[str]:
        """The steps, without the looks at the clock that every one has."""
        return [type(step).__name__ for step in self.steps if not isinstance(step, Begin | Now)]

    def _drive(self, script: Generator[Any, Any, Any]) -> Any:
        step = next(script)
        while True:
            self.steps.append(step)
            try:
                answer = self._answer(step)
                step = script.throw(answer) if isinstance(answer, Exception) else script.send(answer)
            except StopIteration as end:
                return end.value

    def _answer(self, step: Any) -> Any:
        if isinstance(step, Now):
            return NOW_MS
        if isinstance(step, Begin):
            self.marks += 1
            return ClaimMark(f"mine{self.marks}", "h", 1, "s", step.payload), NOW_MS
        answer = self.left.pop(0)
        return answer(self) if callable(answer) else answer


def written(hand: Hand) -> Entry:
    """The entry of the last write that was asked for."""
    entry: Entry = next(step.entry for step in reversed(hand.steps) if isinstance(step, Claim | Transition))
    return entry


def written_as(status: str) -> Callable[[Hand], Entry]:
    return lambda hand: settled(written(hand), status)


def once(*answers: Answer) -> Hand:
    return Hand(protocol.once(REQUEST, CLASSIFY), *answers)


# Taking the claim


def test_a_send_is_asked_for_when_its_claim_is_known_to_be_made_and_then_recorded() -> None:
    hand = once(True, "m1", True)
    assert [type(step) for step in hand.steps] == [Begin, Claim, Send, Now, Transition]
    assert hand.steps[2].context == SendContext("k", 1)
    claimed, recorded = hand.steps[1].entry, hand.steps[4]
    assert recorded.came_from is claimed
    assert (recorded.entry.status, recorded.entry.provider_id, recorded.entry.claim_id) == ("sent", "m1", "mine1")
    assert hand.outcome == Sent("k", recorded.entry, "m1")


@pytest.mark.parametrize(("status", "outcome"), [("sent", Duplicate), ("pending", Unknown)])
def test_a_refused_claim_looks_at_what_is_in_the_way(status: str, outcome: type) -> None:
    in_the_way = entry_of("k", status=status)
    assert once(False, in_the_way).outcome == outcome("k", in_the_way)
    assert once(in_the_way).outcome == outcome("k", in_the_way), "a store may answer with the entry itself"


@pytest.mark.parametrize(
    "error",
    [
        InvalidInputError("x"),
        EntryTooLargeError("x"),
        LedgerDamagedError("x"),
        LockTimeoutError("x"),
        UnsafeStoreError("x"),
    ],
)
def test_an_error_that_says_nothing_was_written_is_raised_without_asking_the_store_again(error: Exception) -> None:
    hand = once(error)
    assert (hand.names, hand.error) == (["Claim"], error)


def test_a_claim_that_fails_is_looked_for_and_taken_up_when_it_is_there() -> None:
    hand = once(ConnectionError("gone"), written, "m1", True)
    assert hand.names == ["Claim", "Get", "Send", "Transition"]
    assert isinstance(hand.outcome, Sent)


@pytest.mark.parametrize(
    "found",
    [
        None,
        entry_of("k", claim_id="another's"),
        entry_of("k", claim_id=None),
        ConnectionError("still gone"),
        written_as("failed"),
        written_as("sent"),
    ],
    ids=["absent", "another's", "the reference's", "no answer", "ours and written off", "ours and marked sent"],
)
def test_a_claim_that_fails_and_is_not_there_as_ours_raises_the_first_error(found: Answer) -> None:
    error = ConnectionError("gone")
    hand = once(error, found)
    assert (hand.names, hand.error) == (["Claim", "Get"], error)


def test_a_claim_that_its_own_repetition_refused_is_ours() -> None:
    """A driver that repeats a write by itself is told that the key is there: we put it there."""
    hand = once(False, written, "m1", True)
    assert hand.names == ["Claim", "Get", "Send", "Transition"]
    assert isinstance(hand.outcome, Sent)


def test_a_claim_of_ours_that_was_written_off_before_we_saw_it_is_not_sent_on_but_claimed_anew() -> None:
    """Whoever finds it failed may send; so may we, as the next attempt and under its own claim."""
    hand = once(False, written_as("failed"), True, "m1", True)
    assert hand.names == ["Claim", "Get", "Transition", "Send", "Transition"]
    assert hand.steps[-1].entry.claim_id == "mine2"
    assert next(step for step in hand.steps if isinstance(step, Send)).context.attempt == 2


def test_a_claim_of_ours_that_was_marked_sent_before_we_saw_it_is_a_duplicate() -> None:
    hand = once(False, written_as("sent"))
    assert hand.names == ["Claim", "Get"]
    assert isinstance(hand.outcome, Duplicate)


def test_a_store_that_refuses_a_claim_and_has_no_entry_is_called_inconsistent() -> None:
    assert isinstance(once(False, None).error, StoreInconsistentError)


@pytest.mark.parametrize("truthy", [1, "yes", [0]])
def test_whatever_is_true_is_a_claim_made(truthy: object) -> None:
    assert isinstance(once(truthy, "m1", True).outcome, Sent)


@pytest.mark.parametrize("falsy", [None, 0, ""])
def test_whatever_is_false_is_no_claim(falsy: object) -> None:
    assert once(falsy, entry_of("k")).names == ["Claim", "Get"]


# Trying again after a failure


def test_a_failed_entry_is_claimed_anew_from_exactly_what_was_seen() -> None:
    failed = entry_of("k", status="failed", attempts=3, meta={"to": "ana"}, error="no")
    hand = once(False, failed, True, "m1", True)
    retry = next(step for step in hand.steps if isinstance(step, Transition))
    assert retry.came_from is failed
    assert (retry.entry.attempts, retry.entry.status, retry.entry.claim_id) == (4, "pending", "mine2")
    assert retry.entry.meta == {"to": "ana"}


@pytest.mark.parametrize(("status", "outcome"), [("pending", Unknown), ("sent", Duplicate)])
def test_who_loses_the_race_for_a_retry_learns_what_the_winner_did(status: str, outcome: type) -> None:
    winner = entry_of("k", status=status, attempts=2, claim_id="another's")
    hand = once(False, entry_of("k", status="failed"), False, winner)
    assert hand.names == ["Claim", "Get", "Transition", "Get"]
    assert hand.outcome == outcome("k", winner)


def test_a_retry_that_was_applied_and_not_answered_is_known_by_its_id() -> None:
    hand = once(False, entry_of("k", status="failed"), ConnectionError("gone"), written, "m2", True)
    assert hand.names == ["Claim", "Get", "Transition", "Get", "Send", "Transition"]
    assert isinstance(hand.outcome, Sent)


def test_a_key_that_keeps_failing_under_others_is_given_up_without_a_send() -> None:
    answers = [
        False,
        *[entry_of("k", status="failed", attempts=n) if odd else False for n in range(1, 6) for odd in (1, 0)],
    ]
    hand = once(*answers)
    assert isinstance(hand.error, ContendedError)
    assert "Send" not in hand.names


def test_the_last_try_of_all_counts_when_it_lands() -> None:
    losses = [answer for n in range(1, 5) for answer in (entry_of("k", status="failed", attempts=n), False)]
    hand = once(False, *losses, entry_of("k", status="failed", attempts=5), True, "m", True)
    assert isinstance(hand.outcome, Sent)


# Recording how it ended


@pytest.mark.parametrize(
    ("error", "outcome", "status"),
    [
        (RejectedSendError("no"), Failed, "failed"),
        (TimeoutError(), Unknown, "pending"),
        (ValueError("x"), Failed, "failed"),
    ],
)
def test_an_error_is_recorded_over_its_own_claim(error: Exception, outcome: type, status: str) -> None:
    hand = once(True, error, True)
    assert isinstance(hand.outcome, outcome)
    assert hand.steps[-1].came_from.claim_id == "mine1"
    assert hand.steps[-1].entry.status == status


@pytest.mark.parametrize("other", [entry_of("k", status="sent"), entry_of("k", attempts=2, claim_id="another's")])
@pytest.mark.parametrize("error", [RejectedSendError("no"), TimeoutError()])
def test_a_late_error_leaves_what_is_no_longer_its_own(error: Exception, other: Entry) -> None:
    hand = once(True, error, False, other)
    assert hand.names == ["Claim", "Send", "Transition", "Get"]
    assert hand.outcome is not None
    assert hand.outcome.entry == other


@pytest.mark.parametrize("error", [RejectedSendError("no"), TimeoutError()])
def test_an_entry_deleted_while_its_send_ran_is_put_back(error: Exception) -> None:
    """Absent would mean that nobody ever tried."""
    hand = once(True, error, False, None, True)
    assert hand.names == ["Claim", "Send", "Transition", "Get", "Claim"]
    assert hand.steps[-1].entry.claim_id == "mine1"


def test_a_deleted_entry_is_not_put_back_over_anothers_claim() -> None:
    other = entry_of("k", claim_id="another's")
    hand = once(True, RejectedSendError("no"), False, None, False, False, other)
    assert hand.names == ["Claim", "Send", "Transition", "Get", "Claim", "Transition", "Get"]
    assert hand.outcome is not None
    assert hand.outcome.entry == other


@pytest.mark.parametrize("where", ["pending", "failed"])
def test_a_success_is_recorded_over_whatever_became_of_its_own_attempt(where: str) -> None:
    hand = once(True, "m1", False, written_as(where), True)
    assert hand.names == ["Claim", "Send", "Transition", "Get", "Transition"]
    assert (hand.steps[-1].entry.status, hand.steps[-1].entry.provider_id) == ("sent", "m1")
    assert isinstance(hand.outcome, Sent)


def test_a_success_of_an_earlier_attempt_is_recorded_on_top_of_the_later_one() -> None:
    later = entry_of("k", attempts=2, claim_id="another's", error="no answer", uncertain=True)
    hand = once(True, "m1", False, later, True)
    recorded = hand.steps[-1].entry
    assert (recorded.status, recorded.attempts, recorded.claim_id) == ("sent", 2, "another's")
    assert (recorded["lateAttempt"], recorded.error) == (1, "no answer")


def test_a_success_that_someone_recorded_already_is_not_written_again() -> None:
    sent = entry_of("k", status="sent")
    hand = once(True, "m1", False, sent)
    assert hand.names == ["Claim", "Send", "Transition", "Get"]
    assert hand.outcome == Sent("k", sent, "m1")


def test_a_success_that_cannot_be_recorded_raises_with_the_providers_id() -> None:
    changing = [answer for _ in range(5) for answer in (written_as("failed"), False)]
    hand = once(True, "m1", False, *changing)
    assert isinstance(hand.error, ContendedError)
    assert "'m1'" in str(hand.error)
    hand = once(True, "m1", ConnectionError("gone"))
    assert isinstance(hand.error, ConnectionError)
    assert "'m1'" in "".join(hand.error.__notes__)
    assert hand.names == ["Claim", "Send", "Transition"], "it is not written a second time by itself"


def test_a_refused_result_is_recorded_as_unknown_before_it_is_raised() -> None:
    response = type("Response", (), {"status_code": 500, "headers": {}})()
    hand = once(True, response, True)
    assert isinstance(hand.error, ResultRefusedError)
    assert (hand.steps[-1].entry.status, hand.steps[-1].entry.uncertain) == ("pending", True)


@pytest.mark.parametrize("steps_before", [0, 1, 2, 3, 4])
def test_a_script_that_is_dropped_asks_for_nothing_more(steps_before: int) -> None:
    """KeyboardInterrupt, SystemExit and cancellation end a script where it stands."""
    script: Any = protocol.once(REQUEST, CLASSIFY)
    answers = [(ClaimMark("mine", "h", 1, "s"), NOW_MS), True, "m1", NOW_MS]
    next(script)
    for answer in answers[:steps_before]:
        script.send(answer)
    with pytest.raises(KeyboardInterrupt):
        script.throw(KeyboardInterrupt())
    with pytest.raises(StopIteration):
        next(script)


# Settling


def resolve(status: Status, *answers: Answer) -> Hand:
    return Hand(protocol.resolve("k", status, by="ana", note=None, provider_id=None), *answers)


def test_a_settlement_names_exactly_the_entry_that_was_seen() -> None:
    seen = entry_of("k")
    hand = resolve(Status.SENT, seen, True)
    assert hand.names == ["Get", "Transition"]
    assert hand.steps[-1].came_from is seen


@pytest.mark.parametrize("status", [Status.SENT, Status.FAILED])
def test_the_same_status_again_writes_nothing(status: Status) -> None:
    seen = entry_of("k", status=status)
    hand = resolve(status, seen)
    assert (hand.names, hand.outcome) == (["Get"], seen)


def test_what_was_sent_is_not_marked_failed_also_when_it_became_so_meanwhile() -> None:
    assert isinstance(resolve(Status.FAILED, entry_of("k", status="sent")).error, AlreadySentError)
    hand = resolve(Status.FAILED, entry_of("k"), False, entry_of("k", status="sent"))
    assert hand.names == ["Get", "Transition", "Get"]
    assert isinstance(hand.error, AlreadySentError)


# Dispatching


def dispatch(*answers: Answer, ttl_ms: float = 60_000, recheck: Any = dict) -> Hand:
    approval = approvals.approve(payload={"a": 1}, facts={"due": True}, ttl=ttl_ms, now=NOW_MS)
    request = approvals.prepare_dispatch(approval, key="k", payload={"a": 1}, meta=None, recheck=recheck)
    return Hand(approvals.dispatch(request, CLASSIFY), *answers)


def test_a_dispatch_looks_at_the_clock_before_the_facts_at_the_claim_and_before_the_send() -> None:
    hand = dispatch({"due": True}, True, "m1", True)
    assert [type(step) for step in hand.steps] == [Now, Recheck, Begin, Claim, Now, Send, Now, Transition]


@pytest.mark.parametrize("facts", [{"due": False}, {}])
def test_a_fact_that_changed_claims_nothing(facts: dict[str, Any]) -> None:
    hand = dispatch(facts, None)
    assert hand.names == ["Recheck", "Get"]


def test_a_recheck_that_raises_claims_nothing() -> None:
    error = ConnectionError("no facts")
    hand = dispatch(error)
    assert (hand.names, hand.error) == (["Recheck"], error)


def test_an_approval_that_ends_between_the_claim_and_the_send_is_written_off_unsent() -> None:
    class Later(Hand):
        def _answer(self, step: Any) -> Any:
            late = isinstance(step, Now) and any(isinstance(asked, Claim) for asked in self.steps)
            return NOW_MS + 60_001 if late else super()._answer(step)

    approval = approvals.approve(payload={"a": 1}, ttl=60_000, now=NOW_MS)
    request = approvals.prepare_dispatch(approval, key="k", payload={"a": 1}, meta=None, recheck=None)
    hand = Later(approvals.dispatch(request, CLASSIFY), True, True)
    assert hand.names == ["Claim", "Transition"]
    assert hand.steps[-1].entry.status == "failed"
    assert isinstance(hand.outcome, Expired)


# Whatever a store answers

STORED = st.sampled_from(["absent", "another's", "ours", "ours, failed", "ours, sent", "failed", "sent", "no answer"])
WRITTEN = st.sampled_from([True, False, ConnectionError("gone")])
ENDED = st.sampled_from(["m1", RejectedSendError("no"), TimeoutError()])


class Hostile(Hand):
    """Answers with anything a store could say, and watches when a send is asked for."""

    def __init__(self, script: Generator[Any, Any, Any], data: st.DataObject) -> None:
        self.data = data
        self.standing: Entry | None = None
        """The claim that the last answer showed to stand, in the store, as ours and pending."""
        super().__init__(script)

    def _answer(self, step: Any) -> Any:
        if isinstance(step, Now | Begin):
            return super()._answer(step)
        if isinstance(step, Send):
            assert self.standing is not None, f"sends without a claim: {self.names}"
            assert self.names.count("Send") == 1, "sends twice"
            return self.data.draw(ENDED)
        if isinstance(step, Get):
            return self._stored(self.data.draw(STORED))
        if isinstance(step, Transition):
            assert step.entry.status in LEGAL_MOVES[step.came_from.status], f"an illegal move: {step}"
        answer = self.data.draw(WRITTEN)
        self.standing = step.entry if answer is True else None
        return answer

    def _stored(self, what: str) -> Any:
        entry = written(self)
        stored: dict[str, Any] = {
            "absent": None,
            "another's": entry_of("k", claim_id="another's"),
            "ours": entry,
            "ours, failed": settled(entry, "failed"),
            "ours, sent": settled(entry, "sent"),
            "failed": entry_of("k", status="failed", claim_id="another's"),
            "sent": entry_of("k", status="sent", claim_id="another's"),
            "no answer": ConnectionError("gone"),
        }
        self.standing = entry if what == "ours" else None
        return stored[what]


@given(data=st.data())
@settings(max_examples=500, deadline=None, database=None)
def test_whatever_a_store_answers_a_send_follows_only_a_claim_shown_to_be_ours_and_comes_once(
    data: st.DataObject,
) -> None:
    _sends_once_at_most(data)


@pytest.mark.full
@given(data=st.data())
@settings(max_examples=50_000, deadline=None, database=None)
def test_whatever_a_store_answers_a_send_comes_once_in_long_runs(data: st.DataObject) -> None:
    _sends_once_at_most(data)


def _sends_once_at_most(data: st.DataObject) -> None:
    hand = Hostile(protocol.once(REQUEST, CLASSIFY), data)
    assert hand.outcome is not None or hand.error is not None
    assert isinstance(hand.outcome, Sent | Failed) <= ("Send" in hand.names)
    assert len(hand.steps) < 100


@given(data=st.data())
@settings(max_examples=500, deadline=None, database=None)
def test_whatever_a_store_answers_a_claim_is_answered_only_when_it_was_shown_to_be_ours(data: st.DataObject) -> None:
    hand = Hostile(protocol.acquire(REQUEST), data)
    if isinstance(hand.outcome, Claimed):
        assert hand.standing is not None
        assert hand.outcome.entry.claim_id == hand.standing.claim_id
