"""The whole protocol against the truth: interleaved callers, crashes, faults, people, clock jumps, on every store."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from send_once import Entry, FileStore, MemoryStore, PostgresStore, SQLiteStore, SQLStore, Status, Store, protocol
from send_once.stores.statements import SCHEMA
from send_once.testing.machine import Caller, Ending, FaultMoment, World

KEYS = st.sampled_from(["a", "b"])
FAULTS: st.SearchStrategy[FaultMoment] = st.sampled_from(["no", "no", "no", "no", "before", "after"])
ENDINGS: st.SearchStrategy[Ending] = st.sampled_from(
    ["accepted", "accepted", "refused", "lost answer", "accepted, lost answer"]
)


def machine_on(make_store: Callable[[Path], Store]) -> type[RuleBasedStateMachine]:
    class LedgerMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.folder = Path(tempfile.mkdtemp(prefix="send-once-machine-"))

        @initialize()
        def open(self) -> None:
            self.world = World(make_store(self.folder))

        @rule(key=KEYS)
        def a_caller_begins(self, key: str) -> None:
            self.world.start(key)

        @rule(key=KEYS, ttl_seconds=st.integers(1, 100_000), facts_hold=st.sampled_from([True, True, True, False]))
        def someone_dispatches(self, key: str, ttl_seconds: int, facts_hold: bool) -> None:
            self.world.dispatch(key, ttl_ms=ttl_seconds * 1000, facts_hold=facts_hold)

        @rule(key=KEYS)
        def the_provider_is_asked(self, key: str) -> None:
            self.world.reconcile(key)

        @precondition(lambda self: self._running())
        @rule(data=st.data(), fault=FAULTS, ending=ENDINGS)
        def a_caller_goes_one_step(self, data: st.DataObject, fault: FaultMoment, ending: Ending) -> None:
            caller = data.draw(st.sampled_from(self._running()))
            self.world.advance(caller, fault=fault, ending=ending)

        @precondition(lambda self: self._running())
        @rule(data=st.data())
        def a_caller_goes_on_to_its_end(self, data: st.DataObject) -> None:
            caller = data.draw(st.sampled_from(self._running()))
            for _ in range(40):
                if caller.ended:
                    return
                self.world.advance(caller)
            raise AssertionError("a caller does not end")

        @precondition(lambda self: self._running())
        @rule(data=st.data())
        def a_caller_dies(self, data: st.DataObject) -> None:
            self.world.crash(data.draw(st.sampled_from(self._running())))

        @rule(key=KEYS, status=st.sampled_from([Status.SENT, Status.FAILED]))
        def someone_settles(self, key: str, status: Status) -> None:
            self.world.resolve(key, status)

        @rule(seconds=st.integers(-86_400, 86_400))
        def the_clock_jumps(self, seconds: int) -> None:
            self.world.now_ms += seconds * 1000

        @invariant()
        def the_promise_holds(self) -> None:
            if hasattr(self, "world"):
                self.world.check()

        def teardown(self) -> None:
            if hasattr(self, "world") and hasattr(self.world.store, "close"):
                self.world.store.close()
            shutil.rmtree(self.folder)

        def _running(self) -> list[Caller]:
            return [caller for caller in self.world.callers if not caller.ended] if hasattr(self, "world") else []

    return LedgerMachine


def _connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(SCHEMA.format(table="send_once"))
    return connection


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "file": lambda folder: FileStore(folder / "ledger.jsonl"),
    "sqlite": lambda folder: SQLiteStore(folder / "ledger.db"),
    "sql": lambda folder: SQLStore.for_connection(_connection(folder / "ledger.db")),
}


def _run(make_store: Callable[[Path], Store], *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine_on(make_store),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )


@pytest.fixture
def make_store(request: pytest.FixtureRequest) -> Callable[[Path], Store]:
    if request.param != "postgres":
        return STORES[request.param]
    address = request.getfixturevalue("postgres_dsn")
    return lambda folder: PostgresStore(address, table=f"machine_{uuid.uuid4().hex}", pool_size=1)


ALL_STORES = pytest.mark.parametrize("make_store", [*STORES, "postgres"], indirect=True)


@ALL_STORES
def test_no_order_of_events_breaks_the_promise(make_store: Callable[[Path], Store]) -> None:
    _run(make_store, examples=200 if make_store is STORES["memory"] else 30, steps=50)


@pytest.mark.full
@ALL_STORES
def test_no_order_of_events_breaks_the_promise_in_long_runs(make_store: Callable[[Path], Store]) -> None:
    _run(make_store, examples=3_000 if make_store is STORES["memory"] else 300, steps=120)


class StatusOnlyStore(MemoryStore):
    """The control: a store whose transitions compare the status alone, as the reference's do."""

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        current = self.get(entry.key)
        return current is not None and current.status is came_from.status and super().transition(current, entry)


def test_without_the_fence_a_late_failure_sends_a_third_time() -> None:
    """Attempt 1 hangs, a person marks it failed, attempt 2 goes unknown, attempt 1 fails late."""

    def arrivals(store: Store) -> int:
        world = World(store)
        first = world.start("k")
        while not first.send_ran:
            world.advance(first)
        world.resolve("k", Status.FAILED)
        second = world.start("k")
        while not second.ended:
            world.advance(second, ending="accepted, lost answer")
        while not first.ended:
            world.advance(first, ending="refused")
        third = world.start("k")
        while not third.ended:
            world.advance(third)
        return world.truth["k"].arrived

    assert arrivals(MemoryStore()) == 1
    with pytest.raises(AssertionError, match="sent again while"):
        arrivals(StatusOnlyStore())


@given(moves=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["go", "settle"]), ENDINGS), max_size=40))
@settings(
    max_examples=5_000,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def _three_callers_and_a_person(moves: list[tuple[int, str, Ending]]) -> None:
    """A narrower search than the machine's, on the control: one key, three callers, no faults."""
    world = World(StatusOnlyStore())
    callers = [world.start("k") for _ in range(3)]
    for which, move, ending in moves:
        if move == "settle":
            world.resolve("k", Status.FAILED)
        elif not callers[which].ended:
            # Each move goes on to the next send or to the end, so that few moves suffice.
            world.advance(callers[which], ending=ending)
            while not callers[which].ended and not isinstance(callers[which].step, protocol.Send):
                world.advance(callers[which], ending=ending)
        world.check()


def test_a_search_finds_the_missing_fence_by_itself() -> None:
    with pytest.raises(AssertionError, match="sent again while"):
        _three_callers_and_a_person()
