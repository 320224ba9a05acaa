"""What other ledgers get wrong, as tests named after the claim they refute.

A, B and C are defects of the reference, D those of the other ledgers that were measured beside it. `PROVED_ELSEWHERE`
names the tests, often with real processes, that stand with the part of the library they are about.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from send_once import (
    FileStore,
    InvalidInputError,
    Ledger,
    MemoryStore,
    RejectedSendError,
    ResultRefusedError,
    SQLiteStore,
    Store,
    UncertainSendError,
    approve,
)
from send_once.entry import Entry
from send_once.testing import entry_of

TESTS = Path(__file__).parent
CONTRACT = TESTS.parent / "src" / "send_once" / "testing"
NOW_MS = 1_790_510_400_000
TEN_YEARS_MS = 10 * 365 * 86_400_000

PROVED_ELSEWHERE: dict[str, Sequence[str]] = {
    "A1": ["test_a_stale_lock_lets_nobody_send_twice"],
    "A2": ["test_the_file_holds_the_references_lines_and_no_lock_is_left", "test_a_killed_holder_delays_nobody"],
    "A3": ["test_a_write_cut_short_at_any_byte_leaves_no_claim_that_counts", "test_a_short_write_is_carried_on"],
    "A4": ["test_two_names_of_one_ledger_are_one_ledger", "test_two_names_of_one_file_share_one_lock"],
    "A5": ["test_without_the_fence_a_late_failure_sends_a_third_time", "test_a_late_failure_does_not_overwrite_the_next_attempt"],
    "A6": ["test_our_own_lock_is_known_again_from_any_container_of_this_machine"],
    "A8": ["test_a_claim_inside_a_transaction_is_refused_before_anything_is_written"],
    "B5": ["test_deviation_a_payload_the_reference_hashes_lossily_is_refused"],
    "B6": ["test_deviation_a_value_the_reference_flattens_is_refused", "test_a_forgotten_await_is_refused"],
    "B7": ["test_a_second_spelling_of_a_person_is_pointed_at"],
    "B8": ["test_a_key_that_two_recipients_share_is_pointed_at"],
    "B11": ["test_an_audit_says_where_the_process_behind_each_unknown_is", "test_a_send_in_progress_is_not_written_off"],
    "B12": ["test_the_name_of_a_new_ledger_is_durable_before_its_first_claim"],
    "B13": ["test_the_settings_that_make_a_commit_durable_are_in_force", "test_odd_keys_are_kept_apart_or_refused_before_anything_is_written"],
    "B14": ["test_no_stored_text_reaches_the_terminal_with_a_character_that_acts"],
    "C1": ["test_a_killed_holder_delays_nobody_though_its_lock_file_is_fresh"],
    "C3": ["test_processes_are_served_in_the_order_in_which_they_asked", "test_threads_are_served_in_the_order_in_which_they_asked"],
    "C5": ["test_beside_a_busy_writer_the_counts_of_a_report_agree"],
    "C7": ["test_a_store_that_refuses_every_transition_is_given_up_after_as_many_tries"],
    "D1": ["test_without_the_fence_a_late_failure_sends_a_third_time", "test_a_late_failure_of_attempt_one_does_not_land_on_attempt_two"],
    "D3": ["test_members_are_ordered_as_the_runtime_orders_sorted_keys", "test_deviation_a_payload_the_reference_hashes_lossily_is_refused"],
    "D6": ["test_a_write_cut_short_at_any_byte_leaves_no_claim_that_counts", "test_on_a_full_disk_nothing_is_sent_and_nothing_is_half_claimed"],
    "D7": ["test_a_damaged_line_stops_new_claims_but_not_settling_or_reading", "test_the_name_of_a_new_ledger_is_durable_before_its_first_claim"],
    "D8": ["test_our_own_lock_is_known_again_from_any_container_of_this_machine", "test_a_lock_file_of_a_live_node_process_is_respected_whatever_its_age"],
    "D9": ["test_processes_are_served_in_the_order_in_which_they_asked"],
    "D10": ["test_the_settings_that_make_a_commit_durable_are_in_force", "test_a_postgres_session_that_may_lose_a_claim_is_refused"],
    "D11": ["test_a_transition_from_another_claim_is_refused"],
    "D12": ["test_an_error_in_a_batch_leaves_nothing_and_no_open_transaction", "test_the_store_works_after_a_refused_write"],
    "D18": ["test_a_damaged_line_stops_new_claims_but_not_settling_or_reading", "test_a_row_that_holds_no_entry_is_an_error_not_an_absent_key"],
    "D20": ["test_a_claim_that_was_applied_and_not_answered_is_known_by_its_id", "test_every_answer_of_a_send_may_be_lost_and_it_is_sent_once"],
}  # fmt: skip
ALL_IDS = {f"A{n}" for n in range(1, 9)} | {f"B{n}" for n in range(1, 15)} | {f"C{n}" for n in range(1, 8)}
ALL_IDS |= {f"D{n}" for n in range(1, 21)}


def ledger(**options: Any) -> Ledger:
    return Ledger(MemoryStore(), clock=lambda: NOW_MS, **options)


def raising(error: BaseException) -> Callable[[], str]:
    def send() -> str:
        raise error

    return send


def test_every_defect_is_refuted_here_or_elsewhere() -> None:
    here = {
        defect for text in re.findall(r'"""([A-D0-9, ]+): ', Path(__file__).read_text()) for defect in text.split(", ")
    }
    assert here | set(PROVED_ELSEWHERE) == ALL_IDS


