"""From a lesson to bytes: what is in them, what never gets in, and what the preflight says of them."""

from __future__ import annotations

import email
import email.policy
import re
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import lxml.html
import pytest

from cadensend.rendering import Citation, Lesson, LessonError, Mailing, Preflight, build_message, preflight
from cadensend.rendering.plaintext import derived_text
from send_once.mail import check, derive_message_id

TO = "ana@example.com"
BODY = """# Salt

Why does *salt* melt ice? See [the phase diagram](https://example.org/salt?a=1&b=2).

| salt | °C |
|------|---:|
| 0 %  |  0 |
| 23 % | -21 |

- one
- two

> A quote.
"""
LESSON = Lesson(
    "Why salt melts ice",
    "A freezing point is an agreement between two phases.",
    BODY,
    (Citation("Atkins, Physical Chemistry", "https://example.org/atkins"), Citation("My own notes")),
)
MAILING = Mailing(
    sender_name="Kitchen, Chemistry",
    sender_address="course@mail.example",
    reader_address=TO,
    reader_name="Ána",
    series_title="Kitchen chemistry",
    reason="You get this because you enrolled on 3 May 2027.",
    list_id="kitchen.courses.mail.example",
    message_id=derive_message_id("k", "mail.example"),
    date=datetime(2027, 5, 3, 5, 30, tzinfo=UTC),
    unsubscribe_url="https://mail.example/u/abc",
    one_click_url="https://mail.example/u/abc/one-click",
)


def flight(lesson: Lesson = LESSON, **changes: Any) -> Preflight:
    mailing = replace(MAILING, **changes)
    message = build_message(lesson, mailing)
    return preflight(message, lesson, to=mailing.reader_address, envelope_from="bounces@mail.example")


def part(raw: bytes, subtype: str) -> str:
    body = email.message_from_bytes(raw, policy=email.policy.default).get_body((subtype,))
    assert body is not None
    return str(body.get_content())


def codes(found: Preflight) -> set[str]:
    return {finding.code for finding in found.findings}


def with_body(body: str) -> Lesson:
    return replace(LESSON, body=body)


def test_the_bytes_have_exactly_these_headers() -> None:
    """A change that drops or doubles one, List-Unsubscribe above all, is seen here and not by a reader."""
    head = flight().raw.partition(b"\r\n\r\n")[0].decode("ascii")
    unfolded = re.sub(r"\r\n[ \t]", " ", head).split("\r\n")
    assert [re.sub(r'boundary="[^"]+"', 'boundary="…"', line) for line in unfolded] == [
        'From: "Kitchen, Chemistry" <course@mail.example>',
        "To: =?utf-8?q?=C3=81na?= <ana@example.com>",
        "Subject: Why salt melts ice",
        "Date: Mon, 03 May 2027 05:30:00 +0000",
        f"Message-ID: {MAILING.message_id}",
        "List-Id: <kitchen.courses.mail.example>",
        "List-Unsubscribe: <https://mail.example/u/abc/one-click>",
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
        "Auto-Submitted: auto-generated",
        "MIME-Version: 1.0",
        'Content-Type: multipart/alternative; boundary="…"',
        "Content-Language: en",
    ]


def test_a_good_lesson_has_no_findings_and_the_same_bytes_each_time() -> None:
    assert flight().findings == ()
    assert flight().may_go
    assert flight().raw == flight().raw


@pytest.mark.parametrize(
    "subject",
    [
        "Pourquoi le sel fait-il fondre la glace, et pourquoi pas en dessous de −21 °C à l'équilibre ? " * 2,
        "为什么盐会融化冰" * 10,
        "🧂❄️➡️💧 " * 12,
        "x" * 180,
        'Quotes " and, commas; <brackets>',
    ],
)
def test_any_subject_arrives_as_it_was_written(subject: str) -> None:
    lesson = replace(LESSON, subject=subject.strip())
    found = flight(lesson)
    assert email.message_from_bytes(found.raw, policy=email.policy.default)["Subject"] == lesson.subject
    assert found.may_go


