"""The rules for stores that do a batch in one step, or answer a refused claim with what is in the way."""

from __future__ import annotations

from collections.abc import Sequence

from send_once.batches import Report
from send_once.entry import Status
from send_once.errors import SendOnceError
from send_once.ledger import Ledger
from send_once.outcomes import Claimed
from send_once.testing.entries import entry_of, settled
from send_once.testing.faults import Fault, FaultyStore, StoreFault
from send_once.testing.hooks import StoreHooks, answering, batches, raises, stored
from send_once.testing.races import in_rounds

THREADS = 8
BEYOND_ANY_CAP_CHARS = 20_000_000


class BatchRules(StoreHooks):
    """Tried where the store has `claim_many` and `transition_many`, or `claim_or_get`."""

    def test_a_batch_of_claims_answers_in_order(self) -> None:
        store = batches(self.new_store())
        store.claim(entry_of("b", claim_id="before"))
        assert list(store.claim_many([entry_of(key) for key in "abc"])) == [True, False, True]
        assert stored(store, "b").claim_id == "before"
        assert [entry.key for entry in store.list()] == ["b", "a", "c"]
        assert list(store.claim_many([])) == []

    def test_a_batch_of_claims_takes_no_key_that_is_there_whatever_its_status(self) -> None:
        store = batches(self.new_store())
        before = [entry_of(status, status=status) for status in ("pending", "sent", "failed")]
        for entry in before:
            store.claim(entry)
        assert list(store.claim_many([entry_of(e.key, claim_id="c2") for e in before])) == [False] * 3
        assert [stored(store, entry.key) for entry in before] == before

    def test_of_racing_batches_each_key_has_one_winner(self) -> None:
        store = batches(self.new_store())

        def claim(number: int, n: int) -> Sequence[bool]:
            return store.claim_many([entry_of(f"{key}{number}", claim_id=f"c{n}") for key in "abc"])

        for number, answers in enumerate(in_rounds(THREADS, claim)):
            for place, key in enumerate("abc"):
                winners = [f"c{n}" for n, answer in enumerate(answers) if answer[place]]
                assert winners == [stored(store, f"{key}{number}").claim_id]

    def test_a_batch_of_transitions_answers_in_order(self) -> None:
        store = batches(self.new_store())
        a, b, absent = entry_of("a"), entry_of("b"), entry_of("absent")
        store.claim_many([a, b])
        store.transition(b, settled(b, "failed"))
        answers = store.transition_many([(entry, settled(entry, "sent")) for entry in (b, absent, a)])
        assert list(answers) == [False, False, True]
        assert stored(store, "b").status is Status.FAILED
        assert store.get("absent") is None
        assert stored(store, "a").text == settled(a, "sent").text

    def test_a_batch_of_transitions_replaces_exactly_what_it_names(self) -> None:
        store = batches(self.new_store())
        there = [entry_of("attempt", attempts=2, claim_id=None), entry_of("claim", claim_id="c2"), entry_of("ours")]
        named = [entry_of("attempt", claim_id=None), entry_of("claim", claim_id="c1"), entry_of("ours")]
        store.claim_many(there)
        answers = store.transition_many([(entry, settled(entry, "sent")) for entry in named])
        assert list(answers) == [False, False, True]
        assert [stored(store, entry.key) for entry in there] == [*there[:2], settled(there[2], "sent")]

    def test_a_batch_with_a_bad_entry_writes_nothing(self) -> None:
        store = batches(self.new_store())
        huge = entry_of("huge", meta="x" * BEYOND_ANY_CAP_CHARS)
        try:
            store.claim_many([entry_of("a"), huge])
        except SendOnceError:
            assert store.get("a") is None
        else:
            assert stored(store, "huge") == huge  # a store without a cap may keep it

    def test_a_batch_that_was_applied_and_not_answered_is_known_by_its_ids(self) -> None:
        store = batches(self.new_store())
        faulty = FaultyStore(store, [Fault("claim_many", "after")])
        assert [outcome.outcome for outcome in _claims(faulty, ["a", "b"])] == ["claimed", "claimed"]
        assert [entry.key for entry in store.list(Status.PENDING)] == ["a", "b"]

    def test_a_batch_of_records_that_failed_leaves_every_send_unknown(self) -> None:
        store = batches(self.new_store())
        faulty = FaultyStore(store, [Fault("transition_many", "before")])
        reports = [(claimed, "msg") for claimed in _claims(faulty, ["a", "b"])]
        raises(StoreFault, lambda: _settle(faulty, reports))
        assert [entry.status for entry in store.list()] == [Status.PENDING, Status.PENDING]
        _settle(faulty, reports)
        assert [entry.status for entry in store.list()] == [Status.SENT, Status.SENT]

    def test_a_refused_claim_may_be_answered_with_what_stands_there_now(self) -> None:
        store = self.new_store()
        answers = answering(store)
        first = entry_of("k")
        assert answers.claim_or_get(first) is True
        assert stored(store, "k") == first
        assert answers.claim_or_get(entry_of("k", claim_id="c2")) in (False, first)
        sent = settled(first, "sent")
        store.transition(first, sent)
        assert answers.claim_or_get(entry_of("k", claim_id="c3")) in (False, sent)
        assert stored(store, "k") == sent

    def test_exactly_one_of_racing_callers_claims_also_where_the_others_are_answered(self) -> None:
        store = self.new_store()
        claim_or_get = answering(store).claim_or_get
        rounds = in_rounds(THREADS, lambda number, n: claim_or_get(entry_of(f"k{number}", claim_id=f"c{n}")))
        for number, answers in enumerate(rounds):
            winners = [f"c{n}" for n, answer in enumerate(answers) if answer is True]
            assert winners == [stored(store, f"k{number}").claim_id]


def _claims(store: FaultyStore, keys: list[str]) -> list[Claimed]:
    outcomes = Ledger(store).claim_many(keys)
    claimed = [outcome for outcome in outcomes if isinstance(outcome, Claimed)]
    assert len(claimed) == len(keys), f"not all were claimed: {outcomes}"
    return claimed


def _settle(store: FaultyStore, reports: list[tuple[Claimed, str]]) -> None:
    Ledger(store).settle_many(Report(claimed, result) for claimed, result in reports)
