"""Headers as they go out: what the caller meant arrives, whole, and no line trips a server.

Rows of public reports (B…) are inputs here. Read back by the standard library's older decoder, which
our own code does not use, and by eye on the raw lines.
"""

from __future__ import annotations

import re
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import getaddresses

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mail.samples import FROM, TO, message
from send_once import InvalidInputError
from send_once.mail import check, render

WORD = re.compile(r"=\?[^?\s]+\?[bBqQ]\?[^?\s]*\?=")
LONG_URL = "<https://example.com/unsubscribe/" + "a1b2c3d4" * 30 + "?reader=1&list=2>, <mailto:leave@example.com>"
FRENCH = (
    "Voici le résumé de la leçon numéro trois où l'élève découvre les déterminants possessifs, à réviser avant l'été "
    "prochain, très précisément expliqué pour être étudié à côté de la fenêtre éclairée"
)


def rendered(sent: EmailMessage, *, to: str = TO) -> bytes:
    """The bytes, which must also pass the check without an error."""
    raw = render(sent, to=to, envelope_from=FROM)
    assert [finding for finding in check(raw, to=to, message=sent) if finding.severity == "error"] == []
    return raw


def lines_of(raw: bytes, name: str) -> list[str]:
    head = raw.partition(b"\r\n\r\n")[0].decode()
    (field,) = re.findall(rf"^{re.escape(name)}:[^\r\n]*(?:\r\n[ \t][^\r\n]*)*", head, re.MULTILINE)
    return str(field).split("\r\n")


def unfolded(raw: bytes, name: str) -> str:
    return "".join(lines_of(raw, name)).partition(":")[2].removeprefix(" ")


def decoded(raw: bytes, name: str) -> str:
    """By the standard library's older code, which knows nothing of ours."""
    return str(make_header(decode_header(unfolded(raw, name))))


def names_and_addresses(raw: bytes, name: str) -> list[tuple[str, str]]:
    """Split first, decoded after (B120)."""
    pairs = getaddresses([unfolded(raw, name)])
    return [(str(make_header(decode_header(shown))), spec) for shown, spec in pairs]


def check_lines(lines: list[str]) -> None:
    for line in lines:
        words = list(WORD.finditer(line))
        assert len(line.encode()) <= 998
        assert not words or len(line) <= 76
        for word in words:
            assert len(word.group()) <= 75
            assert line[word.start() - 1] in " ("
            assert line[word.end() : word.end() + 1] in ("", " ", ")")
            make_header(decode_header(word.group())).encode()  # each stands for itself: no character is cut


subjects = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=300)


@given(subjects)
@example(FRENCH)
@example("ASCII subject of 180 chars " + "x" * 153)
@example("word " * 36)
@example("  leading and trailing  ")
@example("é  two  spaces  é")
@example("é é é")
@example("a\tb")
@example("👩‍👩‍👧 " * 40)
@example("e\u0301" * 100)
@example("=?utf-8?q?not?= =?")
@example("? =?x")
@settings(deadline=None)
def test_any_subject_arrives_unchanged_on_lawful_lines(subject: str) -> None:
    """B128, B130: long ones, those whose accents meet the fold, those that look encoded."""
    sent = message(Subject=subject)
    raw = rendered(sent)
    check_lines(lines_of(raw, "Subject"))
    assert decoded(raw, "Subject") == str(sent["Subject"])


def test_a_long_ascii_subject_is_not_encoded() -> None:
    """B128: one of 180 characters, with and without spaces."""
    for subject in ("x" * 180, "word " * 35 + "word"):
        assert unfolded(rendered(message(Subject=subject)), "Subject") == subject


def test_encoded_words_never_touch() -> None:
    """B130: a large provider answers 554."""
    for cut in range(60, len(FRENCH)):
        raw = rendered(message(Subject=FRENCH[:cut]))
        assert b"?==?" not in raw
        check_lines(lines_of(raw, "Subject"))


