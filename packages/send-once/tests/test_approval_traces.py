"""The reference's recorded approvals and dispatches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import approval_traces
from approval_traces import TRACES
from awaited import Awaited

DEVIATIONS = json.loads((Path(__file__).parent / "deviations" / "approval_traces.json").read_text())
DIFFERENCES_PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "differences.md"

NOT_APPLICABLE = {
    "approve: now null": "None means the system's clock.",
    "approve: now invalid Date": "None means the system's clock; there is no invalid datetime.",
    "dispatch: no ledger": "dispatch is a method of the ledger.",
    "dispatch: payload undefined": "There is no undefined.",
}
APPROVALS = [case for case in TRACES["approvals"] if f"approve: {case['name']}" not in NOT_APPLICABLE]
DISPATCHES = [case for case in TRACES["dispatches"] if f"dispatch: {case['name']}" not in NOT_APPLICABLE]


@pytest.mark.parametrize("case", APPROVALS, ids=lambda case: case["name"])
def test_an_approval_is_the_recorded_one(case: dict[str, Any]) -> None:
    answer = approval_traces.play_approve(case)
    name = f"approve: {case['name']}"
    if name in DEVIATIONS:
        assert answer == DEVIATIONS[name]["answer"]
    elif "approval" in case:
        assert answer == {"approval": case["approval"]}
        assert list(answer["approval"]) == case["approval_key_order"]
    else:
        assert answer == {"error": case["error"]["message"]}


@pytest.mark.parametrize("case", DISPATCHES, ids=lambda case: case["name"])
def test_a_dispatch_ends_as_recorded(case: dict[str, Any]) -> None:
    answer = approval_traces.Dispatching(case).play()
    name = f"dispatch: {case['name']}"
    assert answer == (DEVIATIONS[name]["answer"] if name in DEVIATIONS else approval_traces.recorded_dispatch(case))


@pytest.mark.parametrize("case", DISPATCHES, ids=lambda case: case["name"])
def test_an_async_ledger_ends_a_dispatch_alike(case: dict[str, Any]) -> None:
    assert approval_traces.Dispatching(case, Awaited).play() == approval_traces.Dispatching(case).play()


def test_every_case_is_played_or_named_as_not_applicable() -> None:
    assert len(APPROVALS) + len(DISPATCHES) + len(NOT_APPLICABLE) == len(TRACES["approvals"]) + len(
        TRACES["dispatches"]
    )


def test_every_deviation_is_listed_in_the_documentation_with_its_reason() -> None:
    page = DIFFERENCES_PAGE.read_text(encoding="utf-8")
    for name, deviation in DEVIATIONS.items():
        assert f"| `{name}` | {deviation['why']} |" in page, name
    for name in NOT_APPLICABLE:
        assert f"`{name}`" in page
