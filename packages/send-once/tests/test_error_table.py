"""The table of codes covers every error and outcome, and the command line shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from cli_runs import run
from send_once.error_table import TABLE, as_markdown
from send_once.errors import SendOnceError
from send_once.outcomes import ClaimOutcome, DispatchOutcome


def all_errors(kind: type[SendOnceError] = SendOnceError) -> Iterator[type[SendOnceError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__.startswith("send_once."):
            yield from all_errors(below)


def test_every_error_and_outcome_has_a_row_and_every_row_a_use() -> None:
    errors = {kind.code for kind in all_errors()} | {"os_error", "missing_driver"}
    returned = (*get_args(ClaimOutcome), *get_args(DispatchOutcome))
    outcomes = {(getattr(kind, "__origin__", None) or kind).outcome for kind in returned}
    assert {row.code for row in TABLE if row.kind == "error"} == errors
    assert {row.code for row in TABLE if row.kind == "outcome"} == outcomes
    assert len({row.code for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.code)
def test_each_code_is_explained(row: object) -> None:
    assert hasattr(row, "code")
    ran = run("explain", row.code)
    assert ran.exit == 0
    assert ran.stdout.startswith(f"{row.code} (")
    assert "  What to do: " in ran.stdout


def test_a_code_that_nearly_exists_is_named() -> None:
    ran = run("explain", "lock_timeot")
    assert (ran.exit, ran.stderr) == (2, "No such code: lock_timeot. Did you mean lock_timeout?\n")


def test_the_page_names_every_code() -> None:
    page = as_markdown()
    assert [code for row in TABLE if (code := f"### `{row.code}`\n") not in page] == []


def test_without_a_code_all_are_listed() -> None:
    assert [text.split()[0] for text in run("explain").stdout.splitlines() if text[2] != " "] == [
        row.code for row in TABLE
    ]