def test_no_encoded_word_separates_a_letter_from_its_marks() -> None:
    """B138, for headers: each word is shown by itself in some mail programs."""
    for count in range(12):
        for cluster in ("e\u0301", "👩‍👩‍👧"):
            for line in lines_of(rendered(message(Subject="x" * count + cluster * 60)), "Subject"):
                for word in WORD.finditer(line):
                    assert str(make_header(decode_header(word.group())))[0] in ("x", cluster[0])


NAMES = [
    "Doe, Jane",
    "Support (Billing)",
    "Éxample, Inc. (Dev)",
    'Éxample, Inc. (Dev) "q"',
    'say "hi" \\ there',
    "刘示例",
    "J. Doe",
    "a@example.com",
    "Ünïcode " * 14 + "end",
    "x" * 200,
    "word " * 40 + "end",
    "=?utf-8?q?looks?=",
    "O'Brien; team: x <y>",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("field", ["From", "To", "Reply-To"])
def test_a_display_name_survives(name: str, field: str) -> None:
    """B119, B121, B122: commas, parentheses, quotes, accents, an address as a name."""
    sent = message(**{field.replace("-", "_"): Address(name, addr_spec=TO)})
    raw = rendered(sent)
    check_lines(lines_of(raw, field))
    assert names_and_addresses(raw, field) == [(sent[field].addresses[0].display_name, TO)]
    assert f"<{TO}>" in unfolded(raw, field)


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=120)


@given(names)
@settings(deadline=None)
def test_any_display_name_arrives_or_is_refused(name: str) -> None:
    try:
        sent = message(From=Address(name, addr_spec=FROM))
        raw = render(sent, to=TO, envelope_from=FROM)
    except (InvalidInputError, IndexError):  # the standard library cannot hold every name (IndexError)
        return
    findings = [finding for finding in check(raw, to=TO, message=sent) if finding.severity == "error"]
    assert findings == [] or {finding.header for finding in findings} == {"From"}
    check_lines(lines_of(raw, "From"))
    if not findings:
        assert names_and_addresses(raw, "From") == [(sent["From"].addresses[0].display_name, FROM)]


def test_a_name_without_quotes_that_holds_a_comma_is_refused_with_the_remedy() -> None:
    """B119: as text it is two addresses, the first of them broken."""
    with pytest.raises(InvalidInputError, match="Address\\(display_name=") as caught:
        render(message(From="Doe, Jane <a@example.com>"), to=TO, envelope_from=FROM)
    assert caught.value.field == "From"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Support (Billing) <a@example.com>", "Support (Billing)"),
        ("Zoë (Büro) <a@example.com>", "Zoë (Büro)"),
        ("a@example.com (Ana)", "Ana"),
        ('"Support (Billing)" <a@example.com>', "Support (Billing)"),
        ("=?utf-8?q?Support_=28Billing=29?= <a@example.com>", "Support (Billing)"),
    ],
)
def test_a_comment_beside_a_name_does_not_vanish(text: str, name: str) -> None:
    """B119: parentheses vanish silently elsewhere."""
    raw = rendered(message(Reply_To=text))
    assert names_and_addresses(raw, "Reply-To") == [(name, "a@example.com")]


def test_comments_of_several_addresses_stay_with_theirs() -> None:
    raw = rendered(message(Reply_To='"X, Y" <x@example.com>, Ana (Sales) <a@example.com>, b@example.com (Bo)'))
    assert names_and_addresses(raw, "Reply-To") == [
        ("X, Y", "x@example.com"),
        ("Ana (Sales)", "a@example.com"),
        ("Bo", "b@example.com"),
    ]


def test_an_encoded_comma_does_not_split_an_address() -> None:
    """B120."""
    raw = rendered(message(From="=?ISO-8859-1?Q?Doe=2C_Jane?= <jane@example.com>"))
    assert names_and_addresses(raw, "From") == [("Doe, Jane", "jane@example.com")]


