"""The rules for stores that fail to answer, for callers in threads, and for processes that are killed or forked."""

from __future__ import annotations

import functools
import os
import tempfile

from send_once.ledger import Ledger
from send_once.outcomes import Claimed
from send_once.testing import children
from send_once.testing.entries import entry_of, settled
from send_once.testing.faults import Fault, FaultyStore, Moment, StoreFault
from send_once.testing.hooks import StoreHooks, claimed_or_refused, raises, stored
from send_once.testing.killing import killed_between
from send_once.testing.races import exit_code, exit_forked, in_threads

THREADS = 16

KILLED_AT: dict[tuple[str, Moment], tuple[int, str]] = {
    ("claim", "before"): (0, "sent"),
    ("claim", "after"): (0, "unknown"),
    ("transition", "before"): (1, "unknown"),
    ("transition", "after"): (1, "duplicate"),
}
"""For each point of a send at which its process is killed: how often it had sent, and what the next caller learns."""


class FaultRules(StoreHooks):
    """The seams: before and after each call of the store, in this process and in ones that die."""

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

    # Processes

    def test_many_threads_send_once(self) -> None:
        ledger, sends = Ledger(self.new_store()), []
        outcomes = in_threads(THREADS, lambda n: ledger.once("k", lambda: sends.append(n)).outcome)
        assert len(sends) == 1
        assert outcomes.count("sent") == 1
        assert set(outcomes) <= {"sent", "unknown", "duplicate"}

    def test_a_child_killed_around_any_step_of_a_send_leaves_what_the_next_caller_must_know(self) -> None:
        store, open_store = self.new_store(), self.opener()
        if open_store is None:
            return
        for (method, moment), (sends, told) in KILLED_AT.items():
            point = f"{moment} {method}"
            with tempfile.TemporaryDirectory() as folder:
                notes = os.path.join(folder, "sends")
                work = functools.partial(children.once_noting, key=point, notes=notes)
                killed_between(open_store, work, method, moment)
                assert children.noted(notes) == sends, f"killed {point}"
            again = Ledger(store).once(point, lambda: "again").outcome
            assert again == told, f"killed {point}: the next caller is told {again}"

    def test_a_forked_child_uses_the_store_it_inherited(self) -> None:
        store, open_store = self.new_store(), self.opener()
        if open_store is None:
            return
        store.claim(entry_of("parent"))
        child = os.fork()
        if child == 0:
            exit_forked(lambda: store.get("parent") is not None and store.claim(entry_of("child")))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert stored(store, "child") == entry_of("child")
        assert store.claim(entry_of("child", claim_id="c2")) is False
        assert store.claim(entry_of("parent-again")) is True

    def test_a_child_killed_in_its_send_leaves_it_unknown(self) -> None:
        store, open_store = self.new_store(), self.opener()
        if open_store is None:
            return
        assert exit_code(children.die_in_send, open_store, "k") < 0
        assert Ledger(store).once("k", lambda: "again").outcome == "unknown"

    def test_the_two_halves_of_a_send_settle_the_claim_they_made(self) -> None:
        ledger = Ledger(self.new_store())
        claimed = ledger.claim("k")
        assert isinstance(claimed, Claimed)
        assert ledger.settle(claimed, "msg").outcome == "sent"
        assert ledger.claim("k").outcome == "duplicate"
