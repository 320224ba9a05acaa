"""What the reference's SQL store sends and understands, as recorded from it."""

from __future__ import annotations

import functools
import json
import re
import sqlite3
from datetime import UTC, datetime
from typing import Any

import pytest

from recorded import recorded
from send_once.entry import Entry
from send_once.errors import BadQueryResultError, InvalidInputError, StoreError, UncertainSendError
from send_once.ledger import Ledger
from send_once.stores.sql import SQLStore
from send_once.stores.statements import SCHEMA

VECTORS = recorded("sql_protocol")
NOON = datetime(2026, 9, 27, 12, tzinfo=UTC)
EARLIER = "2026-09-27T11:00:00.000Z"
OUR_CONDITION = re.compile(r" AND entry = (\$7|\?)(?= RETURNING)")
"""The one thing added to the reference's statements: an update names the whole text it replaces, so that
a late write of attempt 1 cannot land on attempt 2 of the same status (defect A1)."""

RAISES_INSTEAD = {
    "array of one row": "a row without its entry is refused, where the reference answers `undefined`",
    "rowCount null, rows": "the same",
    "rows only": "the same",
    "rowCount 0 wins over rows": "the same",
}

SHAPES: dict[str, Any] = {
    "array of one row": [{"key": "k"}],
    "empty array": [],
    "rowCount 1": {"rowCount": 1},
    "rowCount 0": {"rowCount": 0},
    "rowCount null, rows": {"rowCount": None, "rows": [{"key": "k"}]},
    "changes 1": {"changes": 1},
    "changes 0": {"changes": 0},
    "affectedRows 1": {"affectedRows": 1},
    "affectedRows 2": {"affectedRows": 2},
    "rows only": {"rows": [{"key": "k"}]},
    "rows empty": {"rows": []},
    "rowCount 0 wins over rows": {"rowCount": 0, "rows": [{"key": "k"}]},
    "rowCount -1": {"rowCount": -1},
    "rowCount NaN": {"rowCount": float("nan")},
    "text count": {"rowCount": "1"},
    "empty object": {},
    "null": None,
    "undefined": None,
    "number": 1,
    "true": True,
    "bigint changes": {"changes": 1},
}

COLUMNS: dict[str, Any] = {
    "JSON text": json.dumps(VECTORS["entry_columns"][0]["get"], separators=(",", ":")),
    "parsed object": VECTORS["entry_columns"][0]["get"],
    "bad text": "{bad",
    "null": None,
}


OPTIONS: dict[str, dict[str, Any]] = {
    "placeholder colon": {"placeholder": "colon"},
    "placeholder null is the default": {"placeholder": None},
    "table null is the default": {"table": None},
    "table empty": {"table": ""},
}


class Recorder:
    """A caller's `query` on a real database, which writes down what it was asked."""

    def __init__(self, table: str) -> None:
        self.database = sqlite3.connect(":memory:", isolation_level=None)
        if "." in table:
            self.database.execute(f"ATTACH ':memory:' AS {table.partition('.')[0]}")
        self.database.execute(SCHEMA.format(table=table))
        self.table = table
        self.asked: list[dict[str, Any]] = []

    def insert(self, entry: dict[str, Any]) -> None:
        row = (entry["key"], entry["status"], json.dumps(entry, separators=(",", ":")), EARLIER, EARLIER)
        self.database.execute(f"INSERT INTO {self.table} VALUES (?, ?, ?, ?, ?)", row)

    def __call__(self, sql: str, parameters: list[str]) -> list[Any]:
        self.asked.append({"sql": sql, "params": parameters})
        return self.database.execute(re.sub(r"\$(\d)", r"?\1", sql), parameters).fetchall()


def without_our_additions(asked: dict[str, Any]) -> dict[str, Any]:
    """The statement as the reference would send it."""
    sql, added = OUR_CONDITION.subn("", asked["sql"])
    parameters = asked["params"][:-1] if added else asked["params"]
    return {"sql": sql, "params": [_without_claim(value) for value in parameters]}


def _without_claim(value: str) -> str:
    if not value.startswith("{"):
        return value
    members = json.loads(value)
    members.pop("claim", None)
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False)


def earlier_entry(status: str) -> dict[str, Any]:
    stamps = {"claimedAt": EARLIER, "updatedAt": EARLIER}
    return {"key": "k", "status": status, "attempts": 1, **stamps, "meta": {"run": 1}, "error": "e"}


EXISTING = {
    "claim lost, existing sent": "sent",
    "retry of a failed": "failed",
    "resolve": "failed",
    "pending": "pending",
}