def test_the_tests_that_are_named_exist() -> None:
    texts = [path.read_text() for path in [*CONTRACT.glob("*.py"), *TESTS.rglob("test_*.py")] if path != Path(__file__)]
    for names in PROVED_ELSEWHERE.values():
        for name in names:
            assert any(f"def {name}(" in text for text in texts), name


@pytest.mark.parametrize(
    "error",
    [TimeoutError("ETIMEDOUT"), ConnectionResetError(104, "reset"), UncertainSendError("504")],
    ids=["plain timeout", "reset", "declared"],
)
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "wrapped"])
def test_a_timeout_nobody_declared_uncertain_is_not_a_refusal(error: Exception, wrapped: bool) -> None:
    """A7: a plain timeout, and one wrapped as a cause, were recorded failed and sent again."""
    guard = ledger()
    sends: list[int] = []

    def send() -> None:
        sends.append(1)
        if wrapped:
            raise RuntimeError("the client gave up") from error
        raise error

    assert [guard.once("k", send).outcome for _ in range(3)] == ["unknown"] * 3
    assert len(sends) == 1


@pytest.mark.parametrize("claimed_at", ["not a date", "", "2999-01-01T00:00:00.000Z", "2026-09-27T12:00:00.001Z"])
def test_no_odd_time_hides_a_pending_entry(claimed_at: str) -> None:
    """B1: an entry claimed at a time that does not parse, or ahead of the clock, was listed nowhere."""
    store = MemoryStore()
    store.claim(entry_of("k", claimed_at=claimed_at))
    assert [entry.key for entry in Ledger(store, clock=lambda: NOW_MS).pending()] == ["k"]


def test_a_fact_that_was_empty_at_the_approval_is_compared_all_the_same() -> None:
    """B2: a fact without a value was dropped from the approval and never looked at again."""
    approval = approve(payload={}, facts={"lastReplyAt": None}, now=NOW_MS)
    looked_up: tuple[dict[str, str], ...] = ({"lastReplyAt": "2026-09-27T11:59:00Z"}, {})
    for facts in looked_up:
        outcome = ledger().dispatch(approval, key="k", payload={}, send=lambda _: "sent", recheck=facts.copy)
        assert outcome.outcome == "stale_facts"


def test_an_approval_bound_to_a_key_is_good_for_that_key_only() -> None:
    """B3, D5: one approval was good for any number of keys, and `meta` could overwrite who approved."""
    approval, guard = approve(payload={}, key="day-1", now=NOW_MS, approved_by="ana"), ledger()
    sends: list[Any] = []
    for key in ("day-2", "day-3"):
        with pytest.raises(InvalidInputError, match="bound to key day-1"):
            guard.dispatch(approval, key=key, payload={}, send=sends.append)
    for _ in range(2):
        guard.dispatch(approval, key="day-1", payload={}, send=sends.append)
    assert len(sends) == 1
    with pytest.raises(InvalidInputError, match="approvedBy"):
        guard.dispatch(approval, key="day-1", payload={}, send=sends.append, meta={"approvedBy": "someone else"})
    entry = guard.get("day-1")
    assert entry is not None
    assert entry.meta["approvedBy"] == "ana"


