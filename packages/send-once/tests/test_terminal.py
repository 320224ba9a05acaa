"""Stored text on a terminal: nothing in it may act."""

from __future__ import annotations

import io
import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from send_once.terminal import COLUMNS, Console, harmless, harmless_json, printable, utf16_length, wrapped

anything = st.text(st.characters(exclude_categories=()), max_size=40)
REORDERING = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}


def acts(char: str) -> bool:
    return unicodedata.category(char) == "Cc" or unicodedata.bidirectional(char) in REORDERING


@given(anything)
def test_no_stored_text_reaches_the_terminal_with_a_character_that_acts(text: str) -> None:
    assert not any(acts(char) for char in harmless(text))


@given(anything)
def test_json_made_harmless_has_the_same_value(text: str) -> None:
    shown = harmless_json(json.dumps({"text": text}, ensure_ascii=False, indent=2))
    assert not any(acts(char) for char in shown if char != "\n")
    assert json.loads(shown) == {"text": text}


@given(anything)
def test_text_that_is_safe_is_shown_as_it_is(text: str) -> None:
    if not any(acts(char) or unicodedata.category(char) in ("Cf", "Zl", "Zp") for char in text):
        assert harmless(text) == text


@given(st.text(max_size=300))
def test_a_line_is_too_long_only_where_one_word_is(text: str) -> None:
    for line in wrapped(text, "      "):
        assert utf16_length(line) <= COLUMNS or " " not in line.strip(" ")


def test_what_was_escaped_can_still_be_read() -> None:
    assert harmless("k\x1b[2J\nx\x9b\u202e\U000e0041") == r"k\x1b[2J\nx\x9b\u202e\U000e0041"


def test_a_lone_surrogate_is_shown_as_the_replacement_character() -> None:
    out = io.StringIO()
    Console(out, None, {}).out("a\ud800b")
    assert out.getvalue() == "a\ufffdb"
    assert printable("é🎉") == "é🎉"


def test_a_long_complaint_is_wrapped_on_a_terminal_and_whole_elsewhere() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    text = "word " * 30 + "end\n"
    pipe, terminal = io.StringIO(), Terminal()
    Console(None, pipe, {}).err(text)
    Console(None, terminal, {}).err(text)
    assert pipe.getvalue() == text
    assert max(map(len, terminal.getvalue().splitlines())) <= COLUMNS
    assert terminal.getvalue().split() == text.split()


def test_a_closed_stream_swallows_what_is_written() -> None:
    Console(None, None, {}).out("text")
