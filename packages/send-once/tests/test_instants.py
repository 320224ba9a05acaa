"""Instants read and print as in the reference's runtime."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_engine import ask_node, needs_node
from recorded import documented_deviations, recorded, value_of
from send_once import InvalidInputError
from send_once.instants import INSTANT_MS_MAX, iso_from_ms, moment_ms, parse_instant

RECORDED = recorded("durations")

# A row in docs/explanation/deviations-text.md.
DEVIATIONS = {"moments: bigint 7"}


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The recordings were made in UTC; a test may move the machine elsewhere."""

    def move_to(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    move_to("UTC")
    yield move_to
    monkeypatch.undo()
    time.tzset()


def is_bigint(case: dict[str, Any]) -> bool:
    return bool(case["moment"] == {"$js": "bigint 7"})


def test_all_recorded_cases_are_here() -> None:
    assert (len(RECORDED["date_parse"]), len(RECORDED["to_iso"]), len(RECORDED["moments"])) == (67, 17, 11)


@pytest.mark.parametrize("case", RECORDED["date_parse"], ids=lambda case: ascii(case["text"]))
def test_a_text_is_read_as_the_runtime_reads_it(case: dict[str, Any]) -> None:
    assert parse_instant(case["text"]) == case["ms"]


@pytest.mark.parametrize("case", RECORDED["to_iso"], ids=lambda case: ascii(case["ms"]))
def test_an_instant_prints_as_in_the_runtime(case: dict[str, Any]) -> None:
    if "error" not in case:
        assert iso_from_ms(value_of(case["ms"])) == case["iso"]
        return
    with pytest.raises(InvalidInputError, match=case["error"]["message"]):
        iso_from_ms(value_of(case["ms"]))


@pytest.mark.parametrize(
    "case", [case for case in RECORDED["moments"] if not is_bigint(case)], ids=lambda case: ascii(case["moment"])
)
def test_a_moment_is_taken_as_the_reference_takes_it(case: dict[str, Any]) -> None:
    if "error" not in case:
        assert moment_ms(value_of(case["moment"])) == case["ms"]
        return
    with pytest.raises(InvalidInputError) as refused:
        moment_ms(value_of(case["moment"]))
    assert str(refused.value).startswith(case["error"]["message"])


def test_every_deviation_is_in_the_docs() -> None:
    documented = {name for name in documented_deviations("durations.json") if not name.startswith("parse")}
    assert documented == DEVIATIONS


def test_deviation_any_python_integer_is_a_number_of_milliseconds() -> None:
    assert moment_ms(7) == 7


@pytest.mark.parametrize("moment", [datetime(2026, 9, 27), 10**400, True, "2026-09-27T00:00:00Z"])
def test_what_is_no_instant_is_refused(moment: Any) -> None:
    with pytest.raises(InvalidInputError, match="A time must be a valid Date or a number of milliseconds."):
        moment_ms(moment)


def test_a_datetime_without_a_zone_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidInputError, match="tzinfo"):
        moment_ms(datetime(2026, 9, 27))


def test_an_instant_is_the_same_in_every_zone() -> None:
    noon = datetime(2026, 9, 27, 12, tzinfo=UTC)
    assert moment_ms(noon.astimezone(timezone(timedelta(hours=-7)))) == moment_ms(noon) == 1_790_510_400_000


@given(st.integers(-INSTANT_MS_MAX, INSTANT_MS_MAX))
def test_a_printed_instant_reads_back(ms: int) -> None:
    assert parse_instant(iso_from_ms(ms)) == ms


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_datetime_prints_its_own_fields(at: datetime) -> None:
    printed = iso_from_ms((at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))
    assert printed == at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@given(st.text(max_size=40) | st.text(alphabet="0123456789-+:.TZ /", max_size=30))
def test_any_text_is_an_instant_or_none(text: str) -> None:
    ms = parse_instant(text)
    assert ms is None or abs(ms) <= INSTANT_MS_MAX


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-03-29T02:30:00", "2026-03-29T01:30:00.000Z"),  # the hour that is skipped: the earlier offset
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00.000Z"),  # the hour that comes twice: its first pass
        ("2026-07-01T12:00", "2026-07-01T10:00:00.000Z"),
        ("2026-07-01", "2026-07-01T00:00:00.000Z"),  # a date alone is UTC
    ],
)
def test_a_time_without_a_zone_is_the_machines_local_time(zone: Any, text: str, utc: str) -> None:
    zone("Europe/Berlin")
    ms = parse_instant(text)
    assert ms is not None
    assert iso_from_ms(ms) == utc


@needs_node
@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Australia/Lord_Howe"])
def test_3_000_texts_are_read_as_the_runtime_reads_them(zone: Any, name: str) -> None:
    zone(name)
    _compare_texts(3_000, name, seed=11)


@pytest.mark.full
@needs_node
@pytest.mark.parametrize(
    "name", ["UTC", "Europe/London", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu", "Africa/Casablanca"]
)
def test_60_000_texts_are_read_as_the_runtime_reads_them(zone: Any, name: str) -> None:
    zone(name)
    for seed in range(3):
        _compare_texts(20_000, name, seed=seed)


def _compare_texts(count: int, name: str, *, seed: int) -> None:
    rng = random.Random(seed)
    texts = [_iso_like(rng) for _ in range(count)]
    theirs = ask_node("(text) => Date.parse(text)", texts, zone=name)
    ours = [parse_instant(text) for text in texts]
    assert [case for case in zip(texts, ours, theirs, strict=True) if case[1] != case[2]] == []
    assert 0.03 < sum(ms is None for ms in ours) / count < 0.6


def _iso_like(rng: random.Random) -> str:
    """An ISO 8601 text of the runtime's grammar, its fields now and then out of range."""
    near = f"{rng.randint(1975, 2035):04}"
    year = rng.choice(
        [
            *[near] * 8,
            f"{rng.randint(100, 9999):04}",
            f"+{rng.randint(0, 280_000):06}",
            f"-{rng.randint(1, 280_000):06}",
        ]
    )
    day = f"{year}-{_field(rng, 1, 12, 13)}-{_field(rng, 1, 28, 33)}"
    if rng.random() < 0.1:
        return rng.choice([year, day[: len(year) + 3], day])
    clock = f"{_field(rng, 0, 23, 25)}:{_field(rng, 0, 59, 61)}"
    if rng.random() < 0.8:
        clock += ":" + _field(rng, 0, 59, 61) + rng.choice(["", f".{rng.randint(0, 10 ** rng.randint(1, 9))}"])
    offset = rng.choice("+-") + _field(rng, 0, 23, 26) + rng.choice(["", ":"]) + _field(rng, 0, 59, 61)
    return f"{day}{rng.choice('TTTt')}{clock}{rng.choice(['Z', 'z', '', offset])}"


def _field(rng: random.Random, first: int, last: int, beyond: int) -> str:
    return f"{rng.randint(first, beyond if rng.random() < 0.2 else last):02}"
