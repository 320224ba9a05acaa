"""A caller learns what was normalised, and where one person may have two keys or two persons one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorded import recorded
from send_once import InvalidInputError, describe_recipient, normalise_recipient, send_key

# Two spellings of one person, which the reference and this library give two keys, and the code that says so.
TWO_KEYS_FOR_ONE = [
    ("ana.lee@gmail.com", "analee@gmail.com", "gmail_dots"),
    ("ana+shop@example.com", "ana@example.com", "plus_tag"),
    ("ana@googlemail.com", "ana@gmail.com", "googlemail"),
    ("ana@münchen.de", "ana@xn--mnchen-3ya.de", "idn"),
    ("ana@xn--mnchen-3ya.de", "ana@münchen.de", "punycode"),
    ("Ana <ana@example.com>", "ana@example.com", "display_name"),
    ("<ana@example.com>", "ana@example.com", "angle_brackets"),
    ("mailto:ana@example.com", "ana@example.com", "scheme"),
    ("ana@example.com.", "ana@example.com", "trailing_dot"),
    ("cafe\u0301@example.com", "café@example.com", "unicode_form"),
    ("ａna@example.com", "ana@example.com", "unicode_form"),
    ("a\u200bna@example.com", "ana@example.com", "invisible"),
    ("\u0430na@example.com", "ana@example.com", "mixed_script"),
    ('"ana"@example.com', "ana@example.com", "quoted_local"),
    ("15550100199", "+15550100199", "no_country_code"),
    ("0015550100199", "+15550100199", "international_prefix"),
    ("+49 (0)30 1234567", "+49 30 1234567", "trunk_zero"),
    ("+49 30 123–45–67", "+49 30 1234567", "unusual_dashes"),
    ("tel:+49301234567", "+49 30 1234567", "scheme"),
    ("+٤٩٣٠١٢٣٤٥٦٧", "+49 30 1234567", "unusual_digits"),
    ("+1 555 0100199 x12", "+1 555 0100199", "extension"),
]

# Two recipients that the reference and this library give one key, and the code that warns of it.
ONE_KEY_FOR_TWO = [
    ("-1001234567890", "1001234567890", "minus_removed"),
    ("10.11.12.13", "101.1.12.13", "dots_removed"),
    ("1.2.3.4.5.6.7", "1234567", "dots_removed"),
    ("https://Ana@example.com/A", "https://ana@example.com/a", "case_may_matter"),
    ("@Ana:matrix.org", "@ana:matrix.org", "case_may_matter"),
]


@pytest.mark.parametrize(("spelling", "plain", "code"), TWO_KEYS_FOR_ONE)
def test_a_second_spelling_of_a_person_is_pointed_at(spelling: str, plain: str, code: str) -> None:
    assert normalise_recipient(spelling) != normalise_recipient(plain)
    assert code in describe_recipient(spelling).codes


@pytest.mark.parametrize(("spelling", "other", "code"), ONE_KEY_FOR_TWO)
def test_a_key_that_two_recipients_share_is_pointed_at(spelling: str, other: str, code: str) -> None:
    assert normalise_recipient(spelling) == normalise_recipient(other)
    assert code in describe_recipient(spelling).codes


@pytest.mark.parametrize(
    "to", ["ana@example.com", "+15550100199", "U0123ABC", "chat:-1001234567890", "host:10.1.2.3", "müller@example.com"]
)
def test_a_plain_recipient_needs_no_note(to: str) -> None:
    described = describe_recipient(to)
    assert (described.given, described.normalised, described.notes) == (to, to, ())


@pytest.mark.parametrize(
    ("to", "kind", "codes"),
    [
        (" Ana@Example.com", "email", ("trimmed", "lower_cased")),
        ("+1 (555) 010-0199", "phone", ("punctuation_removed",)),
        ("ana@example.com, bob@example.com", "email", ("several",)),
        ("ana@jabber.org/Home", "other", ("case_may_matter",)),
        ("ana@[IPv6:::1]", "email", ("lower_cased",)),
        ("#general", "other", ()),
        ("12-34", "other", ()),
    ],
)
def test_the_notes_say_what_was_done(to: str, kind: str, codes: tuple[str, ...]) -> None:
    described = describe_recipient(to)
    assert (described.kind, described.codes) == (kind, codes)


def test_a_note_names_the_spelling_to_use() -> None:
    notes = {note.code: note.message for note in describe_recipient("Ana <Ana.Lee+shop@Gmail.com>").notes}
    assert "'Ana.Lee+shop@Gmail.com'" in notes["display_name"]
    assert "'Ana.Lee@gmail.com'" in notes["plus_tag"]
    assert "'AnaLee@gmail.com'" in notes["gmail_dots"]


def test_a_note_shows_hidden_characters_as_escapes() -> None:
    for note in describe_recipient("\x1b[31mAna\u202e <ana@example.com>").notes:
        assert note.message.isprintable()


@pytest.mark.parametrize("to", ["", "  \ufeff", None, 7, b"ana@example.com"])
def test_what_no_key_can_be_made_of_is_refused(to: Any) -> None:
    with pytest.raises(InvalidInputError, match="to must be a non-empty string") as refused:
        describe_recipient(to)
    assert refused.value.field == "to"


@pytest.mark.parametrize(
    "case", [case for case in recorded("send_key")["cases"] if "key" in case], ids=lambda case: case["name"]
)
def test_describing_a_recipient_changes_no_key(case: dict[str, Any]) -> None:
    described = describe_recipient(case["input"]["to"])
    assert described.normalised == normalise_recipient(case["input"]["to"])
    fields = {name: case["input"][name] for name in ("channel", "intent")}
    assert send_key(to=described.given, **fields) == send_key(to=described.normalised, **fields)


@given(st.text(min_size=1) | st.text(alphabet="aZ0@.+-() <>:xn\u0301\u200bаé", min_size=1))
def test_any_text_can_be_described(to: str) -> None:
    try:
        described = describe_recipient(to)
    except InvalidInputError:
        return
    assert described.normalised == normalise_recipient(to)
    assert all(note.message.isprintable() or "\\" in ascii(note.message) for note in described.notes)
