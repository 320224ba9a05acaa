"""The key of a send is the reference's key, whatever the input."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import unicodedata
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_engine import ask_node, needs_node
from recorded import documented_deviations, recorded, value_of
from send_once import InvalidInputError, normalise_recipient, send_key
from send_once.jstext import JS_SPACES, js_lower, js_trim

RECORDED = recorded("send_key")
REQUIRED = ("channel", "to", "intent")

# Each of these is a row in docs/explanation/deviations-text.md.
DEVIATIONS = {
    "window bigint": "a Python integer is a number, whatever its size",
    "extra fields ignored": "an unknown keyword is a mistake to be shown",
    "input null": "no object is passed, but keywords",
    "input string": "no object is passed, but keywords",
    "input number": "no object is passed, but keywords",
    "input array": "no object is passed, but keywords",
    "input undefined": "no object is passed, but keywords",
    "input true": "no object is passed, but keywords",
    "input empty object": "Python itself names the missing keywords",
    "missing channel": "Python itself names the missing keyword",
    "missing to": "Python itself names the missing keyword",
    "missing intent": "Python itself names the missing keyword",
}
CASES = [case for case in RECORDED["cases"] if case["name"] not in DEVIATIONS]
DEVIATING = {case["name"]: case for case in RECORDED["cases"] if case["name"] in DEVIATIONS}


def arguments(case: dict[str, Any]) -> dict[str, Any]:
    return {name: value_of(value) for name, value in case["input"].items()}


def test_all_recorded_cases_are_here() -> None:
    assert len(RECORDED["cases"]) == 269
    assert len(CASES) + len(DEVIATIONS) == 269
    assert set(DEVIATING) == set(DEVIATIONS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_key_is_the_references_key(case: dict[str, Any]) -> None:
    if "error" not in case:
        assert send_key(**arguments(case)) == case["key"]
        assert hashlib.sha256(case["hashed_text"].encode()).hexdigest() == case["key"]
        return
    with pytest.raises(InvalidInputError) as refused:
        send_key(**arguments(case))
    assert str(refused.value).startswith(case["error"]["message"])
    assert refused.value.field in case["error"]["message"]


def test_every_deviation_is_in_the_docs() -> None:
    assert documented_deviations("send_key.json") == set(DEVIATIONS)


def test_deviation_a_large_integer_window_is_a_number() -> None:
    assert send_key(channel="email", to="a@b.co", intent="x", window=7) == send_key(
        channel="email", to="a@b.co", intent="x", window="7"
    )


@pytest.mark.parametrize("name", [name for name in DEVIATIONS if name != "window bigint"])
def test_deviation_what_is_not_the_three_keywords_is_a_type_error(name: str) -> None:
    given_input = value_of(DEVIATING[name]["input"])
    with pytest.raises(TypeError, match="argument"):
        if isinstance(given_input, dict):
            send_key(**given_input)
        else:
            send_key(given_input)  # type: ignore[call-arg]  # the mistake under test


@pytest.mark.parametrize("case", RECORDED["normalise_recipient"], ids=lambda case: ascii(case["to"]))
def test_a_recipient_is_normalised_as_the_reference_does(case: dict[str, str]) -> None:
    assert normalise_recipient(case["to"]) == case["normalised"]


def test_the_example_of_the_documentation_holds() -> None:
    key = send_key(channel="email", to="Ana@Example.com ", intent="invoice-reminder:inv_1042")
    assert key == "c144ec0f862ccfbe5f080cf5f7e88c631b68676ba781c38c64fa58c374ce3045"


def test_space_is_what_the_references_runtime_calls_space() -> None:
    listed = {int(point.removeprefix("U+"), 16) for point in RECORDED["trim_and_regex_space_code_points"]}
    assert {ord(char) for char in JS_SPACES} == listed
    assert {point for point in range(0x110000) if js_trim(chr(point)) == ""} == listed


def test_letters_newer_than_this_python_have_a_lower_case_too() -> None:
    pairs = [
        [chr(int(point.removeprefix("U+"), 16)) for point in pair]
        for pair in RECORDED["lower_case_pairs_newer_than_unicode_14"]
    ]
    assert len(pairs) == 55
    assert [js_lower(upper) for upper, _ in pairs] == [lower for _, lower in pairs]
    assert [js_lower(lower) for _, lower in pairs] == [lower for _, lower in pairs]


@pytest.mark.parametrize("window", [True, False, float("nan"), float("inf"), 10**400, "", " \ufeff", b"7", ["a"]])
def test_a_window_that_names_no_time_is_refused(window: Any) -> None:
    with pytest.raises(InvalidInputError, match="window must be a non-empty string") as refused:
        send_key(channel="email", to="a@b.co", intent="x", window=window)
    assert refused.value.field == "window"


@pytest.mark.parametrize("window", [date(2026, 9, 27), datetime(2026, 9, 27, tzinfo=UTC)])
def test_a_date_as_window_is_refused_with_the_remedy(window: Any) -> None:
    with pytest.raises(InvalidInputError, match="isoformat"):
        send_key(channel="email", to="a@b.co", intent="x", window=window)
    assert send_key(channel="email", to="a@b.co", intent="x", window=window.isoformat())


@pytest.mark.parametrize("to", [None, 7, b"a@b.co", ["a@b.co"]])
def test_a_recipient_that_is_no_text_is_refused(to: Any) -> None:
    with pytest.raises(InvalidInputError) as refused:
        normalise_recipient(to)
    assert refused.value.field == "to"


@given(st.text())
def test_normalising_twice_changes_nothing(to: str) -> None:
    once = normalise_recipient(to)
    assert normalise_recipient(once) == once


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_any_text_has_a_key_or_a_typed_refusal(channel: str, to: str, intent: str) -> None:
    try:
        key = send_key(channel=channel, to=to, intent=intent)
    except InvalidInputError as refused:
        assert refused.field in REQUIRED
    else:
        assert len(key) == 64


def test_the_key_does_not_depend_on_the_process() -> None:
    program = (
        "from send_once import send_key; print(send_key(channel='email', to='Ana@Example.com', intent='x', window=7))"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "LC_ALL": locale},
        ).stdout
        for seed, locale in (("1", "C"), ("2", "C.UTF-8"))
    }
    assert keys == {send_key(channel="email", to="Ana@Example.com", intent="x", window=7) + "\n"}


@needs_node
def test_lower_case_agrees_with_the_runtime_on_every_character() -> None:
    planes = [[plane * 0x10000, (plane + 1) * 0x10000] for plane in range(17)]
    changed = "([first, end]) => Array.from({length: end - first}, (_, i) => String.fromCodePoint(first + i))"
    answers = ask_node(
        f"(plane) => ({changed})(plane).map((c) => [c, c.toLowerCase()]).filter(([c, l]) => c !== l)", planes
    )
    theirs = {char: lower for answer in answers for char, lower in answer}
    assert len(theirs) > 1_400
    differing = [
        f"U+{point:04X}"
        for point in range(0x110000)
        if js_lower(chr(point)) != theirs.get(chr(point), chr(point))
        # A character that this Python does not know yet is compared by the recorded pairs above.
        and unicodedata.category(chr(point)) != "Cn"
    ]
    assert differing == []


@needs_node
def test_a_final_sigma_is_lower_cased_as_the_runtime_does() -> None:
    pieces = ["Σ", "ΑΣ", "ΣΑ", "Α.Σ", "Α\u00adΣ", "ΑΣ\u0301", "ΑΣ.", "ΑΣ'Β", "1Σ", "ΑΣ ΣΑ", "İΣ", "ΑΣ@X.IO", "ΣΣ@ΣΣ"]
    texts = pieces + [first + second for first in pieces for second in pieces]
    assert [js_lower(text) for text in texts] == ask_node("(text) => text.toLowerCase()", texts)