def test_a_payload_edited_while_the_facts_are_looked_up_is_not_sent() -> None:
    """B4, D2: the payload was hashed, the recheck awaited, and the edited object handed to the send."""
    payload = {"body": "approved"}
    approval = approve(payload=payload, facts={"due": True}, now=NOW_MS)
    sends: list[Any] = []

    def recheck() -> dict[str, bool]:
        payload["body"] = "edited"
        return {"due": True}

    outcome = ledger().dispatch(approval, key="k", payload=payload, send=sends.append, recheck=recheck)
    assert (outcome.outcome, sends) == ("payload_changed", [])


def test_the_send_gets_a_copy_of_what_was_approved_and_cannot_change_the_record() -> None:
    """B4, D2: the send shared its payload with whoever else held the object."""
    payload = {"to": ["ana"]}
    seen: list[Any] = []
    approval = approve(payload=payload, now=NOW_MS)
    ledger().dispatch(approval, key="k", payload=payload, send=seen.append)
    payload["to"].append("bo")
    assert seen == [{"to": ["ana"]}]


class Slow(MemoryStore):
    """A store whose claim takes until after the approval's end."""

    now_ms = NOW_MS

    def claim(self, entry: Entry) -> bool:
        self.now_ms += 60_001
        return super().claim(entry)


def test_an_approval_that_expires_while_the_claim_waits_sends_nothing() -> None:
    """B4, D4: expiry was read once, before the recheck and the wait for the lock."""
    store = Slow()
    sends: list[Any] = []
    guard = Ledger(store, clock=lambda: store.now_ms)
    approval = approve(payload={}, ttl="1m", now=NOW_MS)
    assert guard.dispatch(approval, key="k", payload={}, send=sends.append).outcome == "expired"
    entry = store.get("k")
    assert entry is not None
    assert (sends, entry.status.value) == ([], "failed")


class Response:
    """As HTTP clients answer."""

    headers: dict[str, str] = {}

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


def test_a_returned_error_response_is_not_a_sent_message() -> None:
    """B9: any returned value counted as sent, a response with status 500 too."""
    guard = ledger()
    with pytest.raises(ResultRefusedError, match="status 500"):
        guard.once("k", lambda: Response(500))
    assert guard.once("k", lambda: Response(202)).outcome == "unknown"
    assert ledger().once("k", lambda: Response(202)).outcome == "sent"


def test_whatever_a_send_raises_or_does_to_its_meta_is_recorded() -> None:
    """B10: odd errors, and a `meta` that became cyclic meanwhile, broke the record after the send."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    meta: dict[str, Any] = {"to": "ana"}

    def send() -> str:
        meta["self"] = meta
        return "msg"

    guard = ledger()
    assert guard.once("mute", raising(Mute())).outcome == "failed"
    outcome = guard.once("cyclic", send, meta)
    assert outcome.outcome == "sent"
    entry = guard.get("cyclic")
    assert entry is not None
    assert entry.meta == {"to": "ana"}


@pytest.mark.parametrize("attempts", [None, "1", 0, -3, 1.5, True, [], {}], ids=repr)
def test_an_attempt_number_somebody_else_wrote_is_not_trusted(attempts: Any) -> None:
    """B11: a missing one became NaN and then null, and "1" became "11"."""
    store = MemoryStore()
    store.claim(entry_of("k", status="failed", claim_id=None).evolve({"attempts": attempts}))
    seen: list[int] = []
    Ledger(store).once("k", lambda context: seen.append(context.attempt))
    entry = store.get("k")
    assert entry is not None
    assert (seen, entry["attempts"]) == ([2], 2)


def test_many_sends_at_once_in_one_process_never_time_out_on_the_lock(tmp_path: Path) -> None:
    """C2: under plain load the lock timed out, also after the send."""
    guard = Ledger(FileStore(tmp_path / "ledger.jsonl"))
    with ThreadPoolExecutor(64) as pool:
        outcomes = list(pool.map(lambda n: guard.once(f"k{n}", lambda: "id").outcome, range(200)))
    assert set(outcomes) == {"sent"}


def bytes_read() -> int:
    """How many bytes this process has read, by the kernel's count."""
    return int(re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())[1])  # type: ignore[index]  # always there