def test_the_text_twin_reads_as_prose_with_rows_and_addresses() -> None:
    text = part(flight().raw, "plain").replace("\r\n", "\n")
    assert "See the phase diagram <https://example.org/salt?a=1&b=2>." in text
    assert re.search(r"^23 %\s+-21$", text, re.MULTILINE)
    assert "|" not in text
    assert "  * one\n" in text
    assert "Sources:\n1. Atkins, Physical Chemistry <https://example.org/atkins>\n2. My own notes\n" in text
    assert text.endswith(
        "-- \nYou get this because you enrolled on 3 May 2027.\nUnsubscribe: https://mail.example/u/abc\n"
    )


def test_an_author_may_write_the_text_part() -> None:
    text = part(flight(replace(LESSON, text="In short: salt lowers it.")).raw, "plain")
    assert text.startswith("In short: salt lowers it.")
    assert "Unsubscribe: https://mail.example/u/abc" in text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("", ""),
        ("<https://example.org>", "https://example.org"),
        ("[ana@example.org](mailto:ana@example.org)", "ana@example.org"),
        ("[call](tel:+49301234)", "call <tel:+49301234>"),
        ("![a cell](https://example.org/c.png) grows", "[a cell] grows"),
        ("a\n\n\n\nb", "a\n\nb"),
        ("1. one\n2. two", " 1. one\n 2. two"),
    ],
)
def test_markdown_becomes_this_text(markdown: str, text: str) -> None:
    assert derived_text(markdown) == text


@pytest.mark.parametrize(
    "body",
    [
        "<script>alert(1)</script>",
        '<img src=x onerror="alert(1)">',
        "[x](javascript:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "<iframe src=https://evil.example></iframe>",
        "<form action=https://evil.example><input></form>",
        "<style>*{display:none}</style>",
        "<https://evil.example/\"onmouseover='alert(1)'>",
    ],
)
def test_nothing_in_a_lesson_runs_or_submits(body: str) -> None:
    page = lxml.html.fromstring(part(flight(with_body(body)).raw, "html"))
    dangerous = {"script", "iframe", "form", "input", "object", "embed", "base"}
    assert not [element.tag for element in page.iter() if element.tag in dangerous]
    assert not [name for element in page.iter() for name in element.keys() if str(name).startswith("on")]
    targets = [link.get("href") for link in page.iter("a")] + [image.get("src") for image in page.iter("img")]
    assert all(target is None or target.startswith(("https:", "http:", "mailto:", "tel:")) for target in targets)


def test_what_looks_like_a_template_stays_text() -> None:
    found = flight(
        replace(LESSON, body="{{ 7*7 }} and {% debug %}"), reader_name="{{ config }}", series_title="{{ 6*6 }}"
    )
    page = part(found.raw, "html")
    assert "{{ 7*7 }}" in page
    assert "{{ 6*6 }}" in page
    assert "49" not in lxml.html.fromstring(page).text_content()
    assert "placeholder" in codes(found), "though it is worth a look"


def test_names_and_titles_are_escaped() -> None:
    found = flight(
        replace(LESSON, subject="a < b & c"),
        series_title='<b>"x"',
        reason="<i>",
        unsubscribe_url="https://e.x/?a=1&b=2",
    )
    page = lxml.html.fromstring(part(found.raw, "html"))
    assert page.findtext(".//title") == "a < b & c"
    assert not list(page.iter("b"))
    assert not list(page.iter("i"))
    assert "https://e.x/?a=1&b=2" in [link.get("href") for link in page.iter("a")]


def test_a_right_to_left_lesson_says_so_on_html_and_body() -> None:
    page = lxml.html.fromstring(
        part(flight(replace(LESSON, language="ar", body="مرحبا https://example.org")).raw, "html")
    )
    assert [(page.get("lang"), page.get("dir")), (page.find("body").get("lang"), page.find("body").get("dir"))] == [
        ("ar", "rtl"), ("ar", "rtl"),
    ]  # fmt: skip
    assert lxml.html.fromstring(part(flight().raw, "html")).get("dir") == "ltr"


