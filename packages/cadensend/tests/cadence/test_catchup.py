"""The burst rule: what goes after a long silence, under each policy."""

from __future__ import annotations

import itertools
from datetime import date, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence.test_timetables import utc
from cadensend.cadence import CatchUp, Daily, Timetable, Verdict, Waiting, catch_up

WINDOW = timedelta(hours=4)
NOW = utc("2027-05-10T12:00")
TABLE = Timetable(Daily(), time(7), "UTC", date(2027, 5, 1))


def lessons(*days: int) -> list[Waiting]:
    return [Waiting(f"lesson {day}", utc(f"2027-05-{day:02}T07:00")) for day in days]


def placed(policy: CatchUp, *days: int) -> list[tuple[str, str | None]]:
    found = catch_up(lessons(*days), policy=policy, window=WINDOW, now=NOW, free=TABLE.slots(NOW))
    return [(one.verdict.value, f"{one.due_at:%d %H}" if one.due_at else None) for one in found]


def test_after_a_week_offline_one_lesson_goes_now_and_the_rest_are_spaced_anew() -> None:
    assert placed(CatchUp.NEXT_ONLY, 7, 8, 9, 11) == [
        ("now", "10 12"),
        ("respaced", "11 07"),
        ("respaced", "12 07"),
        ("respaced", "13 07"),
    ]


def test_all_that_was_missed_goes_now_if_that_was_chosen() -> None:
    assert placed(CatchUp.SEND_ALL, 8, 9, 11) == [("now", "10 12"), ("now", "10 12"), ("keep", "11 07")]


def test_what_was_missed_is_skipped_if_that_was_chosen() -> None:
    assert placed(CatchUp.SKIP_MISSED, 8, 9, 11) == [("skipped", None), ("skipped", None), ("keep", "11 07")]


def test_everything_waits_for_a_person_if_that_was_chosen() -> None:
    assert placed(CatchUp.HOLD, 8, 11) == [("held", None), ("held", None)]


@pytest.mark.parametrize("policy", CatchUp)
def test_nothing_happens_while_no_lesson_is_late(policy: CatchUp) -> None:
    assert placed(policy, 11, 12) == [("keep", "11 07"), ("keep", "12 07")]
    within = [Waiting("a", NOW - WINDOW), Waiting("b", NOW + WINDOW)]
    found = catch_up(within, policy=policy, window=WINDOW, now=NOW, free=TABLE.slots(NOW))
    assert [one.verdict for one in found] == [Verdict.KEEP, Verdict.KEEP]


def test_a_lesson_put_in_before_the_readers_place_follows_the_same_rule() -> None:
    """The new one was due long ago, the next of the course is not late at all."""
    assert placed(CatchUp.NEXT_ONLY, 2, 11, 12) == [("now", "10 12"), ("keep", "11 07"), ("keep", "12 07")]


@given(st.lists(st.integers(1, 20), max_size=12).map(sorted), st.sampled_from(CatchUp))
def test_no_policy_loses_repeats_or_overtakes_a_lesson(days: list[int], policy: CatchUp) -> None:
    waiting = [Waiting(f"{place}", utc(f"2027-05-{day:02}T07:00")) for place, day in enumerate(days)]
    found = catch_up(waiting, policy=policy, window=WINDOW, now=NOW, free=TABLE.slots(NOW))
    assert [one.issue for one in found] == [one.issue for one in waiting]
    times = [one.due_at for one in found if one.due_at is not None]
    assert all(earlier <= later for earlier, later in itertools.pairwise(times))
    if policy is CatchUp.NEXT_ONLY:
        assert sum(one.verdict is Verdict.NOW for one in found) <= 1
    assert all((one.due_at is None) == (one.verdict in (Verdict.SKIPPED, Verdict.HELD)) for one in found)
