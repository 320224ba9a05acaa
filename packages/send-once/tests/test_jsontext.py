"""JSON text is read and written as the reference's runtime reads and writes it."""

from __future__ import annotations

import enum
import json
import math
import random
import struct
from collections import ChainMap
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from json_samples import damaged, random_double, random_text
from node_engine import ask_node, needs_node
from send_once import InvalidInputError, deepjson, jsontext
from send_once.jsnumbers import js_number
from send_once.jsontext import DEPTH_MAX, is_index_key, parse, stringify

RECORDED_NUMBERS = {
    1.0: "1",
    -0.0: "0",
    1e16: "10000000000000000",
    1e21: "1e+21",
    1e-5: "0.00001",
    1e-6: "0.000001",
    1e-7: "1e-7",
    123e-20: "1.23e-18",
    5e-324: "5e-324",
    1.7976931348623157e308: "1.7976931348623157e+308",
    999999999999999900000.0: "999999999999999900000",
    -1.5: "-1.5",
}


class Colour(str, enum.Enum):  # noqa: UP042  # its str() is `Colour.RED`, unlike a StrEnum's
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


# Numbers


@pytest.mark.parametrize(("number", "text"), RECORDED_NUMBERS.items())
def test_a_number_has_the_runtimes_text(number: float, text: str) -> None:
    assert js_number(number) == text
    assert stringify([number]) == f"[{text}]"


def test_an_integer_is_written_as_the_double_it_becomes() -> None:
    assert stringify(2**53 + 1) == "9007199254740992"
    assert stringify({"id": 12345678901234567890}) == '{"id":12345678901234567000}'
    assert stringify([-(2**53), 2**53]) == "[-9007199254740992,9007199254740992]"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_numbers_text_reads_back_as_the_same_double(number: float) -> None:
    assert float(js_number(number)) == number
    assert struct.pack("<d", float(js_number(number)) + 0.0) == struct.pack("<d", number + 0.0)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_numbers_text_has_the_shortest_digits(number: float) -> None:
    """`repr` gives the shortest digits too, in another layout; so both hold the same ones."""
    assert _digits(js_number(number)) == _digits(repr(number))


def _digits(text: str) -> str:
    return text.partition("e")[0].replace(".", "").lstrip("-0").rstrip("0")


@needs_node
def test_20_000_numbers_are_written_as_the_runtime_writes_them() -> None:
    _compare_numbers(20_000, seed=8)


@pytest.mark.full
@needs_node
def test_400_000_numbers_are_written_as_the_runtime_writes_them() -> None:
    for seed in range(20):
        _compare_numbers(20_000, seed=seed)


def _compare_numbers(count: int, *, seed: int) -> None:
    rng = random.Random(seed)
    numbers = [random_double(rng) for _ in range(count)]
    from_bits = "(hex) => String(Buffer.from(hex, 'hex').readDoubleLE(0))"
    theirs = ask_node(from_bits, [struct.pack("<d", number).hex() for number in numbers])
    assert [pair for pair in zip(map(js_number, numbers), theirs, strict=True) if pair[0] != pair[1]] == []


# Writing


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ("", '""'),
        ({}, "{}"),
        ([], "[]"),
        ((1, (2,)), "[1,[2]]"),
        ({"b": 1, "10": 2, "9": 3, "a": 4}, '{"9":3,"10":2,"b":1,"a":4}'),
        ({"__proto__": {"a": 1}}, '{"__proto__":{"a":1}}'),
        ('\b\t\n\f\r"\\/\x00\x1f\x7f\x85\u2028\u2029', '"\\b\\t\\n\\f\\r\\"\\\\/\\u0000\\u001f\x7f\x85\u2028\u2029"'),
        ("a\ud800b\udfff", '"a\\ud800b\\udfff"'),
        ({"\udc00": 1}, '{"\\udc00":1}'),
        ("\ud83c\udf89", '"\U0001f389"'),
        ("\ud83c\ud83c\udf89", '"\\ud83c\U0001f389"'),
        (datetime(2026, 9, 27, 12, tzinfo=timezone(timedelta(hours=2))), '"2026-09-27T10:00:00.000Z"'),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        (ChainMap({"a": 1}), '{"a":1}'),
        ({"colour": Colour.RED, Colour.RED: Level.HIGH}, '{"colour":"red","red":3}'),
    ],
)
def test_a_value_is_written_as_the_runtime_writes_it(value: object, text: str) -> None:
    assert stringify(value) == text
    text.encode("utf-8")


