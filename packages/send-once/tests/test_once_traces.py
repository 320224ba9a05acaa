"""The reference's recorded ledger scenarios, played on our stores and compared without the `claim` member."""

from __future__ import annotations

import json
import re
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import traces
from awaited import Awaited
from recorded import recorded
from send_once import FileStore, Ledger, MemoryStore, PostgresStore, SQLiteStore, SQLStore, Store, jsontext
from send_once.errors import ContendedError, InvalidInputError
from send_once.stores.statements import SCHEMA

TRACES = recorded("once_traces")
DEVIATIONS = json.loads((Path(__file__).parent / "deviations" / "once_traces.json").read_text())
DIFFERENCES_PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "differences.md"

NOT_APPLICABLE = {
    f"error text: thrown {value}": "Python raises only exceptions, so a send cannot end with a bare value."
    for value in ("string", "number", "null", "object", "array", "true")
}
KEY_REFUSED_BY_SQL = {'key "a\\ud800"'}
SCENARIOS = [s for s in TRACES["scenarios"] if s["name"] not in NOT_APPLICABLE]


@pytest.fixture
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A new store of the kind the test names, closed afterwards."""
    kind = request.param
    if kind == "memory":
        yield MemoryStore()
        return
    if kind == "sql":
        connection = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(SCHEMA.format(table="send_once"))
        yield SQLStore.for_connection(connection)
        connection.close()
        return
    store: FileStore | SQLiteStore | PostgresStore
    if kind == "file":
        store = FileStore(tmp_path / "ledger.jsonl")
    elif kind == "sqlite":
        store = SQLiteStore(tmp_path / "ledger.db")
    else:
        store = PostgresStore(request.getfixturevalue("postgres_dsn"), table=f"trace_{uuid.uuid4().hex}", pool_size=1)
    yield store
    store.close()


@pytest.mark.parametrize("make_store", ["memory", "file", "sqlite", "sql", "postgres"], indirect=True)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: re.sub(r"[^a-zA-Z0-9 :,]", "", s["name"])[:60])
def test_a_recorded_scenario_has_the_recorded_answers(
    scenario: dict[str, Any], make_store: Store, tmp_path: Path
) -> None:
    name, store = scenario["name"], make_store
    if name in KEY_REFUSED_BY_SQL and not isinstance(store, MemoryStore | FileStore):
        with pytest.raises(InvalidInputError, match="lone surrogate"):
            Ledger(store).once(scenario["steps"][0]["key"], lambda: "never")
        return
    answers = traces.Player(store, scenario["start"]).play(scenario["steps"])
    if name in DEVIATIONS:
        assert answers == DEVIATIONS[name]["answers"]
        in_memory = MemoryStore()
        traces.Player(in_memory, scenario["start"]).play(scenario["steps"])
        assert _kept(store) == _kept(in_memory)
        return
    assert answers == [traces.expected_of(answer) for answer in scenario["results"]]
    if isinstance(store, FileStore):
        assert _lines_without_claim(tmp_path / "ledger.jsonl") == scenario["file_lines"]
    if isinstance(store, SQLiteStore | SQLStore):
        assert _rows_without_claim(tmp_path / "ledger.db") == _recorded_rows(scenario)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: re.sub(r"[^a-zA-Z0-9 :,]", "", s["name"])[:60])
def test_an_async_ledger_gives_the_same_answers(scenario: dict[str, Any]) -> None:
    plain = traces.Player(MemoryStore(), scenario["start"]).play(scenario["steps"])
    assert traces.Player(MemoryStore(), scenario["start"], Awaited).play(scenario["steps"]) == plain


def test_only_scenarios_python_cannot_play_are_left_out() -> None:
    cannot = {s["name"] for s in TRACES["scenarios"] if any(traces.raises_non_error(step) for step in s["steps"])}
    assert cannot == set(NOT_APPLICABLE)


def test_every_deviation_is_listed_in_the_documentation_with_its_reason() -> None:
    page = DIFFERENCES_PAGE.read_text(encoding="utf-8")
    for name, deviation in DEVIATIONS.items():
        assert f"| `{name}` |" in page, name
        assert deviation["why"] in page, name
    for name in NOT_APPLICABLE:
        assert f"`{name}`" in page


def test_no_deviation_is_listed_that_does_not_exist() -> None:
    names = {s["name"] for s in SCENARIOS}
    for name, deviation in DEVIATIONS.items():
        scenario = next(s for s in SCENARIOS if s["name"] == name)
        recorded_answers = scenario["results"]
        assert name in names
        assert deviation["answers"] != [traces.expected_of(answer) for answer in recorded_answers], name


@pytest.mark.parametrize("case", TRACES["construction"], ids=lambda c: c["name"])
def test_a_ledger_refuses_what_the_reference_refuses(case: dict[str, Any], tmp_path: Path) -> None:
    clocks: dict[str, Any] = {
        "now is a number": 7,
        "clock returns text": lambda: "2026-09-27",
        "clock returns NaN": lambda: float("nan"),
        "clock returns invalid Date": lambda: None,
        "clock out of range": lambda: 8.64e15 + 1,
        "clock returns fractional ms": lambda: 1790510400000.9,
        "clock returns Date": lambda: __import__("datetime").datetime.fromisoformat("2026-09-27T12:00:00+00:00"),
    }
    stores: dict[str, Any] = {"no store": None, "null store": None, "empty store": object()}
    name = case["name"]
    store = MemoryStore()
    if name in stores or name == "only claim":
        given = stores.get(name, type("OnlyClaim", (), {"claim": lambda self, entry: True})())
        with pytest.raises(InvalidInputError) as caught:
            Ledger(given)
        assert str(caught.value) == case["throws"]["message"].replace("createLedger", "Ledger")
    elif name.startswith("fileStore"):
        with pytest.raises(InvalidInputError, match="FileStore needs a file path"):
            FileStore("" if "empty" in name else None)  # type: ignore[arg-type]  # the bad input under test
    elif name == "now is null":
        assert Ledger(store, clock=None).once("k", lambda: 1).outcome == "sent"  # None means: the system's clock
    elif name == "now is a number":
        with pytest.raises(InvalidInputError, match="clock must be a function"):
            Ledger(store, clock=clocks[name])
    elif "throws" in case:
        with pytest.raises(InvalidInputError, match=re.escape(case["throws"]["message"])):
            Ledger(store, clock=clocks[name]).once("k", lambda: 1)
        assert store.get("k") is None
    else:
        Ledger(store, clock=clocks[name]).once("k", lambda: 1)
        entry = store.get("k")
        assert entry is not None
        assert entry.claimed_at == case["claimedAt"]


class _NeverReplaces(MemoryStore):
    """Refuses every transition and counts them."""

    tries = 0

    def transition(self, *_: object) -> bool:
        self.tries += 1
        return False


@pytest.mark.parametrize("case", TRACES["contention_limit"], ids=["once", "resolve"])
def test_a_store_that_refuses_every_transition_is_given_up_after_as_many_tries(case: dict[str, Any]) -> None:
    from send_once.testing import entry_of

    store = _NeverReplaces()
    store.claim(entry_of("k", status="failed"))
    ledger, sends = Ledger(store), []
    with pytest.raises(ContendedError) as caught:
        if case["name"].startswith("once"):
            ledger.once("k", lambda: sends.append(1))
        else:
            ledger.resolve("k", "sent")
    assert (store.tries, sends) == (case["transition_tries"], [])
    assert str(caught.value) == case["throws"]["message"]


def _kept(store: Store) -> list[str]:
    return [_without_claim(entry.text) for entry in store.list()]


def _without_claim(text: str) -> str:
    members = jsontext.parse(text)
    members.pop("claim", None)
    return jsontext.stringify(members, infinity_as_null=True)


def _lines_without_claim(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [_without_claim(line) for line in path.read_bytes().decode().split("\n") if line]


def _rows_without_claim(path: Path) -> list[list[str]]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT key, status, entry, claimed_at, updated_at FROM send_once ORDER BY key")
        found = [[key, status, _without_claim(entry), *stamps] for key, status, entry, *stamps in rows]
    connection.close()
    return found


def _recorded_rows(scenario: dict[str, Any]) -> list[list[str]]:
    rows = [list(row.values()) if isinstance(row, dict) else row for row in scenario["sql_rows"]]
    return sorted(rows)