def test_only_the_name_is_encoded_and_never_the_address() -> None:
    """B122."""
    assert unfolded(rendered(message(From="刘示例 <a@example.com>")), "From").endswith(" <a@example.com>")


def test_an_international_domain_is_an_a_label_in_headers_too() -> None:
    """B115, B116: the standard policies write an encoded word inside the address."""
    raw = rendered(message(To="Info <info@bücher.example>"), to="info@bücher.example")
    assert unfolded(raw, "To") == "Info <info@xn--bcher-kva.example>"


def test_a_local_part_that_is_not_ascii_stays_as_it_is() -> None:
    """B116, B117."""
    to = "почта@bücher.example"
    assert unfolded(rendered(message(To=to), to=to), "To") == "почта@xn--bcher-kva.example"


def test_groups_survive() -> None:
    raw = rendered(message(To='Team: ana@example.com, "X, Y" <x@example.com>;, z@example.com'))
    assert unfolded(raw, "To") == 'Team: ana@example.com, "X, Y" <x@example.com>;, z@example.com'
    hidden = message(To="undisclosed-recipients:;", Bcc=TO)
    assert unfolded(rendered(hidden), "To") == "undisclosed-recipients:;"


def test_list_unsubscribe_stays_raw_and_whole() -> None:
    """Gmail ignores one-click in an encoded header; folding it has broken DKIM signatures (B142)."""
    raw = rendered(message(List_Unsubscribe=LONG_URL, List_Unsubscribe_Post="List-Unsubscribe=One-Click"))
    assert f"\r\nList-Unsubscribe: {LONG_URL}\r\n".encode() in raw
    assert b"\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n" in raw


def test_a_list_unsubscribe_that_cannot_stay_raw_is_refused() -> None:
    for url in ("<https://bücher.example/u>", "<https://example.com/" + "x" * 1000 + ">"):
        sent = message(List_Unsubscribe=url)
        with pytest.raises(InvalidInputError) as caught:
            raw = render(sent, to=TO, envelope_from=FROM)
            from send_once.mail.message import refuse_errors

            refuse_errors(check(raw, to=TO, message=sent))
        assert caught.value.field == "List-Unsubscribe"


def test_references_are_broken_between_ids_only() -> None:
    ids = [f"<{n:040d}@example.com>" for n in range(30)]
    raw = rendered(message(References=" ".join(ids), In_Reply_To=ids[-1]))
    assert unfolded(raw, "References").split(" ") == ids
    assert all(len(line) <= 76 for line in lines_of(raw, "References"))


def test_a_long_message_id_stays_whole() -> None:
    long = "<" + "a" * 200 + "@example.com>"
    assert unfolded(rendered(message(Message_ID=long)), "Message-ID") == long


@pytest.mark.parametrize("name", ["résumé.pdf", "a b.pdf", "plain.pdf", 'q"\\.pdf', "très long " * 20 + ".pdf"])
def test_a_file_name_survives(name: str) -> None:
    sent = message()
    sent.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename=name)
    raw = rendered(sent)
    (attachment,) = message_from_bytes(raw, policy=policy.default).iter_attachments()
    assert attachment.get_filename() == name
    assert all(len(line) <= 100 for line in raw.split(b"\r\n"))


def test_a_file_name_that_was_already_misread_is_refused() -> None:
    """The standard library decodes it where nothing may be decoded, and says so in a defect."""
    sent = message()
    sent.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="=?utf-8?q?x?=.pdf")
    with pytest.raises(InvalidInputError) as caught:
        render(sent, to=TO, envelope_from=FROM)
    assert caught.value.field == "Content-Disposition"


# What would become another header, or another recipient.


