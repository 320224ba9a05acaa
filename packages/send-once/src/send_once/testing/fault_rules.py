"""The rules for stores that fail to answer, and for callers in threads."""

from __future__ import annotations

from send_once.ledger import Ledger
from send_once.outcomes import Claimed
from send_once.testing.entries import entry_of, settled
from send_once.testing.faults import Fault, FaultyStore, StoreFault
from send_once.testing.hooks import StoreHooks, claimed_or_refused, raises
from send_once.testing.races import ROUNDS, in_rounds

THREADS = 16


class FaultRules(StoreHooks):
    """The seams: before and after each call of the store."""

    def test_the_store_works_after_a_refused_write(self) -> None:
        store = self.new_store()
        for key in ("\x00", "a\ud800"):
            claimed_or_refused(store, key)
        assert store.claim(entry_of("after")) is True
        assert store.transition(entry_of("after"), settled(entry_of("after"), "sent")) is True

    def test_a_claim_that_was_applied_and_not_answered_is_known_by_its_id(self) -> None:
        sends: list[str] = []
        faulty = FaultyStore(self.new_store(), [Fault("claim", "after")])
        outcome = Ledger(faulty).once("k", lambda: sends.append("k"))
        assert outcome.outcome == "sent"
        assert sends == ["k"]

    def test_a_claim_that_failed_before_it_was_applied_sends_nothing(self) -> None:
        store, sends = self.new_store(), []
        faulty = FaultyStore(store, [Fault("claim", "before")])
        raises(StoreFault, lambda: Ledger(faulty).once("k", lambda: sends.append("k")))
        assert sends == []
        assert Ledger(store).once("k", lambda: sends.append("k")).outcome == "sent"

    def test_a_record_that_failed_leaves_the_send_unknown(self) -> None:
        store, sends = self.new_store(), []
        faulty = FaultyStore(store, [Fault("transition", "before")])
        raises(StoreFault, lambda: Ledger(faulty).once("k", lambda: sends.append("k")))
        assert Ledger(store).once("k", lambda: sends.append("k")).outcome == "unknown"
        assert sends == ["k"]

    def test_a_record_that_was_applied_and_not_answered_is_a_duplicate_for_the_next(self) -> None:
        store, sends = self.new_store(), []
        faulty = FaultyStore(store, [Fault("transition", "after")])
        raises(StoreFault, lambda: Ledger(faulty).once("k", lambda: sends.append("k")))
        assert Ledger(store).once("k", lambda: sends.append("k")).outcome == "duplicate"
        assert sends == ["k"]

    # Threads

    def test_many_threads_send_once(self) -> None:
        ledger, sends = Ledger(self.new_store()), list[int]()

        def once(number: int, _n: int) -> str:
            return ledger.once(f"k{number}", lambda: sends.append(number)).outcome

        for outcomes in in_rounds(THREADS, once):
            assert outcomes.count("sent") == 1
            assert set(outcomes) <= {"sent", "unknown", "duplicate"}
        assert sorted(sends) == list(range(ROUNDS))

    def test_the_two_halves_of_a_send_settle_the_claim_they_made(self) -> None:
        ledger = Ledger(self.new_store())
        claimed = ledger.claim("k")
        assert isinstance(claimed, Claimed)
        assert ledger.settle(claimed, "msg").outcome == "sent"
        assert ledger.claim("k").outcome == "duplicate"
