"""Canonical JSON and the payload hash are the reference's, and nothing is hashed lossily."""

from __future__ import annotations

import hashlib
import json
import random
import re
from array import array
from collections import OrderedDict, UserString
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from json_samples import random_text
from node_engine import ask_node, needs_node
from recorded import documented_deviations, recorded
from send_once import InvalidInputError, canonical_json, hash_payload, jsontext

RECORDED = recorded("canonical_json")

# Texts the reference hashes lossily. Each of these is a row in docs/explanation/deviations-text.md.
REFUSED_TEXTS = {
    "__proto__ with object value",
    "__proto__ with other object value",
    "__proto__ with scalar value",
    "__proto__ with null value",
    "__proto__ alone",
    "__proto__ nested",
    "__proto__ escaped",
    "__proto__ holding toJSON text",
    "number 1.7976931348623159e308",
    "number 1E400",
    "number -1E400",
    "a 400 digit integer",
    "a 5000 digit integer",
}
CASES = [case for case in RECORDED["cases"] if case["name"] not in REFUSED_TEXTS]
REFUSED_CASES = [case for case in RECORDED["cases"] if case["name"] in REFUSED_TEXTS]


class _Instance:
    def __init__(self) -> None:
        self.a = 1


@dataclass
class _Payload:
    a: int = 1


def _looped() -> dict[str, Any]:
    looped: dict[str, Any] = {"a": 1}
    looped["self"] = looped
    return looped


def _looped_list() -> list[Any]:
    looped: list[Any] = [1]
    looped.append(looped)
    return looped


# The Python twins of JavaScript values. `None` where there is none: then nothing can go wrong.
JS_VALUES: dict[str, Callable[[], object] | None] = {
    "undefined": object,
    "function": lambda: len,
    "symbol": object,
    "NaN": lambda: float("nan"),
    "Infinity": lambda: float("inf"),
    "-Infinity": lambda: float("-inf"),
    "-0": lambda: -0.0,
    "object with undefined": lambda: {"a": object(), "b": 1},
    "object with function": lambda: {"f": len, "b": 1},
    "array with undefined, function, symbol": lambda: [object(), len, object()],
    "sparse array": None,
    "symbol key": lambda: {object(): 1, "a": 2},
    "Date": lambda: datetime(2026, 9, 27, tzinfo=UTC),
    "Date with ms": lambda: datetime(2026, 9, 27, 1, 2, 3, 4000, tzinfo=UTC),
    "Date in object": lambda: {"at": datetime(1970, 1, 1, tzinfo=UTC)},
    "invalid Date": None,
    "Date year 10000": None,
    "Date year -1": None,
    "Date before 1970": lambda: datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    "bigint": lambda: 10,
    "bigint nested": lambda: {"a": 10},
    "cyclic object": _looped,
    "cyclic array": _looped_list,
    "Map": lambda: MappingProxyType({"a": 1}),
    "Map other content": lambda: OrderedDict({"a": 2}),
    "Set": lambda: {1},
    "RegExp": lambda: re.compile("x"),
    "Buffer": lambda: b"hi",
    "Uint8Array": lambda: array("B", b"hi"),
    "ArrayBuffer": lambda: memoryview(b"hi"),
    "boxed String": lambda: UserString("ab"),
    "boxed Number": None,
    "boxed Boolean": None,
    "Error": lambda: ValueError("x"),
    "class instance": _Instance,
    "own getter": None,
    "toJSON": None,
    "toJSON returning undefined": None,
    "toJSON nested undefined": None,
    "URL": None,
    "null prototype": lambda: {"a": 1},
    "Promise": Future,
}

# What the reference refuses or flattens, and Python has a plain meaning for.
WRITTEN_AS_JSON = {
    "bigint": "10",
    "bigint nested": '{"a":10}',
    "Map": '{"a":1}',
    "Map other content": '{"a":2}',
}
# What the reference flattens or drops, and is refused here.
REFUSED_VALUES = {
    "NaN",
    "Infinity",
    "-Infinity",
    "object with undefined",
    "object with function",
    "array with undefined, function, symbol",
    "symbol key",
    "Set",
    "RegExp",
    "Buffer",
    "Uint8Array",
    "ArrayBuffer",
    "boxed String",
    "Error",
    "class instance",
    "Promise",
}
WITHOUT_TWIN = {name for name, twin in JS_VALUES.items() if twin is None}


def twin(name: str) -> object:
    make = JS_VALUES[name]
    assert make is not None
    return make()


def test_all_recorded_cases_are_here() -> None:
    assert len(RECORDED["cases"]) == 191
    assert {case["name"] for case in REFUSED_CASES} == REFUSED_TEXTS
    assert {case["name"] for case in RECORDED["js_values"]} == set(JS_VALUES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_json_text_has_the_references_canonical_text_and_hash(case: dict[str, Any]) -> None:
    if "parse_error" in case:
        with pytest.raises(ValueError):
            jsontext.parse(case["json"])
        return
    value = jsontext.parse(case["json"])
    assert canonical_json(value) == case["canonical"]
    assert hash_payload(value) == case["hash"]
    assert hashlib.sha256(case["canonical"].encode()).hexdigest() == case["hash"]


def test_every_deviation_is_in_the_docs() -> None:
    expected = REFUSED_TEXTS | REFUSED_VALUES | set(WRITTEN_AS_JSON) | WITHOUT_TWIN
    assert documented_deviations("canonical_json.json") == expected


@pytest.mark.parametrize("case", REFUSED_CASES, ids=lambda case: case["name"])
def test_deviation_a_payload_the_reference_hashes_lossily_is_refused(case: dict[str, Any]) -> None:
    value = jsontext.parse(case["json"])
    for form in (canonical_json, hash_payload):
        with pytest.raises(InvalidInputError, match="payload") as refused:
            form(value)
        assert (refused.value.field or "").startswith("payload")


@pytest.mark.parametrize("name", sorted(REFUSED_VALUES))
def test_deviation_a_value_the_reference_flattens_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="payload"):
        hash_payload(twin(name))


