"""The days of each rhythm, and rhythms as JSON."""

from __future__ import annotations

import itertools
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadensend.cadence import (
    Daily,
    EveryDays,
    MonthlyByDate,
    MonthlyByWeekday,
    OnWeekdays,
    Rhythm,
    RhythmError,
    Weekday,
    Weekdays,
    rhythm_from_json,
)

RHYTHMS: st.SearchStrategy[Rhythm] = st.one_of(
    st.just(Daily()),
    st.just(Weekdays()),
    st.frozensets(st.sampled_from(Weekday), min_size=1).map(OnWeekdays),
    st.integers(1, 366).map(EveryDays),
    st.integers(1, 31).map(MonthlyByDate),
    st.builds(MonthlyByWeekday, st.sampled_from([1, 2, 3, 4, -1]), st.sampled_from(Weekday)),
)
STARTS = st.dates(date(1990, 1, 1), date(2100, 1, 1))


def first(rhythm: Rhythm, start: str, count: int) -> list[str]:
    return [day.isoformat() for day in itertools.islice(rhythm.dates(date.fromisoformat(start)), count)]


@pytest.mark.parametrize(
    ("rhythm", "start", "days"),
    [
        (Daily(), "2028-02-28", ["2028-02-28", "2028-02-29", "2028-03-01"]),
        (Weekdays(), "2026-12-04", ["2026-12-04", "2026-12-07", "2026-12-08"]),
        (OnWeekdays(frozenset({Weekday.TUE})), "2026-12-02", ["2026-12-08", "2026-12-15"]),
        (OnWeekdays(frozenset({Weekday.FRI, Weekday.TUE})), "2026-12-01", ["2026-12-01", "2026-12-04", "2026-12-08"]),
        (EveryDays(3), "2026-12-30", ["2026-12-30", "2027-01-02", "2027-01-05"]),
        (MonthlyByDate(31), "2027-01-31", ["2027-01-31", "2027-02-28", "2027-03-31", "2027-04-30"]),
        (MonthlyByDate(29), "2028-01-30", ["2028-02-29", "2028-03-29"]),
        (MonthlyByDate(29), "2027-01-30", ["2027-02-28", "2027-03-29"]),
        (MonthlyByDate(1), "2026-12-02", ["2027-01-01", "2027-02-01"]),
        (MonthlyByWeekday(1, Weekday.TUE), "2026-12-01", ["2026-12-01", "2027-01-05", "2027-02-02"]),
        (MonthlyByWeekday(-1, Weekday.FRI), "2026-12-01", ["2026-12-25", "2027-01-29", "2027-02-26"]),
        (MonthlyByWeekday(4, Weekday.MON), "2027-02-23", ["2027-03-22"]),
    ],
)
def test_a_rhythm_has_these_days(rhythm: Rhythm, start: str, days: list[str]) -> None:
    assert first(rhythm, start, len(days)) == days


@given(RHYTHMS, STARTS)
def test_days_begin_at_the_start_at_the_earliest_and_always_grow(rhythm: Rhythm, start: date) -> None:
    days = list(itertools.islice(rhythm.dates(start), 40))
    assert len(days) == 40
    assert days[0] >= start
    assert all(earlier < later for earlier, later in itertools.pairwise(days))
    assert days[0] - start <= timedelta(days=62)


@given(RHYTHMS)
def test_a_rhythm_comes_back_from_its_json(rhythm: Rhythm) -> None:
    assert rhythm_from_json(rhythm.to_json()) == rhythm


@given(RHYTHMS)
def test_a_rhythm_can_be_said(rhythm: Rhythm) -> None:
    assert rhythm.describe().strip()


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, "kind"),
        ("daily", "kind"),
        ({}, "kind"),
        ({"kind": "hourly"}, "kind"),
        ({"kind": ["daily"]}, "kind"),
        ({"kind": "daily", "days": 2}, "days"),
        ({"kind": "on", "weekdays": []}, "weekdays"),
        ({"kind": "on", "weekdays": "tue"}, "weekdays"),
        ({"kind": "on", "weekdays": ["tues"]}, "weekdays"),
        ({"kind": "on", "weekdays": [1]}, "weekdays"),
        ({"kind": "every"}, "days"),
        ({"kind": "every", "days": 0}, "days"),
        ({"kind": "every", "days": True}, "days"),
        ({"kind": "every", "days": 2.0}, "days"),
        ({"kind": "monthly"}, "nth"),
        ({"kind": "monthly", "day": 32}, "day"),
        ({"kind": "monthly", "day": 1, "nth": 1}, "nth"),
        ({"kind": "monthly", "nth": 5, "weekday": "tue"}, "nth"),
        ({"kind": "monthly", "nth": 1}, "weekday"),
    ],
)
def test_what_is_no_rhythm_is_refused_by_the_part_that_is_wrong(value: Any, field: str) -> None:
    with pytest.raises(RhythmError) as refused:
        rhythm_from_json(value)
    assert refused.value.field == field


def test_a_rhythm_ends_with_the_calendar() -> None:
    assert first(Daily(), "9999-12-30", 5) == ["9999-12-30", "9999-12-31"]
    assert first(MonthlyByDate(1), "9999-11-15", 5) == ["9999-12-01"]


def test_rhythms_are_described_in_words() -> None:
    assert (
        OnWeekdays(frozenset({Weekday.TUE, Weekday.FRI, Weekday.SUN})).describe() == "every Tuesday, Friday and Sunday"
    )
    assert MonthlyByDate(31).describe() == "on day 31 of each month, or the last day of a shorter month"
    assert MonthlyByWeekday(-1, Weekday.FRI).describe() == "on the last Friday of each month"
    assert EveryDays(1).describe() == Daily().describe() == "every day"
