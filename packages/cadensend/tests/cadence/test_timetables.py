"""Slots: the same wall time through every change of offset, each instant later than the one before."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence.test_rhythms import RHYTHMS
from cadence.test_zones import ZONES
from cadensend.cadence import (
    Daily,
    EveryDays,
    OnWeekdays,
    Rhythm,
    Shift,
    Slot,
    Timetable,
    Weekday,
    ZoneError,
    for_reader,
    moves,
    place,
    would_move,
    zone_of,
)

TIMES = st.times().map(lambda at: at.replace(microsecond=0))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def table(zone: str = "Europe/Berlin", at: str = "07:30", start: str = "2027-03-26", rhythm: Rhythm | None = None,
          skipped: tuple[str, ...] = ()) -> Timetable:  # fmt: skip
    days = frozenset(date.fromisoformat(day) for day in skipped)
    return Timetable(rhythm or Daily(), time.fromisoformat(at), zone, date.fromisoformat(start), days)


def due(timetable: Timetable, count: int, after: datetime | None = None) -> list[datetime]:
    return [slot.due_at for slot in itertools.islice(timetable.slots(after), count)]


def test_the_wall_time_stays_when_the_clocks_change_either_way() -> None:
    spring = due(table(start="2027-03-27"), 3)
    assert spring == [utc("2027-03-27T06:30"), utc("2027-03-28T05:30"), utc("2027-03-29T05:30")]
    autumn = due(table(start="2027-10-30"), 3)
    assert autumn == [utc("2027-10-30T05:30"), utc("2027-10-31T06:30"), utc("2027-11-01T06:30")]


def test_a_lesson_in_a_gap_says_so_and_goes_later() -> None:
    slot = next(table(at="02:30", start="2031-03-30").slots())
    assert (slot.due_at, slot.shift) == (utc("2031-03-30T01:30"), Shift.GAP)
    assert slot.remark() == "30 March has no 02:30 in Europe/Berlin; this lesson goes at 03:30."


def test_a_lesson_in_a_fold_says_so_and_goes_once() -> None:
    slots = list(itertools.islice(table(at="02:30", start="2031-10-26").slots(), 2))
    assert [slot.due_at for slot in slots] == [utc("2031-10-26T00:30"), utc("2031-10-27T01:30")]
    assert slots[0].remark() == "26 October has 02:30 twice in Europe/Berlin; this lesson goes at the first."
    assert slots[1].remark() is None


def test_a_day_that_a_zone_left_out_has_no_slot() -> None:
    days = [slot.wall.day for slot in itertools.islice(table("Pacific/Apia", start="2011-12-28").slots(), 4)]
    assert days == [28, 29, 31, 1]


def test_half_an_hour_is_enough() -> None:
    instants = due(table("Australia/Lord_Howe", "08:00", "2027-10-02"), 2)
    assert instants[1] - instants[0] == timedelta(hours=23, minutes=30)


def test_skipped_dates_are_left_out_and_the_rhythm_keeps_its_beat() -> None:
    every_second = table(rhythm=EveryDays(2), start="2027-05-01", skipped=("2027-05-03",))
    assert [slot.wall.day for slot in itertools.islice(every_second.slots(), 3)] == [1, 5, 7]


def test_slots_after_an_instant_keep_the_beat_of_the_start() -> None:
    every_third = table(rhythm=EveryDays(3), start="2027-05-01")
    assert due(every_third, 1, utc("2027-05-04T05:29")) == [utc("2027-05-04T05:30")]
    assert due(every_third, 1, utc("2027-05-04T05:30")) == [utc("2027-05-07T05:30")]


def test_a_zone_or_time_that_is_none_is_refused_when_the_timetable_is_made() -> None:
    with pytest.raises(ZoneError):
        table(zone="Mars/Olympus")
    with pytest.raises(ValueError, match="no offset"):
        Timetable(Daily(), time(7, tzinfo=UTC), "UTC", date(2027, 1, 1))


@given(RHYTHMS, TIMES, ZONES, st.dates(date(1971, 1, 1), date(2036, 1, 1)))
def test_instants_grow_and_clocks_show_what_was_asked_unless_it_is_said(
    rhythm: Rhythm, at: time, zone: str, start: date
) -> None:
    slots = list(itertools.islice(Timetable(rhythm, at, zone, start).slots(), 30))
    assert all(earlier.due_at < later.due_at for earlier, later in itertools.pairwise(slots))
    for slot in slots:
        shown = slot.due_at.astimezone(zone_of(zone)).replace(tzinfo=None, fold=0)
        assert shown == slot.wall
        assert (shown.time() == at) == (slot.shift is not Shift.GAP)
        assert (slot.remark() is None) == (slot.shift is Shift.NONE)


@given(ZONES, TIMES, st.datetimes(datetime(1971, 1, 1), datetime(2036, 1, 1)))
def test_a_reader_gets_nothing_before_enrolling_and_the_first_lesson_within_two_days(
    zone: str, at: time, enrolled: datetime
) -> None:
    enrolled_at = enrolled.replace(tzinfo=UTC)
    own = for_reader(Timetable(Daily(), at, "UTC", date(1970, 1, 1)), enrolled_at=enrolled_at, zone=zone)
    first = next(own.slots())
    assert enrolled_at < first.due_at <= enrolled_at + timedelta(days=2, hours=1)
    assert (first.zone, own.zone) == (zone, zone)


def test_two_readers_get_the_same_lesson_in_their_own_morning() -> None:
    series = table(rhythm=OnWeekdays(frozenset({Weekday.MON})))
    enrolled_at = utc("2027-06-06T23:30")
    berlin = next(for_reader(series, enrolled_at=enrolled_at, zone="Europe/Berlin").slots())
    auckland = next(for_reader(series, enrolled_at=enrolled_at, zone="Pacific/Auckland").slots())
    assert berlin.due_at == utc("2027-06-07T05:30")
    assert auckland.due_at == utc("2027-06-13T19:30"), "it was Monday 11:30 there, past the lesson's time"


def test_a_change_of_zone_shows_what_moves_and_moves_only_what_is_given() -> None:
    now = utc("2027-05-01T00:00")
    before = place(["b", "c"], table(start="2027-05-01"), after=now)
    after = place(["b", "c"], table("America/New_York", start="2027-05-01"), after=now)
    moved = moves(before, after)
    assert [(move.issue, move.after.due_at - move.before.due_at) for move in moved] == [
        ("b", timedelta(hours=6)),
        ("c", timedelta(hours=6)),
    ]
    assert moves(before, place(["b", "c"], table(start="2027-04-30"), after=now)) == []


def test_fixed_instants_stay_when_zone_data_change_and_are_listed() -> None:
    right = next(table().slots())
    gap = next(table(at="02:30", start="2031-03-30").slots())
    stale = Slot(right.due_at + timedelta(hours=1), right.wall, right.zone, right.rule)
    assert would_move([("kept", right), ("in a gap", gap), ("moved", stale)]) == [("moved", stale, right.due_at)]
