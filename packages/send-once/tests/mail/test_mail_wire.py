"""What is written after DATA ends where we say it ends, and nowhere else (B134)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail.samples import FROM, TO, message, sender
from send_once.mail.wire import END_OF_DATA, dot_stuffed, with_crlf
from servers.smtp_server import smtp_server

LINE_ENDS = ("\r\n", "\n", "\r", "\n\r", "\r\r\n")
nasty = st.lists(st.sampled_from([b"\r", b"\n", b".", b"..", b"x", b"MAIL FROM:<x@example.com>"]), max_size=30).map(
    b"".join
)


@given(nasty)
def test_no_octets_end_the_message_early(raw: bytes) -> None:
    written = b"354 go\r\n" + dot_stuffed(raw) + END_OF_DATA
    assert re.search(rb"\r(?!\n)|(?<!\r)\n", written) is None
    assert written.count(b"\r\n.\r\n") == 1
    assert written.endswith(b"\r\n.\r\n")


@given(nasty)
def test_undoing_the_dots_gives_back_the_lines(raw: bytes) -> None:
    lines = dot_stuffed(raw).split(b"\r\n")
    assert b"\r\n".join(line.removeprefix(b".") for line in lines) == with_crlf(raw)


@pytest.mark.parametrize("before", LINE_ENDS)
@pytest.mark.parametrize("after", LINE_ENDS)
def test_a_body_cannot_smuggle_a_second_message(before: str, after: str) -> None:
    body = f"hello{before}.{after}MAIL FROM:<x@example.com>{after}RCPT TO:<y@example.com>{after}DATA{after}spam{before}.{after}"
    sent = message()
    sent.set_payload(body)
    with smtp_server() as server:
        sender(server.port).send(sent, to=TO)
        sender(server.port).send_bytes(b"Subject: x\r\n\r\n" + body.encode(), to=TO, envelope_from=FROM)
        server.join()
    assert len(server.accepted) == 2
    assert server.verbs == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"] * 2
    assert all(b"spam" in received.octets for received in server.accepted)


@pytest.mark.parametrize("body", [".", "..", ".\r\n", "a\r\n.b\r\n..c\r\n", ""])
def test_dots_at_line_starts_arrive(body: str) -> None:
    with smtp_server() as server:
        sender(server.port).send_bytes(b"Subject: x\r\n\r\n" + body.encode(), to=TO, envelope_from=FROM)
    assert server.accepted[0].octets == with_crlf(b"Subject: x\r\n\r\n" + body.encode())
