"""Zones by name, and wall times that a zone lacks or has twice."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadensend.cadence import Shift, ZoneError, moment, zone_data_version, zone_of
from cadensend.cadence.zones import day_exists, zone_names

ZONES = st.sampled_from(zone_names())
WALLS = st.datetimes(datetime(1970, 1, 3), datetime(2037, 12, 30))


@pytest.mark.parametrize("name", ["", "CET+1", "Europe/Berlin ", "localtime", "right/UTC", "../etc/passwd", None, 3])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ZoneError, match="not an IANA time zone"):
        zone_of(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("europe/berlin", "Europe/Berlin"), ("Berlin", "Europe/Berlin"), ("Europe/Berln", "Europe/Berlin"),
     ("New York", "America/New_York"), ("lord howe", "Australia/Lord_Howe")],
)  # fmt: skip
def test_a_zone_that_was_misspelt_is_guessed(name: str, meant: str) -> None:
    with pytest.raises(ZoneError, match=f"Did you mean .*{meant}"):
        zone_of(name)


@pytest.mark.parametrize(
    ("zone", "asked", "utc", "wall", "shift"),
    [
        ("Europe/Berlin", "2031-03-30T02:30", "2031-03-30T01:30", "2031-03-30T03:30", Shift.GAP),
        ("Europe/Berlin", "2031-10-26T02:30", "2031-10-26T00:30", "2031-10-26T02:30", Shift.FOLD),
        ("Europe/Berlin", "2031-03-30T03:00", "2031-03-30T01:00", "2031-03-30T03:00", Shift.NONE),
        ("America/New_York", "2027-03-14T02:30", "2027-03-14T07:30", "2027-03-14T03:30", Shift.GAP),
        ("America/New_York", "2027-11-07T01:30", "2027-11-07T05:30", "2027-11-07T01:30", Shift.FOLD),
        # Half an hour: 02:00 becomes 02:30, and 01:30 to 02:00 comes twice.
        ("Australia/Lord_Howe", "2027-10-03T02:15", "2027-10-02T15:45", "2027-10-03T02:45", Shift.GAP),
        ("Australia/Lord_Howe", "2027-04-04T01:45", "2027-04-03T14:45", "2027-04-04T01:45", Shift.FOLD),
        # Midnight itself is missing.
        ("America/Sao_Paulo", "2018-11-04T00:30", "2018-11-04T03:30", "2018-11-04T01:30", Shift.GAP),
        ("Africa/Casablanca", "2026-02-15T02:30", "2026-02-15T01:30", "2026-02-15T02:30", Shift.FOLD),
    ],
)
def test_a_gap_keeps_the_earlier_offset_and_a_fold_takes_the_first_pass(
    zone: str, asked: str, utc: str, wall: str, shift: Shift
) -> None:
    settled = moment(datetime.fromisoformat(asked), zone_of(zone))
    assert settled.at == datetime.fromisoformat(utc).replace(tzinfo=UTC)
    assert (settled.wall, settled.asked) == (datetime.fromisoformat(wall), datetime.fromisoformat(asked))
    assert settled.shift is shift


def test_apia_has_no_30_december_2011() -> None:
    apia = zone_of("Pacific/Apia")
    assert [day_exists(date(2011, 12, day), apia) for day in (29, 30, 31)] == [True, False, True]
    assert day_exists(date(2011, 12, 30), ZoneInfo("UTC"))


@given(ZONES, WALLS)
def test_what_is_settled_is_what_clocks_show(name: str, asked: datetime) -> None:
    zone = zone_of(name)
    settled = moment(asked, zone)
    assert settled.at.astimezone(zone).replace(tzinfo=None, fold=0) == settled.wall
    assert (settled.wall == asked) == (settled.shift is not Shift.GAP)
    assert settled.wall >= asked
    if settled.shift is Shift.FOLD:
        later = asked.replace(tzinfo=zone, fold=1).astimezone(UTC)
        assert settled.at < later


def test_the_release_of_the_zone_data_is_known() -> None:
    year, letter = zone_data_version()[:-1], zone_data_version()[-1]
    assert int(year) >= 2025
    assert letter.islower()