def test_styles_are_inlined_and_those_for_dark_screens_kept() -> None:
    page = part(flight().raw, "html")
    assert re.search(r'<p style="[^"]*margin', page)
    assert "prefers-color-scheme: dark" in page
    assert "<link" not in page
    assert "class=" not in page or "@media" in page


def test_the_preheader_comes_first_and_is_not_seen_in_the_lesson() -> None:
    page = lxml.html.fromstring(part(flight().raw, "html"))
    first = page.find("body")[0]
    assert first.text_content().startswith(LESSON.preheader)
    assert "display: none" in first.get("style")


def test_the_way_out_stands_at_the_top_and_at_the_end() -> None:
    page = part(flight().raw, "html")
    places = [match.start() for match in re.finditer(re.escape(MAILING.unsubscribe_url), page)]
    assert len(places) == 2
    assert places[0] < page.index("Salt</h1>") < places[1]


def test_a_lesson_that_will_be_clipped_is_told_by_its_real_size() -> None:
    found = flight(with_body("\n\n".join(["An ordinary paragraph of the course, in its own words."] * 2000)))
    assert "clipped" in codes(found)
    assert found.html_bytes > 102 * 1024
    assert found.may_go
    assert "clipped" not in codes(flight())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"preheader": ""}, "preheader_missing"),
        ({"preheader": "Short."}, "preheader_length"),
        ({"subject": "s" * 61}, "subject_long"),
        ({"subject": LESSON.preheader}, "preheader_repeats"),
        ({"body": "![](https://example.org/i.png)"}, "image_alt"),
        ({"body": "[x](http://example.org)"}, "link_unsafe"),
        ({"body": "[x](#top)"}, "link_target"),
        ({"body": "TODO: an example"}, "placeholder"),
        ({"body": "Dear {{ name }}"}, "placeholder"),
    ],
)
def test_what_a_person_should_look_at_is_a_warning(changes: dict[str, Any], code: str) -> None:
    found = flight(replace(LESSON, **changes))
    assert code in codes(found)
    assert found.may_go


def test_a_test_message_is_marked_and_no_reader_is_named_but_one() -> None:
    raw = flight(test=True).raw
    parsed = email.message_from_bytes(raw, policy=email.policy.default)
    assert parsed["Subject"] == "[Test] Why salt melts ice"
    assert [parsed[name] for name in ("Cc", "Bcc")] == [None, None]
    assert [address.addr_spec for address in parsed["To"].addresses] == [TO]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"subject": "foo\r\n bar"}, "subject"),
        ({"subject": "x\r\nBcc: thief@example.com"}, "subject"),
        ({"subject": " "}, "subject"),
        ({"subject": "s" * 401}, "subject"),
        ({"preheader": "two\nlines"}, "preheader"),
        ({"body": "nul \0"}, "body"),
        ({"body": "half \ud83d"}, "body"),
        ({"text": "bell \x07"}, "text"),
        ({"language": "English"[:0]}, "language"),
        ({"language": '"><script>'}, "language"),
    ],
)
def test_what_cannot_be_sent_is_refused_when_the_lesson_is_made(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(LessonError) as refused:
        replace(LESSON, **changes)
    assert refused.value.field == field


@pytest.mark.parametrize("address", ["a\r\nBcc: thief@example.com", "a@b\r\n", "a, b@example.com", ""])
def test_an_address_that_would_be_two_or_a_header_is_refused(address: str) -> None:
    with pytest.raises(ValueError):
        flight(reader_address=address)


def test_a_message_that_lost_a_part_or_gained_a_reader_does_not_go() -> None:
    plain = EmailMessage()
    for name, value in build_message(LESSON, MAILING).items():
        if not name.lower().startswith(("content-", "mime-")):
            plain[name] = value
    plain.set_content("only text")
    found = preflight(plain, LESSON, to=TO, envelope_from="bounces@mail.example")
    assert "part_missing" in codes(found)
    assert not found.may_go
    assert [one.code for one in check(found.raw, to="bo@example.com", message=plain)] != []