@pytest.mark.parametrize("name", sorted(WRITTEN_AS_JSON))
def test_deviation_a_value_with_a_plain_meaning_is_written(name: str) -> None:
    assert canonical_json(twin(name)) == WRITTEN_AS_JSON[name]


@pytest.mark.parametrize("name", sorted(set(JS_VALUES) - REFUSED_VALUES - set(WRITTEN_AS_JSON) - WITHOUT_TWIN))
def test_a_value_json_cannot_hold_is_treated_as_by_the_reference(name: str) -> None:
    case = next(case for case in RECORDED["js_values"] if case["name"] == name)
    if "hash" in case:
        assert (canonical_json(twin(name)), hash_payload(twin(name))) == (case["canonical"], case["hash"])
        return
    assert "hash_error" in case
    with pytest.raises(InvalidInputError):
        hash_payload(twin(name))


@pytest.mark.parametrize(
    ("payload", "place", "remedy"),
    [
        ({"items": [1, 2, {"price": float("nan")}]}, "payload.items[2].price", "None"),
        ({"items": [1, {"price": Decimal("1.10")}]}, "payload.items[1].price", "text"),
        ({"a": {"__proto__": {}}}, "payload.a.__proto__", "rename"),
        ({"a": [{1, 2}]}, "payload.a[0]", "sorted list"),
        ({"a": b"x"}, "payload.a", "base64"),
        ({"a": _Payload()}, "payload.a", "asdict"),
        ({"a": date(2026, 9, 27)}, "payload.a", "isoformat"),
        ({"a": timedelta(hours=1)}, "payload.a", "unit"),
        ({"a": UUID(int=1)}, "payload.a", "str()"),
        ({"a": datetime(2026, 9, 27)}, "payload.a", "tzinfo"),
        ({"a": {7: 1}}, "payload.a", "str"),
        ({"a": {None: 1}}, "payload.a", "str"),
        ({"id": 2**53 + 1}, "payload.id", "text"),
        ({"id": 10**5000}, "payload.id", "text"),
        (_looped(), "payload.self", "contains itself"),
        (Decimal(1), "payload", "text"),
    ],
)
def test_a_refusal_names_the_place_and_the_remedy(payload: object, place: str, remedy: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        hash_payload(payload)
    assert refused.value.field == place
    assert str(refused.value).startswith(place + " ")
    assert remedy in str(refused.value)


def test_a_forgotten_await_is_refused() -> None:
    async def body() -> str:
        return "x"

    forgotten = body()
    with pytest.raises(InvalidInputError, match="await it first"):
        hash_payload({"body": forgotten})
    forgotten.close()


def test_integers_that_a_double_holds_exactly_are_hashed() -> None:
    assert (
        canonical_json([2**53, 2**60, -(2**70), 10**22])
        == "[9007199254740992,1152921504606847000,-1.1805916207174113e+21,1e+22]"
    )


def test_equal_instants_hash_alike_whatever_their_zone() -> None:
    noon = datetime(2026, 9, 27, 12, tzinfo=UTC)
    assert hash_payload(noon) == hash_payload(noon.astimezone(timezone(timedelta(hours=5, minutes=30))))
    assert hash_payload(noon) == hash_payload("2026-09-27T12:00:00.000Z")


def test_a_tuple_is_an_array() -> None:
    assert hash_payload({"to": ("a", "b")}) == hash_payload({"to": ["a", "b"]})
    assert canonical_json(SplitResult(*urlsplit("https://a.example/?q=1"))) == '["https","a.example","/","q=1",""]'


def test_composed_and_decomposed_text_are_two_payloads() -> None:
    assert hash_payload("caf\u00e9") != hash_payload("cafe\u0301")


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(st.text(max_size=4) | st.integers(0, 2**33).map(str), children, max_size=6)
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_the_canonical_text_means_the_payload(value: object) -> None:
    assert json.loads(canonical_json(value)) == json.loads(jsontext.stringify(value))


@given(
    st.dictionaries(st.text(max_size=3) | st.integers(0, 2**33).map(str), st.integers(0, 9), min_size=2, max_size=8),
    st.randoms(),
)
def test_the_order_in_which_members_were_added_changes_no_hash(members: dict[str, int], rng: random.Random) -> None:
    shuffled = list(members.items())
    rng.shuffle(shuffled)
    assert canonical_json(dict(shuffled)) == canonical_json(members)


@given(JSON_VALUES)
def test_the_quick_way_and_the_full_way_write_the_same(value: object) -> None:
    slow = MappingProxyType({"value": value})
    assert canonical_json({"value": value}) == canonical_json(slow)


@needs_node
def test_members_are_ordered_as_the_runtime_orders_sorted_keys() -> None:
    rng = random.Random(20260927)
    texts = [
        text for text in (random_text(rng) for _ in range(3_000)) if "__proto__" not in text and "E400" not in text
    ]
    assert [canonical_json(jsontext.parse(text)) for text in texts] == ask_node(_SORTED_COPY, texts)


_SORTED_COPY = """(text) => {
  const sorted = (v) => Array.isArray(v) ? v.map(sorted) : v === null || typeof v !== "object" ? v
    : Object.fromEntries(Object.keys(v).sort().map((key) => [key, sorted(v[key])]));
  return JSON.stringify(sorted(JSON.parse(text)));
}"""
