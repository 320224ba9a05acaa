"""The rules for stores that outlive their process: second handles, several processes, killed and forked ones."""

from __future__ import annotations

import functools
import os
import tempfile

from send_once.entry import Status
from send_once.ledger import Ledger
from send_once.testing import children
from send_once.testing.entries import entry_of, settled
from send_once.testing.faults import Moment
from send_once.testing.hooks import StoreHooks, close, stored
from send_once.testing.killing import killed_between
from send_once.testing.races import exit_code, exit_forked, in_processes

PROCESSES = 4

KILLED_AT: dict[tuple[str, Moment], tuple[int, str]] = {
    ("claim", "before"): (0, "sent"),
    ("claim", "after"): (0, "unknown"),
    ("transition", "before"): (1, "unknown"),
    ("transition", "after"): (1, "duplicate"),
}
"""For each point of a send at which its process is killed: how often it had sent, and what the next caller learns."""


class ProcessRules(StoreHooks):
    """Tried where `opener` is defined; skipped, with a word, where it is not."""

    def test_another_handle_sees_a_claim_at_once(self) -> None:
        store, open_store = self.new_store(), self.required_opener()
        other = open_store()
        assert other.get("k") is None
        store.claim(entry_of("k"))
        assert stored(other, "k") == entry_of("k")
        assert other.claim(entry_of("k", claim_id="c2")) is False

    def test_exactly_one_of_racing_processes_claims(self) -> None:
        store, open_store = self.new_store(), self.required_opener()
        keys = [f"k{n}" for n in range(20)]
        winners = in_processes(PROCESSES, children.claim_all, open_store, keys)
        for key in keys:
            claims = [name for name, won in winners if key in won]
            assert len(claims) == 1, f"{key} was claimed by {claims}"
            assert stored(store, key).claim_id == claims[0]

    def test_what_was_written_is_there_for_a_handle_opened_later(self) -> None:
        store, open_store = self.new_store(), self.required_opener()
        entry = entry_of("k")
        store.claim(entry)
        store.transition(entry, settled(entry, "sent"))
        close(store)
        assert stored(open_store(), "k").status is Status.SENT

    def test_a_child_killed_around_any_step_of_a_send_leaves_what_the_next_caller_must_know(self) -> None:
        store, open_store = self.new_store(), self.required_opener()
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
        store = self.new_store()
        self.required_opener()
        store.claim(entry_of("parent"))
        child = os.fork()
        if child == 0:
            exit_forked(lambda: store.get("parent") is not None and store.claim(entry_of("child")))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert stored(store, "child") == entry_of("child")
        assert store.claim(entry_of("child", claim_id="c2")) is False
        assert store.claim(entry_of("parent-again")) is True

    def test_a_child_killed_in_its_send_leaves_it_unknown(self) -> None:
        store, open_store = self.new_store(), self.required_opener()
        ended = exit_code(children.die_in_send, open_store, "k")
        assert ended < 0, f"the child was not killed in its send: it ended with {ended}"
        again = Ledger(store).once("k", lambda: "again").outcome
        assert again == "unknown", f"killed in its send: the next caller is told {again}"
