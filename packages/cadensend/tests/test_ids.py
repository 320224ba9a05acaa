"""Ids grow, whatever the clock does."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import RFC_4122

import pytest

from cadensend.ids import uuid7


def test_an_id_is_of_version_7_and_begins_with_the_time() -> None:
    made = uuid7()
    assert (made.version, made.variant) == (7, RFC_4122)
    assert abs((made.int >> 80) - time.time() * 1000) < 5_000


def test_ids_of_one_process_grow_and_are_never_the_same() -> None:
    made = [uuid7() for _ in range(20_000)]
    assert all(earlier < later for earlier, later in itertools.pairwise(made))
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: uuid7(), range(5_000)))) == 5_000


def test_a_clock_that_goes_back_makes_no_earlier_id(monkeypatch: pytest.MonkeyPatch) -> None:
    before = uuid7()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert uuid7() > before
