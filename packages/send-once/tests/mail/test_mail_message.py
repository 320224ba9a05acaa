"""The message as bytes: its set of headers, its bodies, and the check that reads them back."""

from __future__ import annotations

import copy
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from email.mime.text import MIMEText
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mail.samples import DATE, FROM, TO, findings_of, message, raw_of, sender
from send_once import InvalidInputError
from send_once.mail import check
from servers.smtp_server import smtp_server


def rich() -> EmailMessage:
    """Text, HTML with an image, an attachment, a forwarded message."""
    sent = message()
    sent.set_content("Grüße\n" * 5)
    sent.add_alternative("<p>Grüße</p>\n" + "x" * 1500, subtype="html")
    html = sent.get_payload()[1]  # type: ignore[index]  # a multipart since the line before
    html.add_related(b"\x89PNG\r\n\x1a\n\0", "image", "png", cid="<logo@example.com>")  # type: ignore[union-attr]  # likewise
    sent.add_attachment(bytes(range(256)) * 5, maintype="application", subtype="octet-stream", filename="all.bin")
    sent.add_attachment(message(Subject="Forwarded é"))
    return sent


# What goes out.


def test_a_complete_message_has_no_findings() -> None:
    for sent in (message(), rich()):
        assert check(raw_of(sent), to=TO, message=sent) == ()


def test_the_same_message_gives_the_same_bytes() -> None:
    """So that a retry can be compared with the first attempt, boundaries included."""
    sent = rich()
    assert raw_of(sent) == raw_of(sent) == raw_of(copy.deepcopy(sent)) == raw_of(rich())


def test_rendering_does_not_change_the_message() -> None:
    sent = rich()
    before = [(part.items(), part.get_boundary()) for part in sent.walk()]
    raw_of(sent)
    assert [(part.items(), part.get_boundary()) for part in sent.walk()] == before


def test_everything_goes_out_as_7_bit_with_crlf() -> None:
    raw = raw_of(rich())
    assert raw.isascii()
    assert raw.count(b"\n") == raw.count(b"\r\n") == raw.count(b"\r")
    assert raw.endswith(b"\r\n")
    assert max(map(len, raw.split(b"\r\n"))) <= 998


def test_bcc_is_never_transmitted() -> None:
    for name in ("Bcc", "BCC", "Resent-Bcc"):
        sent = message()
        sent[name] = "secret@example.com"
        raw = raw_of(sent)
        assert b"secret" not in raw
        assert findings_of(raw, sent) == set()


def test_bcc_of_a_forwarded_message_is_not_transmitted_either() -> None:
    sent = message()
    sent.add_attachment(message(Bcc="secret@example.com"))
    assert b"secret" not in raw_of(sent)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=400)
line_ends = st.sampled_from(["\n", "\r\n", "\r"])


@given(st.lists(texts, max_size=6), line_ends, st.sampled_from([None, "8bit", "quoted-printable", "base64"]))
@settings(deadline=None)
def test_any_text_arrives_unchanged_in_lawful_lines(lines: list[str], line_end: str, encoding: str | None) -> None:
    """B132: Python 3.11 writes quoted-printable lines of up to 78 characters, and 8-bit bodies."""
    text = line_end.join(lines)
    sent = message()
    sent.set_content(text, cte=encoding)
    raw = raw_of(sent)
    back = message_from_bytes(raw, policy=policy.default)
    assert findings_of(raw, sent) == set()
    assert normal(back.get_content()) == normal(sent.get_content())
    if back["Content-Transfer-Encoding"] in ("quoted-printable", "base64"):
        assert max(map(len, raw.partition(b"\r\n\r\n")[2].split(b"\r\n"))) <= 76


