"""The contract that decides what a store is."""

from __future__ import annotations

import os
from collections.abc import Callable

from send_once.entry import Entry, Status
from send_once.errors import InvalidInputError, SendOnceError
from send_once.ledger import Ledger
from send_once.outcomes import Claimed
from send_once.stores.base import BatchStore, HistoryStore, Store
from send_once.testing import children
from send_once.testing.entries import AT, ODD_KEYS, entry_of, settled
from send_once.testing.faults import Fault, FaultyStore, StoreFault
from send_once.testing.races import OpenStore, exit_code, exit_forked, in_processes, in_threads

THREADS = 16
PROCESSES = 4
LARGE_META_CHARS = 100_000


class StoreContract:
    """Subclass it, define `make_store`, run pytest.

    `make_store()` gives a new, empty store. For a store that outlives its process define `opener()`
    too: a picklable function that opens the *same* data as the last `make_store()` did, in another
    process; then the races between processes, the killed child and the fork are tried as well.
    """

    def make_store(self) -> Store:
        raise NotImplementedError("StoreContract: define make_store() to return a new, empty store.")

    def opener(self) -> OpenStore | None:
        """A picklable function that opens the same data, or None for a store within one process."""
        return None

    def another(self, store: Store) -> Store:
        """Another handle on the same data."""
        open_store = self.opener()
        return store if open_store is None else open_store()

    # A claim inserts once

    def test_a_claim_inserts_an_absent_key(self) -> None:
        store = self.make_store()
        entry = entry_of("k", meta={"to": "ana"})
        assert store.claim(entry) is True
        assert _stored(store, "k").text == entry.text

    def test_a_claim_of_a_present_key_is_refused_and_changes_nothing(self) -> None:
        store = self.make_store()
        first = entry_of("k")
        store.claim(first)
        for status in ("pending", "sent", "failed"):
            assert store.claim(entry_of("k", status=status, claim_id="c2")) is False
            assert _stored(store, "k") == first

    def test_an_absent_key_has_no_entry(self) -> None:
        assert self.make_store().get("nope") is None

    def test_exactly_one_of_racing_threads_claims(self) -> None:
        store = self.make_store()
        answers = in_threads(THREADS, lambda n: store.claim(entry_of("k", claim_id=f"c{n}")))
        assert answers.count(True) == 1
        assert _stored(store, "k").claim_id == f"c{answers.index(True)}"

    def test_exactly_one_of_racing_processes_claims(self) -> None:
        store, open_store = self.make_store(), self.opener()
        if open_store is None:
            return
        keys = [f"k{n}" for n in range(20)]
        winners = in_processes(PROCESSES, children.claim_all, open_store, keys)
        for key in keys:
            claims = [name for name, won in winners if key in won]
            assert len(claims) == 1, f"{key} was claimed by {claims}"
            assert _stored(store, key).claim_id == claims[0]

    def test_another_handle_sees_a_claim_at_once(self) -> None:
        store = self.make_store()
        other = self.another(store)
        assert other.get("k") is None
        store.claim(entry_of("k"))
        assert _stored(other, "k") == entry_of("k")
        assert other.claim(entry_of("k", claim_id="c2")) is False

    # A transition replaces exactly what it names

    def test_a_transition_replaces_the_entry_it_names(self) -> None:
        store = self.make_store()
        claimed = entry_of("k")
        store.claim(claimed)
        sent = settled(claimed, "sent", providerId="p")
        assert store.transition(claimed, sent) is True
        assert _stored(store, "k").text == sent.text

    def test_a_transition_of_an_absent_key_is_refused(self) -> None:
        store = self.make_store()
        assert store.transition(entry_of("k"), settled(entry_of("k"), "sent")) is False
        assert store.get("k") is None

    def test_a_transition_from_another_status_is_refused(self) -> None:
        self._refuses(stored=entry_of("k", status="failed"), named=entry_of("k"))

    def test_a_transition_from_another_attempt_is_refused(self) -> None:
        self._refuses(stored=entry_of("k", attempts=2, claim_id=None), named=entry_of("k", claim_id=None))

    def test_a_transition_from_another_claim_is_refused(self) -> None:
        self._refuses(stored=entry_of("k", claim_id="c2"), named=entry_of("k", claim_id="c1"))

    def test_a_transition_that_names_a_claim_does_not_land_on_an_entry_without_one(self) -> None:
        self._refuses(stored=entry_of("k", claim_id=None), named=entry_of("k"))

    def test_a_late_failure_of_attempt_one_does_not_land_on_attempt_two(self) -> None:
        store = self.make_store()
        first = entry_of("k", claim_id="c1")
        second = entry_of("k", attempts=2, claim_id="c2")
        store.claim(first)
        assert store.transition(first, settled(first, "failed", error="resolved by hand"))
        assert store.transition(_stored(store, "k"), second)
        assert store.transition(first, settled(first, "failed", error="late")) is False
        assert _stored(store, "k") == second

    def test_sent_is_not_overwritten_by_whoever_believes_it_is_pending(self) -> None:
        store = self.make_store()
        claimed = entry_of("k")
        store.claim(claimed)
        store.transition(claimed, settled(claimed, "sent"))
        assert store.transition(claimed, settled(claimed, "failed")) is False
        assert _stored(store, "k").status is Status.SENT

    def test_exactly_one_of_racing_transitions_wins(self) -> None:
        store = self.make_store()
        failed = entry_of("k", status="failed")
        store.claim(failed)
        answers = in_threads(THREADS, lambda n: store.transition(failed, entry_of("k", attempts=2, claim_id=f"r{n}")))
        assert answers.count(True) == 1
        assert _stored(store, "k").claim_id == f"r{answers.index(True)}"

    # What is kept

    def test_the_text_of_an_entry_is_kept_as_it_is(self) -> None:
        store = self.make_store()
        entry = entry_of(
            "k", meta={"9": 1, "b": [1.5, None], "name": "Žluťoučký 🎉", "ctl": "a\x01\n"}, custom={"a": 1}
        )
        store.claim(entry)
        assert _stored(store, "k").text == entry.text

    def test_odd_keys_are_kept_apart_or_refused_before_anything_is_written(self) -> None:
        store = self.make_store()
        kept = [key for key in ODD_KEYS if _claimed_or_refused(store, key)]
        assert len(kept) >= len(ODD_KEYS) // 2
        for key in kept:
            assert _stored(store, key).key == key
        assert sorted(entry.key for entry in store.list()) == sorted(kept)

    def test_a_large_entry_is_kept_or_refused_whole(self) -> None:
        store = self.make_store()
        entry = entry_of("k", meta={"text": "é" * LARGE_META_CHARS})
        try:
            store.claim(entry)
        except SendOnceError:
            assert store.get("k") is None
        else:
            assert _stored(store, "k") == entry

    def test_list_is_by_claim_time_and_by_status(self) -> None:
        store = self.make_store()
        late, early = entry_of("late", claimed_at="2026-09-27T13:00:00.000Z"), entry_of("early")
        failed = entry_of("failed", status="failed", claimed_at="2026-09-27T12:30:00.000Z")
        for entry in (late, early, failed):
            store.claim(entry)
        assert [entry.key for entry in store.list()] == ["early", "failed", "late"]
        assert [entry.key for entry in store.list(Status.PENDING)] == ["early", "late"]
        assert list(store.list(Status.SENT)) == []

    def test_entries_claimed_at_one_moment_are_listed_as_they_came(self) -> None:
        store = self.make_store()
        for key in ("b", "a", "c"):
            store.claim(entry_of(key))
        assert [entry.key for entry in store.list()] == ["b", "a", "c"]

    def test_what_was_written_is_there_for_a_handle_opened_later(self) -> None:
        store, open_store = self.make_store(), self.opener()
        if open_store is None:
            return
        entry = entry_of("k")
        store.claim(entry)
        store.transition(entry, settled(entry, "sent"))
        _close(store)
        assert _stored(open_store(), "k").status is Status.SENT

    def test_the_history_of_a_key_is_in_order(self) -> None:
        store = self.make_store()
        if not isinstance(store, HistoryStore):
            return
        entry = entry_of("k")
        store.claim(entry)
        store.transition(entry, settled(entry, "sent"))
        assert [state.status.value for state in store.history("k")] == ["pending", "sent"]
        assert list(store.history("nope")) == []

    # Batches

    def test_a_batch_of_claims_answers_in_order(self) -> None:
        store = self.make_store()
        store.claim(entry_of("b", claim_id="before"))
        if isinstance(store, BatchStore):
            assert list(store.claim_many([entry_of(key) for key in "abc"])) == [True, False, True]
            assert _stored(store, "b").claim_id == "before"
            assert list(store.claim_many([])) == []

    def test_a_batch_of_transitions_answers_in_order(self) -> None:
        store = self.make_store()
        if not isinstance(store, BatchStore):
            return
        a, b = entry_of("a"), entry_of("b")
        store.claim_many([a, b])
        store.transition(b, settled(b, "failed"))
        answers = store.transition_many([(a, settled(a, "sent")), (b, settled(b, "sent"))])
        assert list(answers) == [True, False]
        assert _stored(store, "b").status is Status.FAILED

    def test_a_batch_with_a_bad_entry_writes_nothing(self) -> None:
        store = self.make_store()
        if not isinstance(store, BatchStore):
            return
        huge = entry_of("huge", meta="x" * 50_000_000)
        try:
            store.claim_many([entry_of("a"), huge])
        except SendOnceError:
            assert store.get("a") is None
        else:
            assert _stored(store, "huge") == huge  # a store without a cap may keep it

    # Errors and faults

    def test_the_store_works_after_a_refused_write(self) -> None:
        store = self.make_store()
        for key in ("\x00", "a\ud800"):
            _claimed_or_refused(store, key)
        assert store.claim(entry_of("after")) is True
        assert store.transition(entry_of("after"), settled(entry_of("after"), "sent")) is True

    def test_a_claim_that_was_applied_and_not_answered_is_known_by_its_id(self) -> None:
        sends: list[str] = []
        faulty = FaultyStore(self.make_store(), [Fault("claim", "after")])
        outcome = Ledger(faulty).once("k", lambda: sends.append("k"))
        assert outcome.outcome == "sent"
        assert sends == ["k"]

    def test_a_claim_that_failed_before_it_was_applied_sends_nothing(self) -> None:
        store, sends = self.make_store(), []
        faulty = FaultyStore(store, [Fault("claim", "before")])
        _raises(StoreFault, lambda: Ledger(faulty).once("k", lambda: sends.append("k")))
        assert sends == []
        assert Ledger(store).once("k", lambda: sends.append("k")).outcome == "sent"

    def test_a_record_that_failed_leaves_the_send_unknown(self) -> None:
        store, sends = self.make_store(), []
        faulty = FaultyStore(store, [Fault("transition", "before")])
        _raises(StoreFault, lambda: Ledger(faulty).once("k", lambda: sends.append("k")))
        assert Ledger(store).once("k", lambda: sends.append("k")).outcome == "unknown"
        assert sends == ["k"]

    def test_a_record_that_was_applied_and_not_answered_is_a_duplicate_for_the_next(self) -> None:
        store, sends = self.make_store(), []
        faulty = FaultyStore(store, [Fault("transition", "after")])
        _raises(StoreFault, lambda: Ledger(faulty).once("k", lambda: sends.append("k")))
        assert Ledger(store).once("k", lambda: sends.append("k")).outcome == "duplicate"
        assert sends == ["k"]

    # Processes

    def test_many_threads_send_once(self) -> None:
        ledger, sends = Ledger(self.make_store()), []
        outcomes = in_threads(THREADS, lambda n: ledger.once("k", lambda: sends.append(n)).outcome)
        assert len(sends) == 1
        assert outcomes.count("sent") == 1
        assert set(outcomes) <= {"sent", "unknown", "duplicate"}

    def test_a_child_killed_in_its_send_leaves_it_unknown(self) -> None:
        store, open_store = self.make_store(), self.opener()
        if open_store is None:
            return
        assert exit_code(children.die_in_send, open_store, "k") < 0
        assert Ledger(store).once("k", lambda: "again").outcome == "unknown"

    def test_a_child_killed_between_claim_and_send_leaves_it_unknown(self) -> None:
        store, open_store = self.make_store(), self.opener()
        if open_store is None:
            return
        assert exit_code(children.die_after_claim, open_store, "k") < 0
        assert Ledger(store).once("k", lambda: "again").outcome == "unknown"

    def test_a_forked_child_uses_the_store_it_inherited(self) -> None:
        store, open_store = self.make_store(), self.opener()
        if open_store is None:
            return
        store.claim(entry_of("parent"))
        child = os.fork()
        if child == 0:
            exit_forked(lambda: store.get("parent") is not None and store.claim(entry_of("child")))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert _stored(store, "child") == entry_of("child")
        assert store.claim(entry_of("child", claim_id="c2")) is False
        assert store.claim(entry_of("parent-again")) is True

    def test_the_two_halves_of_a_send_settle_the_claim_they_made(self) -> None:
        ledger = Ledger(self.make_store())
        claimed = ledger.claim("k")
        assert isinstance(claimed, Claimed)
        assert ledger.settle(claimed, "msg").outcome == "sent"
        assert ledger.claim("k").outcome == "duplicate"

    def _refuses(self, *, stored: Entry, named: Entry) -> None:
        store = self.make_store()
        store.claim(stored)
        assert store.transition(named, settled(named, "sent")) is False
        assert _stored(store, stored.key) == stored


def _stored(store: Store, key: str) -> Entry:
    entry = store.get(key)
    assert entry is not None, f"the store has no entry for {key!r}"
    return entry


def _claimed_or_refused(store: Store, key: str) -> bool:
    try:
        claimed = store.claim(entry_of(key))
    except InvalidInputError:
        return False
    assert claimed is True, f"{key!r} was taken for another key"
    return True


def _raises(kind: type[BaseException], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def _close(store: Store) -> None:
    close = getattr(store, "close", None)
    if callable(close):
        close()


__all__ = ["AT", "OpenStore", "StoreContract"]