@pytest.mark.parametrize("name", ["X-A\r\nBcc", "X-A: b\r\nBcc", "X A", "X-A:", "", "X-Ä", "X\tA"])
def test_a_header_name_cannot_inject_a_header(name: str) -> None:
    """Python 3.11 takes any name, line breaks included."""
    sent = message()
    sent._headers.append((name, "thief@example.com"))  # type: ignore[attr-defined]  # as an unchecked writer leaves it
    with pytest.raises(InvalidInputError, match="header name"):
        render(sent, to=TO, envelope_from=FROM)


@pytest.mark.parametrize(
    "value",
    [
        "foo\r\n bar\r\nBcc: x@y.com",
        "foo\nBcc: x@y.com",
        "foo\rBcc: x@y.com",
        "a\x00b",
        "a\x0bb",
        "a\x7fb",
        "foo\r\n\r\nbody",
        "a\u2028b",
        "a\x85b",
    ],
)
@pytest.mark.parametrize("name", ["Subject", "From", "List-Unsubscribe", "X-Note", "Content-Type"])
def test_a_header_value_cannot_inject_a_header(name: str, value: str) -> None:
    """B125, B126: whatever the library in between let through."""
    sent = message()
    sent._headers = [pair for pair in sent._headers if pair[0] != name]  # type: ignore[attr-defined]  # see above
    sent._headers.append((name, value))  # type: ignore[attr-defined]  # see above
    with pytest.raises(InvalidInputError) as caught:
        render(sent, to=TO, envelope_from=FROM)
    assert caught.value.field == name


def test_a_folded_value_of_a_parsed_message_is_no_injection() -> None:
    """B126, the other half: a stored header with a fold in it is read and sent as one line."""
    raw = render(message(), to=TO, envelope_from=FROM).replace(b"Your invoice", b"Your\r\n invoice")
    stored = message_from_bytes(raw, policy=policy.default)
    assert unfolded(rendered(stored), "Subject") == "Your invoice"


def test_an_address_part_with_a_line_break_is_refused() -> None:
    """B125: an Address checks itself; one put together around the check does not get through either."""

    class Unchecked(Address):
        def __init__(self) -> None:
            self._display_name = ""
            self._username = "a\r\nBcc: thief@example.com"
            self._domain = "example.com"

    sent = message()
    header = policy.default.header_factory("To", "x@example.com")
    header._groups = (type(header.groups[0])(None, (Unchecked(),)),)
    header._addresses = None
    sent.replace_header("To", header)
    with pytest.raises(InvalidInputError) as caught:
        render(sent, to=TO, envelope_from=FROM)
    assert caught.value.field == "To"


@pytest.mark.parametrize(
    "value", ["ana@example.com junk", "Ana <a@example.com", "a@b@c.d", "@b", "Ana a@example.com", "a..b@example.com"]
)
def test_a_malformed_address_header_is_refused_not_guessed_at(value: str) -> None:
    """The standard library drops what it cannot place; then a recipient is another, or gone."""
    with pytest.raises(InvalidInputError) as caught:
        render(message(Cc=value), to=TO, envelope_from=FROM)
    assert caught.value.field == "Cc"


def test_a_header_of_undecodable_octets_is_refused() -> None:
    raw = render(message(), to=TO, envelope_from=FROM).replace(b"Your invoice", b"Your inv\xffice")
    with pytest.raises(InvalidInputError, match="UTF-8") as caught:
        render(message_from_bytes(raw, policy=policy.default), to=TO, envelope_from=FROM)
    assert caught.value.field == "Subject"


def test_adjacent_encoded_words_of_a_parsed_message_are_read_as_one_text() -> None:
    """Python 3.11 reads a space between them into a display name."""
    raw = render(message(), to=TO, envelope_from=FROM)
    raw = raw.replace(
        b"From: app@example.com", b"From: =?utf-8?q?J=C3?=\r\n =?utf-8?q?=BCrgen_?=\r\n =?utf-8?q?M?= <app@example.com>"
    )
    assert names_and_addresses(rendered(message_from_bytes(raw, policy=policy.default)), "From") == [("Jürgen M", FROM)]