def test_indented_text_is_the_runtimes() -> None:
    value = {"a": [], "b": {}, "c": [1, {"d": None}], "0": "x"}
    assert stringify(value, 2) == (
        '{\n  "0": "x",\n  "a": [],\n  "b": {},\n  "c": [\n    1,\n    {\n      "d": null\n    }\n  ]\n}'
    )
    assert stringify([], 2) == "[]"
    assert stringify("x", 2) == '"x"'


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        ({"items": [1, 2, {"price": math.nan}]}, "meta.items[2].price", "NaN"),
        ([math.inf], "meta[0]", "Infinity"),
        ([-math.inf], "meta[0]", "-Infinity"),
        (math.nan, "meta", "NaN"),
        ([10**400], "meta[0]", "Infinity"),
        ({"a": {1: 2}}, "meta.a", "key that is not text: 1"),
        ({"a": {"x": 1, None: 2}}, "meta.a", "key that is not text: None"),
        ({True: 1}, "meta", "key that is not text: True"),
        ({1: 1}, "meta", "key that is not text: 1"),
        ([[b"x"]], "meta[0][0]", "bytes"),
        ({"a": {1}}, "meta.a", "set"),
        ({"a": Decimal("1.1")}, "meta.a", "Decimal"),
        ({"a": [object()]}, "meta.a[0]", "object"),
        ({"at": datetime(2026, 9, 27)}, "meta.at", "tzinfo"),
        ([{}, {"x": [], "y": [{"z": print}]}], "meta[1].y[0].z", "builtin_function_or_method"),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_what_is_not_json_is_refused_by_its_place(value: object, place: str, words: str, indent: int | None) -> None:
    with pytest.raises(InvalidInputError) as refused:
        stringify(value, indent, where="meta")
    assert refused.value.field == place
    assert str(refused.value).startswith(f"{place} ")
    assert words in str(refused.value)


def test_infinity_that_was_read_is_written_as_null_where_asked() -> None:
    assert stringify(parse("[1E400,-1E400]"), infinity_as_null=True) == "[null,null]"


def test_a_value_that_contains_itself_is_refused_at_once() -> None:
    looped: dict[str, Any] = {"text": "x" * 1000, "list": []}
    looped["list"].append({"again": looped})
    with pytest.raises(InvalidInputError, match="contains itself") as refused:
        stringify(looped, where="meta")
    assert refused.value.field == "meta.list[0].again"


def test_one_object_in_two_places_is_no_loop() -> None:
    shared = {"a": [1.5]}
    assert stringify({"x": shared, "y": [shared, shared]}) == '{"x":{"a":[1.5]},"y":[{"a":[1.5]},{"a":[1.5]}]}'


@pytest.mark.parametrize("depth", [1_500, DEPTH_MAX])
def test_deep_nesting_is_written_and_read(depth: int) -> None:
    arrays, objects = "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth
    assert stringify(parse(arrays)) == arrays
    assert stringify(parse(objects)) == objects


def test_nesting_without_end_is_refused_by_depth() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    try:
        with pytest.raises(InvalidInputError, match="10,000 levels"):
            stringify(value)
    finally:
        while value:  # taken apart by hand: freeing it in one go would nest as deep
            value = value.pop()


def test_a_hundred_thousand_levels_are_read() -> None:
    value = parse("[" * 100_000 + "7" + "]" * 100_000)
    levels = 0
    while isinstance(value, list):
        value, levels = value[0], levels + 1
    assert (value, levels) == (7, 100_000)


