"""The contract that decides what a store is."""

from __future__ import annotations

from send_once.entry import Entry, Status
from send_once.errors import SendOnceError
from send_once.stores.base import Store
from send_once.testing.batch_rules import BatchRules
from send_once.testing.entries import AT, ODD_KEYS, entry_of, settled
from send_once.testing.fault_rules import THREADS, FaultRules
from send_once.testing.hooks import claimed_or_refused, keeping_history, stored
from send_once.testing.process_rules import ProcessRules
from send_once.testing.races import ROUNDS, OpenStore, in_rounds

LARGE_META_CHARS = 100_000


class StoreRules(BatchRules, FaultRules):
    """Every rule that can be tried within one process."""

    # A claim inserts once

    def test_a_claim_inserts_an_absent_key(self) -> None:
        store = self.new_store()
        entry = entry_of("k", meta={"to": "ana"})
        assert store.claim(entry) is True
        assert stored(store, "k").text == entry.text

    def test_a_claim_of_a_present_key_is_refused_and_changes_nothing(self) -> None:
        store = self.new_store()
        for there in ("pending", "sent", "failed"):
            first = entry_of(there, status=there)
            store.claim(first)
            for status in ("pending", "sent", "failed"):
                assert store.claim(entry_of(there, status=status, claim_id="c2")) is False
                assert stored(store, there) == first

    def test_an_absent_key_has_no_entry(self) -> None:
        assert self.new_store().get("nope") is None

    def test_exactly_one_of_racing_threads_claims(self) -> None:
        store = self.new_store()
        rounds = in_rounds(THREADS, lambda number, n: store.claim(entry_of(f"k{number}", claim_id=f"c{n}")))
        for number, answers in enumerate(rounds):
            assert answers.count(True) == 1
            assert stored(store, f"k{number}").claim_id == f"c{answers.index(True)}"

    # A transition replaces exactly what it names

    def test_a_transition_replaces_the_entry_it_names(self) -> None:
        store = self.new_store()
        claimed = entry_of("k")
        store.claim(claimed)
        sent = settled(claimed, "sent", providerId="p")
        assert store.transition(claimed, sent) is True
        assert stored(store, "k").text == sent.text

    def test_a_transition_of_an_absent_key_is_refused(self) -> None:
        store = self.new_store()
        assert store.transition(entry_of("k"), settled(entry_of("k"), "sent")) is False
        assert store.get("k") is None

    def test_a_transition_from_another_status_is_refused(self) -> None:
        self._refuses(standing=entry_of("k", status="failed"), named=entry_of("k"))

    def test_a_transition_from_another_attempt_is_refused(self) -> None:
        self._refuses(standing=entry_of("k", attempts=2, claim_id=None), named=entry_of("k", claim_id=None))

    def test_a_transition_from_another_claim_is_refused(self) -> None:
        self._refuses(standing=entry_of("k", claim_id="c2"), named=entry_of("k", claim_id="c1"))

    def test_a_transition_that_names_a_claim_does_not_land_on_an_entry_without_one(self) -> None:
        self._refuses(standing=entry_of("k", claim_id=None), named=entry_of("k"))

    def test_a_late_failure_of_attempt_one_does_not_land_on_attempt_two(self) -> None:
        store = self.new_store()
        first = entry_of("k", claim_id="c1")
        second = entry_of("k", attempts=2, claim_id="c2")
        store.claim(first)
        assert store.transition(first, settled(first, "failed", error="resolved by hand"))
        assert store.transition(stored(store, "k"), second)
        assert store.transition(first, settled(first, "failed", error="late")) is False
        assert stored(store, "k") == second

    def test_sent_is_not_overwritten_by_whoever_believes_it_is_pending(self) -> None:
        store = self.new_store()
        claimed = entry_of("k")
        store.claim(claimed)
        store.transition(claimed, settled(claimed, "sent"))
        assert store.transition(claimed, settled(claimed, "failed")) is False
        assert stored(store, "k").status is Status.SENT

    def test_exactly_one_of_racing_transitions_wins(self) -> None:
        store = self.new_store()
        failed = [entry_of(f"k{number}", status="failed") for number in range(ROUNDS)]
        for entry in failed:
            store.claim(entry)

        def retry(number: int, n: int) -> bool:
            return store.transition(failed[number], entry_of(f"k{number}", attempts=2, claim_id=f"r{n}"))

        for number, answers in enumerate(in_rounds(THREADS, retry)):
            assert answers.count(True) == 1
            assert stored(store, f"k{number}").claim_id == f"r{answers.index(True)}"

    # What is kept

    def test_the_text_of_an_entry_is_kept_as_it_is(self) -> None:
        store = self.new_store()
        entry = entry_of(
            "k", meta={"9": 1, "b": [1.5, None], "name": "Žluťoučký 🎉", "ctl": "a\x01\n"}, custom={"a": 1}
        )
        store.claim(entry)
        assert stored(store, "k").text == entry.text

    def test_odd_keys_are_kept_apart_or_refused_before_anything_is_written(self) -> None:
        store = self.new_store()
        kept = [key for key in ODD_KEYS if claimed_or_refused(store, key)]
        assert len(kept) >= len(ODD_KEYS) // 2
        for key in kept:
            assert stored(store, key).key == key
        assert sorted(entry.key for entry in store.list()) == sorted(kept)

    def test_a_large_entry_is_kept_or_refused_whole(self) -> None:
        store = self.new_store()
        entry = entry_of("k", meta={"text": "é" * LARGE_META_CHARS})
        try:
            store.claim(entry)
        except SendOnceError:
            assert store.get("k") is None
        else:
            assert stored(store, "k") == entry

    def test_list_is_by_claim_time_and_by_status(self) -> None:
        store = self.new_store()
        late, early = entry_of("late", claimed_at="2026-09-27T13:00:00.000Z"), entry_of("early")
        failed = entry_of("failed", status="failed", claimed_at="2026-09-27T12:30:00.000Z")
        for entry in (late, early, failed):
            store.claim(entry)
        assert [entry.key for entry in store.list()] == ["early", "failed", "late"]
        assert [entry.key for entry in store.list(Status.PENDING)] == ["early", "late"]
        assert list(store.list(Status.SENT)) == []

    def test_entries_claimed_at_one_moment_are_listed_as_they_came(self) -> None:
        store = self.new_store()
        for key in ("b", "a", "c"):
            store.claim(entry_of(key))
        assert [entry.key for entry in store.list()] == ["b", "a", "c"]

    def test_the_history_of_a_key_is_in_order(self) -> None:
        store = keeping_history(self.new_store())
        entry = entry_of("k")
        store.claim(entry)
        store.transition(entry, settled(entry, "sent"))
        assert [state.status.value for state in store.history("k")] == ["pending", "sent"]
        assert list(store.history("nope")) == []

    def _refuses(self, *, standing: Entry, named: Entry) -> None:
        store = self.new_store()
        store.claim(standing)
        assert store.transition(named, settled(named, "sent")) is False
        assert stored(store, standing.key) == standing


class StoreContract(StoreRules, ProcessRules):
    """Subclass it, define `make_store`, run pytest.

    `make_store()` gives a new, empty store. For a store that outlives its process define `opener()`
    too: a picklable function that opens the *same* data as the last `make_store()` did, in this or
    another process; then the second handle, the races between processes, the killed children and the
    fork are tried as well.
    Without it those tests are skipped, as are those about optional methods that the store does not
    have, and pytest says so: read its last line.
    """

    def make_store(self) -> Store:
        raise NotImplementedError("StoreContract: define make_store() to return a new, empty store.")

    def new_store(self) -> Store:
        return self.make_store()


__all__ = ["AT", "OpenStore", "StoreContract"]