def normal(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def test_a_long_line_with_accents_is_broken_at_76() -> None:
    """B132, the reported input: 200 characters without a space."""
    sent = message()
    sent.set_content("é" + "x" * 199 + "\n" + "plain ascii\n" * 40)
    raw = raw_of(sent)
    assert b"Content-Transfer-Encoding: quoted-printable" in raw
    assert max(map(len, raw.partition(b"\r\n\r\n")[2].split(b"\r\n"))) <= 76


@given(st.binary(max_size=600), st.sampled_from(["base64", "7bit", "8bit"]))
@settings(deadline=None)
def test_any_attachment_arrives_octet_for_octet(octets: bytes, encoding: str) -> None:
    sent = message()
    try:
        sent.add_attachment(octets, maintype="application", subtype="octet-stream", cte=encoding)
    except UnicodeDecodeError:
        return  # the standard library itself refuses 7bit for 8-bit octets
    raw = raw_of(sent)
    (attachment,) = message_from_bytes(raw, policy=policy.default).iter_attachments()
    assert findings_of(raw, sent) == set()
    if encoding == "base64" or b"\r" in octets or not octets.isascii() or b"\0" in octets:
        assert attachment.get_payload(decode=True) == octets
    else:
        assert attachment.get_payload(decode=True) == octets.replace(b"\n", b"\r\n")


def test_text_in_a_charset_of_two_octets_is_not_torn_at_line_ends() -> None:
    sent = message()
    sent.set_content("Grüße\nZeile\u0a0d\u0d0a\n", charset="utf-16-le")
    raw = raw_of(sent)
    assert message_from_bytes(raw, policy=policy.default).get_content() == sent.get_content()


def test_a_signed_part_goes_out_as_it_was_signed() -> None:
    sent = message()
    sent.set_content("signed text, with two  spaces \nand a line\n")
    sent.make_mixed()
    signed = message_from_bytes(
        b'Content-Type: multipart/signed; protocol="application/pgp-signature"; boundary=sig\n\n'
        b"--sig\nContent-Type: text/plain;charset=us-ascii\n\nsigned  text \n\n--sig\n"
        b"Content-Type: application/pgp-signature\n\nxxx\n--sig--\n",
        policy=policy.default,
    )
    sent.attach(signed)
    assert b"--sig\r\nContent-Type: text/plain;charset=us-ascii\r\n\r\nsigned  text \r\n\r\n--sig\r\n" in raw_of(sent)


def test_a_signed_part_that_cannot_travel_is_refused_not_changed() -> None:
    sent = message_from_bytes(
        b"Content-Type: multipart/signed; boundary=sig\n\n--sig\nContent-Type: text/plain; charset=utf-8\n\n\xc3\xa9\n\n--sig--\n",
        policy=policy.default,
    )
    with pytest.raises(InvalidInputError, match="signature"):
        raw_of(sent)


def test_a_forwarded_message_arrives_as_it_was() -> None:
    original = b"Subject: =?utf-8?q?odd?=   folding\r\n\tkept\r\nFrom: Doe, Jane <a@b.c>\r\n\r\nbody\r\n"
    foreign = message_from_bytes(original, policy=policy.default)
    sent = message()
    sent.add_attachment(foreign)
    assert original in raw_of(sent)


def test_a_delivery_report_keeps_its_groups() -> None:
    report = message_from_bytes(
        b"Content-Type: message/delivery-status\n\nReporting-MTA: dns; x\n\nFinal-Recipient: rfc822; a@b.c\nAction: failed\n",
        policy=policy.default,
    )
    sent = message()
    sent.make_mixed()
    sent.attach(report)
    raw = raw_of(sent)
    assert b"\r\nReporting-MTA: dns; x\r\n\r\nFinal-Recipient: rfc822; a@b.c\r\nAction: failed\r\n" in raw
    assert findings_of(raw, sent) == set()


def test_a_boundary_that_stands_in_a_part_is_refused() -> None:
    sent = message()
    sent.set_content("--mark\n")
    sent.make_mixed(boundary="mark")
    with pytest.raises(InvalidInputError, match="boundary") as caught:
        raw_of(sent)
    assert caught.value.field == "Content-Type"


@pytest.mark.parametrize(
    "wrong", [None, "text", b"Subject: x\r\n\r\n", MIMEText("x"), Message(), EmailMessage(policy=policy.compat32)]
)
def test_what_is_no_email_message_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="EmailMessage") as caught:
        raw_of(wrong)
    assert caught.value.field == "message"


