"""The contract refuses stores that break a rule: a suite that nothing can fail would prove nothing."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest

from broken import awaited, batches, handles, keeping, plain
from send_once import AsyncStore, MemoryStore, Store, threaded
from send_once.errors import ContendedError
from send_once.testing import AsyncStoreContract, StoreContract, StoreFault, killed_between
from send_once.testing.contract import OpenStore
from send_once.testing.process_rules import ProcessRules

MakeStore = Callable[[], Store]
MakeAnyStore = Callable[[], Store | AsyncStore]
Contract = StoreContract | AsyncStoreContract

REFUSED_BY: dict[str, tuple[MakeStore, ...]] = {
    "a_claim_inserts_an_absent_key": (keeping.SortsMembers,),
    "a_claim_of_a_present_key_is_refused_and_changes_nothing": (
        plain.ClaimOverwrites, plain.ClaimAlwaysSaysYes, plain.ClaimTakesFailedKeys,
    ),
    "an_absent_key_has_no_entry": (plain.GetInventsAnEntry,),
    "exactly_one_of_racing_threads_claims": (plain.ClaimWaitsBetween,),
    "a_transition_replaces_the_entry_it_names": (plain.TransitionNeverWrites,),
    "a_transition_of_an_absent_key_is_refused": (plain.TransitionInserts,),
    "a_transition_from_another_status_is_refused": (
        plain.TransitionAlwaysWrites, plain.TransitionComparesClaimAndAttempt,
    ),
    "a_transition_from_another_attempt_is_refused": (plain.TransitionComparesStatusAndClaim,),
    "a_transition_from_another_claim_is_refused": (plain.TransitionComparesStatusAndAttempt,),
    "a_transition_that_names_a_claim_does_not_land_on_an_entry_without_one": (
        plain.TransitionTakesAMissingClaimForAnyClaim,
    ),
    "a_late_failure_of_attempt_one_does_not_land_on_attempt_two": (plain.TransitionComparesTheStatus,),
    "sent_is_not_overwritten_by_whoever_believes_it_is_pending": (
        plain.TransitionComparesClaimAndAttempt, plain.TransitionSaysYesThoughRefused,
    ),
    "exactly_one_of_racing_transitions_wins": (plain.TransitionWaitsBetween,),
    "the_text_of_an_entry_is_kept_as_it_is": (keeping.KeepsWhatItKnows, keeping.SortsMembers),
    "odd_keys_are_kept_apart_or_refused_before_anything_is_written": (
        keeping.FoldsCase, keeping.ComposesKeys, keeping.StripsKeys, keeping.ReplacesSurrogates,
        keeping.EndsKeysAtNul, keeping.RefusesAfterWriting, keeping.RefusesAlmostEveryKey,
    ),
    "a_large_entry_is_kept_or_refused_whole": (keeping.CutsLongText,),
    "list_is_by_claim_time_and_by_status": (keeping.ListsEverything, keeping.ListsAsItCame),
    "entries_claimed_at_one_moment_are_listed_as_they_came": (keeping.ListsTiesByKey,),
    "the_history_of_a_key_is_in_order": (
        keeping.TellsHistoryBackwards, keeping.ForgetsHistory, keeping.InventsHistory,
    ),
    "the_store_works_after_a_refused_write": (keeping.StaysBroken,),
    "a_claim_that_was_applied_and_not_answered_is_known_by_its_id": (plain.ClaimForgetsItsId,),
    "a_claim_that_failed_before_it_was_applied_sends_nothing": (plain.GetClaims,),
    "a_record_that_failed_leaves_the_send_unknown": (plain.ClaimAlwaysSaysYes,),
    "a_record_that_was_applied_and_not_answered_is_a_duplicate_for_the_next": (plain.ClaimAlwaysSaysYes,),
    "many_threads_send_once": (plain.ClaimWaitsBetween,),
    "the_two_halves_of_a_send_settle_the_claim_they_made": (plain.ClaimAlwaysSaysYes,),
    "a_batch_of_claims_answers_in_order": (batches.BatchAnswersUnordered, batches.BatchAnswersOnlyForWhatLanded),
    "a_batch_of_claims_takes_no_key_that_is_there_whatever_its_status": (batches.BatchOverwrites,),
    "of_racing_batches_each_key_has_one_winner": (batches.BatchChecksThenActs,),
    "a_batch_of_transitions_answers_in_order": (batches.BatchTransitionsUnfenced,),
    "a_batch_of_transitions_replaces_exactly_what_it_names": (batches.BatchTransitionsCompareTheStatus,),
    "a_batch_with_a_bad_entry_writes_nothing": (batches.BatchHalfDone,),
    "a_batch_that_was_applied_and_not_answered_is_known_by_its_ids": (batches.BatchForgetsItsIds,),
    "a_batch_of_records_that_failed_leaves_every_send_unknown": (batches.BatchRecordsNothing,),
    "a_refused_claim_may_be_answered_with_what_stands_there_now": (
        batches.AnswersWithTheClaim, batches.AnswersWithTheFirstState, batches.AnswersWithoutClaiming,
    ),
    "exactly_one_of_racing_callers_claims_also_where_the_others_are_answered": (batches.AnswersYes,),
}  # fmt: skip
"""For each rule that is tried within one process, the stores that break it."""

AWAITED_REFUSED_BY: dict[str, tuple[MakeAnyStore, ...]] = {
    "exactly_one_of_racing_tasks_claims": (awaited.ClaimAwaitsBetween,),
    "exactly_one_of_racing_tasks_replaces_an_entry": (awaited.TransitionAwaitsBetween,),
    "an_awaited_claim_that_was_applied_and_not_answered_is_known_by_its_id": (plain.ClaimForgetsItsId,),
    "an_awaited_record_that_failed_leaves_the_send_unknown": (plain.ClaimAlwaysSaysYes,),
    "many_tasks_send_once": (awaited.ClaimAwaitsBetween,),
    "a_cancelled_send_leaves_it_unknown_and_the_store_usable": (plain.ClaimAlwaysSaysYes,),
    "cancelling_at_any_point_never_lets_a_second_send_run": (plain.ClaimAlwaysSaysYes,),
    "the_two_awaited_halves_of_a_send_settle_the_claim_they_made": (plain.TransitionNeverWrites,),
}

PROCESSES_REFUSED_BY: dict[str, dict[Callable[[str], Store], str]] = {
    "another_handle_sees_a_claim_at_once": {
        handles.Apart: "no entry for 'k'",
        handles.RemembersWhatItRead: "no entry for 'k'",
    },
    "exactly_one_of_racing_processes_claims": {
        handles.ChecksThenActsInAFile: r"was claimed by \['p\d', 'p\d'",
        handles.Apart: r"was claimed by \['p\d', 'p\d'",
    },
    "what_was_written_is_there_for_a_handle_opened_later": {handles.Apart: "no entry for 'k'"},
    "a_child_killed_around_any_step_of_a_send_leaves_what_the_next_caller_must_know": {
        handles.WritesWhenClosed: "killed after claim: the next caller is told sent",
        handles.LeavesRecordsForLater: "killed after transition: the next caller is told unknown",
    },
    "a_forked_child_uses_the_store_it_inherited": {handles.Apart: "no entry for 'child'"},
    "a_child_killed_in_its_send_leaves_it_unknown": {
        handles.WritesWhenClosed: "killed in its send: the next caller is told sent"
    },
}
"""For each rule about several handles or processes, the stores that break it, and what they are told."""

REFUSALS = (AssertionError, StoreFault, ContendedError, keeping.Aborted)
"""How a broken store comes to light. Anything else is an accident, and no rule has refused anything."""


def cases(table: Mapping[str, Sequence[Callable[..., object]]]) -> list[tuple[str, Callable[..., object]]]:
    return [(rule, make) for rule, stores in table.items() for make in stores]


def contract_of(make: MakeStore, opener: OpenStore | None = None) -> StoreContract:
    class OfThisStore(StoreContract):
        def make_store(self) -> Store:
            return make()

        def opener(self) -> OpenStore | None:
            return opener

    return OfThisStore()


def async_contract_of(make: MakeAnyStore) -> AsyncStoreContract:
    class OfThisStore(AsyncStoreContract):
        async def make_store(self) -> AsyncStore:
            store: Any = make()
            return store if inspect.iscoroutinefunction(store.claim) else threaded(store)

    return OfThisStore()


def rules_of(contract: type) -> set[str]:
    return {name.removeprefix("test_") for name in dir(contract) if name.startswith("test_")}


def try_rule(contract: Contract, rule: str) -> None:
    try:
        getattr(contract, f"test_{rule}")()
    finally:
        getattr(contract, "teardown_method", lambda: None)()


def refuses(contract: Contract, rule: str) -> bool:
    try:
        try_rule(contract, rule)
    except SkipTest:
        return False
    except REFUSALS:
        return True
    return False


def test_every_rule_has_a_store_that_breaks_it() -> None:
    assert rules_of(StoreContract) == REFUSED_BY.keys() | PROCESSES_REFUSED_BY.keys()
    assert rules_of(AsyncStoreContract) == REFUSED_BY.keys() | AWAITED_REFUSED_BY.keys()


@pytest.mark.parametrize("make", [MemoryStore, plain.Plain])
def test_a_store_that_keeps_the_rules_passes(make: MakeStore) -> None:
    assert [rule for rule in rules_of(StoreContract) if refuses(contract_of(make), rule)] == []


@pytest.mark.parametrize("make", [MemoryStore, plain.Plain, awaited.Awaited])
def test_an_async_store_that_keeps_the_rules_passes(make: MakeAnyStore) -> None:
    assert [rule for rule in rules_of(AsyncStoreContract) if refuses(async_contract_of(make), rule)] == []


@pytest.mark.parametrize(("rule", "make"), cases(REFUSED_BY))
def test_a_store_that_breaks_the_rule_is_refused_by_it(rule: str, make: MakeStore) -> None:
    assert refuses(contract_of(make), rule)


@pytest.mark.parametrize(("rule", "make"), [*cases(REFUSED_BY), *cases(AWAITED_REFUSED_BY)])
def test_an_async_store_that_breaks_the_rule_is_refused_by_it(rule: str, make: MakeAnyStore) -> None:
    assert refuses(async_contract_of(make), rule)


@pytest.mark.parametrize(
    ("rule", "make"),
    [
        ("exactly_one_of_racing_threads_claims", plain.ClaimChecksThenActs),
        ("exactly_one_of_racing_transitions_wins", plain.TransitionChecksThenActs),
    ],
)
def test_a_check_and_an_act_side_by_side_are_told_from_one_step(rule: str, make: MakeStore) -> None:
    """On a loaded machine one try of 500 may miss it, hence three."""
    assert any(refuses(contract_of(make), rule) for _ in range(3))


@pytest.mark.parametrize(
    ("rule", "make", "told"),
    [(rule, make, told) for rule, stores in PROCESSES_REFUSED_BY.items() for make, told in stores.items()],
)
def test_a_store_that_is_wrong_between_handles_or_processes_is_told_how(
    rule: str, make: Callable[[str], Store], told: str, tmp_path: Path
) -> None:
    """By its words: a child that died of something else would be a refusal as well."""
    open_store = functools.partial(make, str(tmp_path / "ledger.json"))
    with pytest.raises(AssertionError, match=told):
        try_rule(contract_of(open_store, open_store), rule)


def test_a_child_that_never_comes_to_the_call_is_not_taken_for_killed(tmp_path: Path) -> None:
    open_store = functools.partial(handles.WritesWhenClosed, str(tmp_path / "ledger.json"))
    with pytest.raises(AssertionError, match="not killed before transition: it ended with 0"):
        killed_between(open_store, handles.look, "transition", "before")


@pytest.mark.parametrize("rule", sorted(rules_of(ProcessRules)))
def test_without_an_opener_what_needs_processes_is_skipped_aloud(rule: str) -> None:
    with pytest.raises(SkipTest, match=r"define opener\(\)"):
        try_rule(contract_of(plain.Plain), rule)


@pytest.mark.parametrize(
    ("rule", "lacking"),
    [
        ("a_batch_of_claims_answers_in_order", "claim_many"),
        ("a_refused_claim_may_be_answered_with_what_stands_there_now", "claim_or_get"),
        ("the_history_of_a_key_is_in_order", "history"),
    ],
)
def test_an_optional_method_that_is_not_there_is_skipped_aloud(rule: str, lacking: str) -> None:
    with pytest.raises(SkipTest, match=f"Plain has no {lacking}.*optional"):
        try_rule(contract_of(plain.Plain), rule)


@pytest.mark.parametrize(
    "contract",
    [
        contract_of(batches.BatchClaimsOnly),
        contract_of(batches.BatchTransitionsOnly),
        async_contract_of(awaited.BatchClaimsOnly),
        async_contract_of(awaited.BatchTransitionsOnly),
    ],
)
def test_half_of_a_batch_is_refused_and_not_skipped(contract: Contract) -> None:
    with pytest.raises(AssertionError, match="no ledger will call it"):
        try_rule(contract, "a_batch_of_claims_answers_in_order")
