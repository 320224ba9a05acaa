"""Durations read and print as in the reference."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorded import documented_deviations, recorded, value_of
from send_once import InvalidInputError, format_duration, parse_duration
from send_once.jsnumbers import js_number

RECORDED = recorded("durations")

# A row in docs/explanation/deviations-text.md.
DEVIATIONS = {"parse: bigint 7"}


def is_bigint(case: dict[str, Any]) -> bool:
    return bool(case["value"] == {"$js": "bigint 7"})


def test_all_recorded_cases_are_here() -> None:
    assert len(RECORDED["parse"]) == 121
    assert len(RECORDED["format"]) == 56
    assert sum(map(is_bigint, RECORDED["parse"])) == 1


@pytest.mark.parametrize(
    "case", [case for case in RECORDED["parse"] if not is_bigint(case)], ids=lambda case: ascii(case["value"])[:40]
)
def test_a_duration_is_read_as_the_reference_reads_it(case: dict[str, Any]) -> None:
    if "error" not in case:
        ms = parse_duration(value_of(case["value"]))
        assert ms == float(value_of(case["ms"]))
        assert js_number(ms) == case["ms_text"]
        return
    with pytest.raises(InvalidInputError) as refused:
        parse_duration(value_of(case["value"]))
    assert str(refused.value) == case["error"]["message"]


def test_every_deviation_is_in_the_docs() -> None:
    assert {name for name in documented_deviations("durations.json") if name.startswith("parse")} == DEVIATIONS


def test_deviation_any_python_integer_is_a_number_of_milliseconds() -> None:
    assert parse_duration(7) == 7
    with pytest.raises(InvalidInputError, match="got Infinity"):
        parse_duration(10**400)


@pytest.mark.parametrize("case", RECORDED["format"], ids=lambda case: ascii(case["ms"]))
def test_a_duration_prints_as_in_the_reference(case: dict[str, Any]) -> None:
    assert format_duration(value_of(case["ms"])) == case["text"]


def test_a_duration_beyond_all_doubles_prints() -> None:
    assert format_duration(10**400) == "Infinityd"


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (timedelta(hours=12), 43_200_000),
        (timedelta(microseconds=1500), 1.5),
        (timedelta(), 0),
        (timedelta.max, 86_399_999_999_999_999),
    ],
)
def test_a_timedelta_is_a_duration(value: timedelta, ms: float) -> None:
    assert parse_duration(value) == pytest.approx(ms, rel=1e-15)


def test_a_negative_timedelta_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="zero or more milliseconds, got -1000") as refused:
        parse_duration(timedelta(seconds=-1))
    assert refused.value.field == "duration"


@pytest.mark.parametrize("value", [True, False, None, b"10m", ["10m"], object()])
def test_what_is_no_duration_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError, match='a number of milliseconds or a string like "12h"'):
        parse_duration(value)


@given(
    st.integers(0, 10**12),
    st.sampled_from([("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)]),
)
def test_a_whole_number_of_a_unit_is_exact(count: int, unit: tuple[str, int]) -> None:
    name, ms_per_unit = unit
    assert parse_duration(f" {count} {name}\u00a0") == float(count * ms_per_unit)


@given(st.text())
def test_any_text_is_a_duration_or_a_typed_refusal(text: str) -> None:
    try:
        ms = parse_duration(text)
    except InvalidInputError as refused:
        assert str(refused) == f'Not a duration: "{text}". Use a number and a unit: 500ms, 30s, 15m, 12h, 2d.'
    else:
        assert ms >= 0


@given(st.floats(0, 1e15), st.floats(0, 1e15))
def test_a_printed_duration_is_never_longer_than_the_duration(first: float, second: float) -> None:
    for ms in (first, second, min(first, second)):
        printed_ms = sum(parse_duration(part) for part in format_duration(ms).split())
        assert printed_ms <= ms
        assert ms - printed_ms < max(1000, min(ms, 3_600_000))
    assert not math.isnan(parse_duration(first))
