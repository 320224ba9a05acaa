"""Addresses, domains and Message-IDs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from send_once import InvalidInputError
from send_once.mail import derive_message_id
from send_once.mail.addresses import envelope_address
from send_once.mail.domains import ascii_domain

MSG_ID = re.compile(
    r"<[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*>"
)


@pytest.mark.parametrize(
    ("domain", "wire"),
    [
        ("Example.COM", "Example.COM"),
        ("localhost", "localhost"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("bu\u0308cher.example", "xn--bcher-kva.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("faß.de", "xn--fa-hia.de"),
        ("grå.no", "xn--gr-zia.no"),
        ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
        ("пример.испытание", "xn--e1afmkfd.xn--80akhbyknj4f"),
        ("مثال.إختبار", "xn--mgbh0fb.xn--kgbechtv"),
        ("नमस्ते.भारत", "xn--h2bhs4b8d8a.xn--h2brj9c"),
        ("क्‍ष.in", "xn--11b2ezcw70k.in"),
        ("한국.kr", "xn--3e0b707e.kr"),
    ],
)
def test_a_domain_goes_out_as_a_labels(domain: str, wire: str) -> None:
    """B115. `straße` is not `strasse`: another domain, which Python's own codec would give."""
    assert ascii_domain(domain, field="to") == wire


@pytest.mark.parametrize(
    "domain",
    [
        "",
        ".",
        "a..b",
        ".a",
        "a.",
        "-a.com",
        "a-.com",
        "a b.com",
        "a\n.com",
        "a_b.com",
        "☃.net",
        "\u0301a.com",
        "a\u200db.com",
        "x" * 64 + ".com",
        ".".join(["x" * 60] * 5),
        "a@b",
        "[1.2.3.4]",
        "-ü.com",
        "ab--ü.com",
        "💌.example",
    ],
)
def test_what_is_no_domain_is_refused_by_name(domain: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        ascii_domain(domain, field="to")
    assert caught.value.field == "to"


@pytest.mark.parametrize(
    ("given_", "wire"),
    [
        ("ana@example.com", "ana@example.com"),
        ("Ana.B+tag@Example.com", "Ana.B+tag@Example.com"),
        ("info@bücher.example", "info@xn--bcher-kva.example"),
        ("grå@grå.no", "grå@xn--gr-zia.no"),
        ("почта@bücher.example", "почта@xn--bcher-kva.example"),
        ('"a b"@example.com', '"a b"@example.com'),
        ('"a@b"@example.com', '"a@b"@example.com'),
        ("ana@[127.0.0.1]", "ana@[127.0.0.1]"),
        ("ana@[IPv6:::1]", "ana@[IPv6:::1]"),
        ("o'brien@example.com", "o'brien@example.com"),
    ],
)
def test_only_the_domain_of_an_address_is_converted(given_: str, wire: str) -> None:
    """B116: a converted local part is another mailbox."""
    assert str(envelope_address(given_, field="to")) == wire


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ana",
        "@example.com",
        "ana@",
        "Ana <ana@example.com>",
        "<ana@example.com>",
        "a@x.com, b@y.com",
        "a@x.com b@y.com",
        "ana@example.com\r\nDATA",
        "a\r\nb@example.com",
        "ana@example.com\n",
        "a b@example.com",
        "a..b@example.com",
        ".a@example.com",
        "a@b@example.com",
        "a\x00b@example.com",
        "x" * 65 + "@example.com",
        "ana@[nowhere]",
        "ana@example.com> SIZE=1",
        '"a"b@x.com',
        "a\u2028b@example.com",
        "\udc80@example.com",
        7,
        None,
    ],
)
def test_what_is_not_one_bare_address_is_refused_by_name(text: str) -> None:
    """B125: nothing that reaches the server can hold a line break or a second address."""
    with pytest.raises(InvalidInputError) as caught:
        envelope_address(text, field="to")
    assert caught.value.field == "to"


@given(st.text(max_size=60))
def test_no_accepted_address_can_break_a_command(text: str) -> None:
    try:
        address = str(envelope_address(text, field="to"))
    except InvalidInputError:
        return
    assert not re.search(r"[\x00-\x1f\x7f]", address)
    outside_quotes = re.sub(r'"(?:[^"\\]|\\.)*"', "", address)
    assert not re.search(r"[<> ]", outside_quotes)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_message_id_is_a_valid_msg_id_whatever_the_key(key: str) -> None:
    made = derive_message_id(key, "Bücher.example")
    assert MSG_ID.fullmatch(made)
    assert made.endswith("@xn--bcher-kva.example>")


def test_a_message_id_is_the_same_in_every_process_and_version() -> None:
    made = derive_message_id("c144ec0f", "mail.example.com")
    assert made == "<cb0fe793c6ef24a6f58d253bde02a534dcd6bb64@mail.example.com>"
    code = "from send_once.mail import derive_message_id as d; print(d('c144ec0f', 'MAIL.example.com'))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == made
    )


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8"), min_size=1))
def test_two_keys_have_two_message_ids(one: str, other: str) -> None:
    assert (derive_message_id(one, "x.com") == derive_message_id(other, "x.com")) == (one == other)


def test_nothing_of_the_key_can_be_read_in_the_message_id() -> None:
    assert "ana" not in derive_message_id("welcome:ana@example.org", "x.com")


@pytest.mark.parametrize(
    ("key", "domain", "field"),
    [
        ("", "x.com", "key"),
        (None, "x.com", "key"),
        ("\udc80", "x.com", "key"),
        ("k", "", "domain"),
        ("k", None, "domain"),
        ("k", "a@b", "domain"),
        ("k", "x.com>\r\nBcc: y@z", "domain"),
    ],
)
def test_a_message_id_from_bad_input_is_refused_by_name(key: str, domain: str, field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        derive_message_id(key, domain)
    assert caught.value.field == field