def test_a_send_reads_what_was_appended_and_not_the_whole_ledger(tmp_path: Path) -> None:
    """C4, D9: every operation read and parsed the whole file."""
    path = tmp_path / "ledger.jsonl"
    path.write_text("".join(f"{entry_of(f'k{n}', status='sent').text}\n" for n in range(20_000)))
    guard = Ledger(FileStore(path))
    assert guard.get("k0") is not None
    before = bytes_read()
    for n in range(10):
        guard.once(f"new{n}", lambda: "id")
    assert bytes_read() - before < 100_000 < path.stat().st_size / 10


def test_a_dispatch_repeated_after_the_send_is_a_duplicate_though_the_approval_no_longer_holds() -> None:
    """C6: it answered expired, payload_changed or stale_facts."""
    now = [float(NOW_MS)]
    guard = Ledger(MemoryStore(), clock=lambda: now[0])
    sends: list[Any] = []
    approval = approve(payload={"n": 1}, facts={"due": True}, ttl="1h", now=NOW_MS)

    def dispatched(n: int, *, due: bool) -> str:
        return guard.dispatch(
            approval, key="k", payload={"n": n}, send=sends.append, recheck=lambda: {"due": due}
        ).outcome

    assert dispatched(1, due=True) == "sent"
    assert dispatched(2, due=True) == "duplicate"
    assert dispatched(1, due=False) == "duplicate"
    now[0] += 7_200_000
    assert dispatched(1, due=True) == "duplicate"
    assert len(sends) == 1


def test_a_definite_refusal_may_be_tried_again_without_an_operator() -> None:
    """D13: a 4xx could never be retried without someone releasing the key."""
    guard = ledger()
    assert guard.once("k", raising(RejectedSendError("422"))).outcome == "failed"
    assert guard.once("k", lambda: "msg").outcome == "sent"


def test_a_second_caller_does_not_spoil_the_success_of_the_first() -> None:
    """D14: a concurrent loser flipped the live winner to in-doubt, and its success was lost."""
    guard, inside, go_on = ledger(), threading.Event(), threading.Event()

    def send() -> str:
        inside.set()
        assert go_on.wait(10)
        return "msg"

    with ThreadPoolExecutor(1) as pool:
        winner = pool.submit(guard.once, "k", send)
        assert inside.wait(10)
        assert guard.once("k", lambda: "second").outcome == "unknown"
        go_on.set()
        assert winner.result().outcome == "sent"
    assert guard.once("k", lambda: "third").outcome == "duplicate"


@pytest.mark.parametrize("error", [TimeoutError(), KeyboardInterrupt()], ids=["timeout", "interrupted"])
def test_no_time_that_passes_sends_an_unknown_message_again(error: BaseException) -> None:
    """D15, D16, D17: after a lease, a timeout or 300 seconds the effect ran again."""
    now, sends = [float(NOW_MS)], []
    guard = Ledger(MemoryStore(), clock=lambda: now[0])

    def send() -> str:
        sends.append(1)
        raise error

    if isinstance(error, Exception):
        guard.once("k", send)
    else:
        with pytest.raises(KeyboardInterrupt):
            guard.once("k", send)
    for _ in range(3):
        now[0] += TEN_YEARS_MS
        assert guard.once("k", send).outcome == "unknown"
    assert len(sends) == 1


@pytest.mark.parametrize("kind", ["memory", "sqlite", "file"])
def test_who_allowed_a_second_attempt_can_still_be_read(kind: str, tmp_path: Path) -> None:
    """D19: a reset deleted the row, and with it who allowed the second attempt."""
    stores: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "sqlite": lambda: SQLiteStore(tmp_path / "l.db"),
        "file": lambda: FileStore(tmp_path / "l"),
    }
    guard = Ledger(stores[kind]())
    guard.once("k", raising(TimeoutError("no answer")))
    guard.resolve("k", "failed", by="ana", note="not in the provider's log")
    guard.once("k", lambda: "msg")
    settled_by = [state.resolution["by"] for state in guard.history("k") if state.resolution is not None]
    assert settled_by == ["ana"]
    assert guard.history("k")[-1].status.value == "sent"
