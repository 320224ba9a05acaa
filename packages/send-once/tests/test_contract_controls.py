"""The contract refuses stores that break a rule: a suite that nothing can fail would prove nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import broken_stores
from send_once import AsyncStore, MemoryStore, Store, threaded
from send_once.testing import AsyncStoreContract, StoreContract, killed_between
from send_once.testing.contract import OpenStore


def broken_rules(contract: Any) -> dict[str, BaseException]:
    """The tests of a contract that fail, by name."""
    failed: dict[str, BaseException] = {}
    for name in dir(contract):
        if name.startswith("test_"):
            try:
                getattr(contract, name)()
            except Exception as error:
                failed[name] = error
            finally:
                getattr(contract, "teardown_method", lambda: None)()
    return failed


def contract_of(make: Callable[[], Store], opener: OpenStore | None = None) -> StoreContract:
    class Contract(StoreContract):
        def make_store(self) -> Store:
            return make()

        def opener(self) -> OpenStore | None:
            return opener

    return Contract()


def async_contract_of(make: Callable[[], Store]) -> AsyncStoreContract:
    class Contract(AsyncStoreContract):
        async def make_store(self) -> AsyncStore:
            return threaded(make())

    return Contract()


@pytest.mark.parametrize("make", [MemoryStore, broken_stores.Plain])
def test_a_store_that_keeps_the_rules_passes(make: Callable[[], Store]) -> None:
    assert broken_rules(contract_of(make)) == {}
    assert broken_rules(async_contract_of(make)) == {}


@pytest.mark.parametrize("name", broken_stores.IN_ONE_PROCESS)
def test_a_store_that_breaks_a_rule_is_refused(name: str) -> None:
    assert broken_rules(contract_of(broken_stores.IN_ONE_PROCESS[name]))


@pytest.mark.parametrize("name", broken_stores.IN_ONE_PROCESS)
def test_an_async_store_that_breaks_a_rule_is_refused(name: str) -> None:
    assert broken_rules(async_contract_of(broken_stores.IN_ONE_PROCESS[name]))


def test_a_handle_that_answers_from_its_cache_is_refused() -> None:
    def new() -> Store:
        broken_stores.RemembersWhatItRead.shared.clear()
        return broken_stores.RemembersWhatItRead()

    contract = contract_of(new, broken_stores.RemembersWhatItRead)
    with pytest.raises(AssertionError, match="has no entry"):
        contract.test_another_handle_sees_a_claim_at_once()


@pytest.mark.parametrize(
    ("make", "killed"),
    [(broken_stores.WritesWhenClosed, "after claim"), (broken_stores.LeavesRecordsForLater, "after transition")],
)
def test_a_store_that_answers_before_it_has_written_is_refused(
    make: Callable[[str], Store], killed: str, tmp_path: Path
) -> None:
    """A claim that dies with its process lets the next caller send; an outcome that does is merely unknown again."""
    open_store = functools.partial(make, str(tmp_path / "ledger.json"))
    contract = contract_of(open_store, open_store)
    with pytest.raises(AssertionError, match=f"killed {killed}"):
        contract.test_a_child_killed_around_any_step_of_a_send_leaves_what_the_next_caller_must_know()


def test_a_child_that_never_comes_to_the_call_is_not_taken_for_killed(tmp_path: Path) -> None:
    open_store = functools.partial(broken_stores.WritesWhenClosed, str(tmp_path / "ledger.json"))
    with pytest.raises(AssertionError, match="not killed before transition: it ended with 0"):
        killed_between(open_store, broken_stores.look, "transition", "before")