def test_text_that_was_never_encoded_is_refused() -> None:
    sent = message()
    sent.set_payload("Grüße \u20ac")
    with pytest.raises(InvalidInputError, match="set_content"):
        raw_of(sent)


# Before anything is sent.


def test_a_message_with_an_error_is_refused_before_the_server_is_spoken_to() -> None:
    sent = message(Subject=None)
    with smtp_server() as server, pytest.raises(InvalidInputError, match="missing_header") as caught:
        sender(server.port).send(sent, to=TO)
    assert caught.value.field == "Subject"
    assert server.connections == 0


@pytest.mark.parametrize("to", ["ana@example.com, bo@example.com", "Ana <ana@example.com>", ""])
def test_a_send_is_for_exactly_one_recipient(to: str) -> None:
    with smtp_server() as server, pytest.raises(InvalidInputError) as caught:
        sender(server.port).send(message(), to=to)
    assert caught.value.field == "to"
    assert server.connections == 0


def test_the_return_path_is_the_sender_else_the_only_author() -> None:
    with smtp_server() as server:
        sender(server.port).send(message(Sender="Desk <desk@bücher.example>"), to=TO)
        sender(server.port).send(message(), to=TO)
        with pytest.raises(InvalidInputError) as caught:
            sender(server.port).send(message(From="a@x.com, b@x.com"), to=TO)
    assert [received.sender for received in server.accepted] == ["desk@xn--bcher-kva.example", FROM]
    assert caught.value.field == "envelope_from"


def test_stored_bytes_are_sent_as_they_are() -> None:
    raw = raw_of(message(Date=DATE))
    with smtp_server() as server:
        sender(server.port).send_bytes(raw, to=TO, envelope_from=FROM)
        sender(server.port).send_bytes(raw, to=TO, envelope_from=FROM)
    assert [received.octets for received in server.accepted] == [raw, raw]


@pytest.mark.parametrize("raw", [b"", "text", b"a\0b", None])
def test_bytes_that_cannot_be_sent_are_refused(raw: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        sender(25).send_bytes(raw, to=TO, envelope_from=FROM)
    assert caught.value.field == "raw"


@pytest.mark.parametrize(
    ("settings_", "field"),
    [
        ({"host": ""}, "host"),
        ({"host": "a b"}, "host"),
        ({"host": "x\r\n"}, "host"),
        ({"host": None}, "host"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"port": True}, "port"),
        ({"port": "25"}, "port"),
        ({"security": "ssl"}, "security"),
        ({"username": "x"}, "password"),
        ({"password": "x"}, "password"),
        ({"username": "x\0", "password": "y", "security": "tls"}, "password"),
        ({"local_hostname": ""}, "local_hostname"),
        ({"local_hostname": "a\r\nMAIL"}, "local_hostname"),
        ({"host": "a..b"}, "host"),
        ({"host": "x" * 64}, "host"),
        ({"host": "☃.net"}, "host"),
        *(
            ({f"{name}_timeout_seconds": value}, f"{name}_timeout_seconds")
            for name in ("connect", "command", "data", "final_reply")
            for value in (0, -1, float("nan"), float("inf"), None, True, "5")
        ),
    ],
)
def test_a_sender_with_bad_settings_is_refused_by_name(settings_: dict[str, Any], field: str) -> None:
    from send_once.mail import SMTPSender

    with pytest.raises(InvalidInputError) as caught:
        SMTPSender(**{"host": "127.0.0.1", "security": "none", **settings_})
    assert caught.value.field == field