# Reading


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "-Infinity", "[NaN]", '{"a":-Infinity}', "01", "1.", "'a'", "", "\ufeff1"]
)
def test_what_the_runtime_refuses_to_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)
    with pytest.raises(ValueError):
        parse("[" * 3_000 + (text or ",") + "]" * 3_000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0", 1),
        ("1e2", 100),
        ("-0", 0),
        ("-0.0", 0),
        ("9007199254740993", 2**53),
        ("9007199254740992.0", 2**53),
        ("0.5", 0.5),
    ],
)
def test_a_whole_number_is_read_as_int_up_to_two_to_the_53(text: str, value: float) -> None:
    read = parse(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [("1E400", math.inf), ("-1E400", -math.inf), ("9007199254740994", 2.0**53 + 2), ("9" * 5000, math.inf)],
)
def test_a_larger_number_is_read_as_a_double(text: str, value: float) -> None:
    read = parse(text)
    assert (read, type(read)) == (value, float)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"b":1,"10":2,"9":3,"a":4}', ["9", "10", "b", "a"]),
        ('{"b":1,"10" \n:2}', ["10", "b"]),
        ('{"a":1,"b":2,"a":3}', ["a", "b"]),
        ('{"b":1,"\\u0031":2}', ["1", "b"]),
    ],
)
def test_members_come_in_the_runtimes_order(text: str, keys: list[str]) -> None:
    assert list(parse(text)) == keys
    nested = parse("[" * 3_000 + text + "]" * 3_000)
    while isinstance(nested, list):
        nested = nested[0]
    assert list(nested) == keys


def test_of_equal_keys_the_last_value_stands_in_the_first_place() -> None:
    assert list(parse('{"a":1,"b":2,"a":3}').items()) == [("a", 3), ("b", 2)]


@pytest.mark.parametrize("key", ["0", "7", "10", "4294967294"])
def test_an_array_index_is_an_index_key(key: str) -> None:
    assert is_index_key(key)


@pytest.mark.parametrize(
    "key", ["", "00", "01", "-1", "1.0", "4294967295", "99999999999", "1e3", "\uff11", "\u0661", "\u00b2", " 1", "a"]
)
def test_anything_else_is_no_index_key(key: str) -> None:
    assert not is_index_key(key)


# Both ways

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=4), children, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES)
@example({"\ud800": "\udc00"})
def test_a_written_value_reads_back_equal(value: object) -> None:
    text = stringify(value)
    assert parse(text) == value
    assert parse(stringify(value, 2)) == value
    assert stringify(parse(text)) == text
    text.encode("utf-8")


@given(JSON_VALUES)
def test_the_quick_way_and_the_full_way_write_the_same(value: object) -> None:
    full = jsontext.write(value, jsontext.Style(jsontext.runtime_order), "value")
    assert stringify(value) == full
    assert stringify({"value": value}) == f'{{"value":{full}}}'


@given(st.text(alphabet='{}[]",:0123456789.eE+-\\u/ntf nulraedxb\n', max_size=30))
@example('{"a":[1,{"b":null}],"c":"\\ud83c\\udf89"}')
def test_the_reader_for_deep_texts_agrees_with_the_other(text: str) -> None:
    def deep(text: str) -> object:
        return deepjson.parse(text, parse_int=int, parse_float=float)

    def plain(text: str) -> object:
        return json.loads(text, parse_constant=lambda name: json.loads("x" + name))

    assert _answer(deep, text) == _answer(plain, text)


def _answer(read: Any, text: str) -> tuple[str, str]:
    try:
        return "value", repr(read(text))
    except ValueError:
        return "refused", ""


@needs_node
def test_4_000_texts_are_read_and_written_as_the_runtime_does() -> None:
    _compare_texts(4_000, seed=7)


@pytest.mark.full
@needs_node
def test_200_000_texts_are_read_and_written_as_the_runtime_does() -> None:
    for seed in range(100, 120):
        _compare_texts(10_000, seed=seed)


def _compare_texts(count: int, *, seed: int) -> None:
    rng = random.Random(seed)
    texts = [random_text(rng) for _ in range(count)]
    texts = [damaged(rng, text) if rng.random() < 0.5 else text for text in texts]
    for indent in (None, 2):
        theirs = ask_node(f"(text) => JSON.stringify(JSON.parse(text), null, {json.dumps(indent)})", texts)
        ours = [_rewritten(text, indent) for text in texts]
        assert [case for case in zip(texts, ours, theirs, strict=True) if case[1] != case[2]] == []
        assert 0.1 < sum(text is None for text in ours) / count < 0.6


def _rewritten(text: str, indent: int | None) -> str | None:
    try:
        return stringify(parse(text), indent, infinity_as_null=True)
    except ValueError:
        return None


def test_an_instant_is_written_in_utc_with_milliseconds() -> None:
    at = datetime(2026, 9, 27, 1, 2, 3, 4999, tzinfo=UTC)
    assert stringify({"at": at}) == '{"at":"2026-09-27T01:02:03.004Z"}'