@pytest.mark.parametrize("trace", VECTORS["traces"], ids=lambda trace: trace["name"])
def test_the_statements_of_every_call_are_the_references(trace: dict[str, Any]) -> None:
    name, options = trace["name"], trace["options"]
    query = Recorder(options.get("table", "send_once"))
    for part, status in EXISTING.items():
        if part in name:
            query.insert(earlier_entry(status))
    ledger = Ledger(SQLStore(query, **options), clock=lambda: NOON)
    _call(name, ledger, trace)
    assert [without_our_additions(asked) for asked in query.asked] == trace["statements"]


def _call(name: str, ledger: Ledger, trace: dict[str, Any]) -> None:
    if name.startswith("resolve"):
        _resolve(ledger, trace["statements"][1]["params"])
    elif name.startswith("pending"):
        assert [entry.key for entry in ledger.pending()] == ["k"]
    elif name.startswith("store list"):
        assert ledger.entries() == []
    elif name.startswith("get missing"):
        assert ledger.get("k") is None
    else:
        _once(name, ledger, trace)


def _resolve(ledger: Ledger, parameters: list[str]) -> None:
    written = next(json.loads(value) for value in parameters if value.startswith("{"))
    told = written["resolution"]
    ledger.resolve("k", told["status"], by=told["by"], note=told["note"], provider_id=written.get("providerId"))


def _answer(result: object, _sql: str, _parameters: Any) -> object:
    return result


def _once(name: str, ledger: Ledger, trace: dict[str, Any]) -> None:
    texts = [value for statement in trace["statements"] for value in statement["params"] if value.startswith("{")]
    first, last = json.loads(texts[0]), json.loads(texts[-1])

    def send() -> str:
        if "fails" in name:
            raise ValueError(last["error"])
        if "uncertain" in name:
            raise UncertainSendError(None, last["error"])
        return str(last["providerId"])

    expected = trace["result"]
    outcome = ledger.once("k", send, first["meta"])
    assert outcome.outcome == (expected["outcome"] if isinstance(expected, dict) else expected)


@pytest.mark.parametrize("vector", VECTORS["driver_results"], ids=lambda vector: vector["driver_result"])
def test_every_shape_of_result_means_what_the_reference_takes_it_for(vector: dict[str, Any]) -> None:
    name = vector["driver_result"]
    store = SQLStore(lambda _sql, _parameters: SHAPES[name])
    entry = Entry(earlier_entry("pending"))
    if "claim_throws" in vector:
        with pytest.raises(BadQueryResultError, match="no row count and no rows"):
            store.claim(entry)
    else:
        assert store.claim(entry) is vector["claim"]
        assert store.transition(entry, entry) is vector["claim"]
    if "get_throws" in vector:
        with pytest.raises(BadQueryResultError, match="no rows for a SELECT"):
            store.get("k")
    elif name in RAISES_INSTEAD:
        with pytest.raises(BadQueryResultError, match="no column entry"):
            store.get("k")
    else:
        assert store.get("k") == vector["get"]


@pytest.mark.parametrize("vector", VECTORS["entry_columns"], ids=lambda vector: vector["entry_column"])
def test_an_entry_is_read_from_text_and_from_what_a_driver_made_of_it(vector: dict[str, Any]) -> None:
    value = COLUMNS[vector["entry_column"]]
    rows: list[Any] = [{"entry": value}, (value,), [value]]
    for row in rows:
        store = SQLStore(functools.partial(_answer, [row]))
        if "throws" in vector:
            with pytest.raises(StoreError, match="holds no entry"):
                store.get("k")
        else:
            found = store.get("k")
            assert (found.to_json() if found else None) == vector["get"]


@pytest.mark.parametrize("vector", VECTORS["tables"], ids=lambda vector: repr(vector["table"])[:40])
def test_the_same_table_names_are_taken(vector: dict[str, Any]) -> None:
    if vector["table"] is None:
        # Recorded from the reference's schema function; in its store's options null is the default, as here.
        assert SQLStore(Recorder("send_once"), table=None).table == "send_once"
    elif "throws" in vector:
        with pytest.raises(InvalidInputError, match="not a safe table name"):
            SQLStore(Recorder("send_once"), table=vector["table"])
    else:
        assert SQLStore(Recorder("send_once"), table=vector["table"]).schema() == vector["schema"]


@pytest.mark.parametrize("vector", VECTORS["options"], ids=lambda vector: vector["name"])
def test_the_same_options_are_refused(vector: dict[str, Any]) -> None:
    def construct() -> SQLStore:
        query: Any = {"no query": None, "query text": "SELECT"}.get(vector["name"], Recorder("send_once"))
        return SQLStore(query, **OPTIONS.get(vector["name"], {}))

    if "throws" in vector:
        with pytest.raises(InvalidInputError):
            construct()
    else:
        assert construct().claim(Entry(earlier_entry("pending")))


def test_every_recorded_shape_is_tried() -> None:
    assert {vector["driver_result"] for vector in VECTORS["driver_results"]} == set(SHAPES)
    assert {vector["entry_column"] for vector in VECTORS["entry_columns"]} == set(COLUMNS)
