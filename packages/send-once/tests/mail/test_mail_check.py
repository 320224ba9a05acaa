"""The check of a message's bytes: it sees what was tampered with, and what other writers do wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mail.samples import TO, codes, findings_of, message, raw_of
from send_once.mail import check


def replaced(old: str, new: str) -> bytes:
    raw = raw_of(message())
    assert old.encode() in raw
    return raw.replace(old.encode(), new.encode())


TAMPERED: dict[str, tuple[Callable[[], bytes], tuple[str, str | None]]] = {
    "a header too many": (lambda: replaced("Subject:", "Bcc: x@y.com\r\nSubject:"), ("hidden_header", "bcc")),
    "an injected header": (lambda: replaced("Subject:", "X-New: 1\r\nSubject:"), ("injected_header", "X-New")),
    "a header twice": (lambda: replaced("Subject:", "Subject: other\r\nSubject:"), ("duplicate_header", "subject")),
    "a lost header": (lambda: replaced("Subject: Your invoice\r\n", ""), ("lost_header", "Subject")),
    "a changed header": (lambda: replaced("Your invoice", "Your Invoice"), ("changed_header", "Subject")),
    "a changed address": (lambda: replaced("To: ana@", "To: eve@"), ("changed_header", "To")),
    "a changed type": (lambda: replaced("text/plain", "text/html"), ("changed_header", "Content-Type")),
    "a lone LF": (lambda: replaced("Invoice 1042", "Invoice\n1042"), ("bare_line_end", None)),
    "a lone CR": (lambda: replaced("Invoice 1042", "Invoice\r1042"), ("bare_line_end", None)),
    "a NUL": (lambda: replaced("Invoice 1042", "Invoice\0 1042"), ("nul", None)),
    "a changed body": (lambda: replaced("Invoice 1042", "Invoice 1043"), ("changed_body", None)),
    "a long body line": (lambda: replaced("Invoice 1042", "x" * 999), ("long_line", None)),
    "a long header line": (lambda: replaced("Your invoice", "x" * 999), ("long_line", "Subject")),
    "an empty fold": (lambda: replaced("Your invoice", "Your\r\n \r\n invoice"), ("blank_line", "Subject")),
    "no header": (lambda: replaced("Subject:", "Subject"), ("broken_header", None)),
    "a second body": (lambda: replaced("Subject:", "\r\nSubject:"), ("lost_header", "Subject")),
    "an empty From": (lambda: replaced("From: app@example.com", "From: "), ("empty_header", "From")),
    "a broken Message-ID": (lambda: replaced("Message-ID: <", "Message-ID: "), ("message_id", "Message-ID")),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_the_check_sees(name: str) -> None:
    make, wanted = TAMPERED[name]
    assert wanted in findings_of(make())


LONG_URL = "<https://example.com/u/" + "a" * 90 + "?x=1>"
FRENCH = "Voici le résumé de la leçon numéro trois où l'élève découvre les déterminants"
AS_PYTHON_3_11_WRITES = {
    "a URL turned into encoded words": (
        "List-Unsubscribe",
        LONG_URL,
        (
            "=?utf-8?q?=3Chttps=3A//example=2Ecom/u/aaaaaaaaaaaaaaaaaaa?=\r\n "
            "=?utf-8?q?aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa?=\r\n =?utf-8?q?aaaaaa=3Fx=3D1=3E?="
        ),
        "changed_header",
    ),
    "an encoded word of 280 characters": (
        "Subject",
        FRENCH,
        (
            "Voici le =?utf-8?b?csOpc3Vtw6kgZGUgbGEgbGXDp29uIG51bcOpcm8gdHJvaXMgb8O5IGwnw6lsw6h2ZSBkw6ljb3V2cmUgbGVz"
            "IGTDqXRlcm1pbmFudHM=?="
        ),
        "encoded_word",
    ),
    "two encoded words that touch": ("Subject", "é è", "=?utf-8?q?=C3=A9?==?utf-8?q?_=C3=A8?=", "encoded_word"),
    "a character cut in two": ("Subject", "é", "=?utf-8?q?=C3?=\r\n =?utf-8?q?=A9?=", "encoded_word"),
    "an encoded word inside an address": (
        "Cc",
        "info@bücher.example",
        "info@=?utf-8?q?b=C3=BCcher?=.example",
        "encoded_word",
    ),
    "a name whose comma lost its quotes": (
        "Cc",
        "=?ISO-8859-1?Q?Doe=2C_Jane?= <jane@example.com>",
        "Doe, Jane <jane@example.com>",
        "changed_header",
    ),
    "leading space lost": ("X-Note", "  two", "two", "changed_header"),
}


@pytest.mark.parametrize("name", AS_PYTHON_3_11_WRITES)
def test_the_check_sees_what_the_standard_policies_do_wrong(name: str) -> None:
    """As Python 3.11 writes these headers (the touching words: as later versions do, cpython 144156)."""
    header, value, written, code = AS_PYTHON_3_11_WRITES[name]
    sent = message(**{header.replace("-", "_"): value})
    ours = raw_of(sent)
    assert findings_of(ours, sent) == set()
    others = {key: text for key, text in sent.items() if key != header}
    head = "".join(f"{key}: {text}\r\n" for key, text in [*others.items(), (header, written)])
    assert (code, header) in findings_of(head.encode() + b"\r\n" + ours.partition(b"\r\n\r\n")[2], sent)


def test_the_check_sees_quoted_printable_lines_beyond_76() -> None:
    sent = message()
    sent.set_content("é" + "x" * 100 + "\n", cte="quoted-printable")
    raw = raw_of(sent)
    head, _, _ = raw.partition(b"\r\n\r\n")
    assert ("long_encoded_line", None) in findings_of(head + b"\r\n\r\n=C3=A9" + b"x" * 100 + b"\r\n", sent)


@pytest.mark.parametrize("name", ["From", "To", "Date", "Message-ID", "Subject", "MIME-Version"])
def test_a_required_header_that_is_missing_is_named(name: str) -> None:
    sent = message()
    del sent[name]
    found = check(raw_of(sent), to=TO, message=sent)
    assert ("missing_header", name) in codes(found)


def test_the_recipient_must_be_named_in_the_message() -> None:
    """Else the envelope and the message were mixed up, and someone reads another's mail."""
    assert ("recipient", "To") in findings_of(raw_of(message()), to="eve@example.com")
    for name in ("Cc", "Bcc"):
        sent = message(**{name: "Eve <EVE@example.com>"})
        assert ("recipient", "To") in findings_of(raw_of(sent), sent, to="eve@example.com")
        assert findings_of(raw_of(sent), sent, to="EVE@Example.Com") == set()


def test_other_recipients_are_pointed_out() -> None:
    sent = message(Cc="bo@example.com")
    (finding,) = check(raw_of(sent), to=TO, message=sent)
    assert (finding.severity, finding.code) == ("warning", "other_recipients")
    assert "bo@example.com" in finding.message


def test_several_authors_need_a_sender() -> None:
    sent = message(From="a@example.com, b@example.com")
    assert ("sender", "Sender") in findings_of(raw_of(sent), sent)
    sent["Sender"] = "a@example.com"
    assert findings_of(raw_of(sent), sent) == set()


def test_one_click_needs_an_https_address() -> None:
    sent = message(List_Unsubscribe="<mailto:x@example.com>", List_Unsubscribe_Post="List-Unsubscribe=One-Click")
    assert ("one_click", "List-Unsubscribe") in findings_of(raw_of(sent), sent)
