"""Reading replies: pure functions, any octets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from send_once.mail.replies import REPLY_LINE_BYTES_MAX, REPLY_LINES_MAX, MalformedReplyError, Reply, take_reply
from send_once.mail.texts import queue_id, wait_seconds

texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=40)
replies = st.builds(
    Reply,
    st.integers(200, 599),
    st.lists(texts, min_size=1, max_size=5).map(tuple),
)


def wire(reply: Reply) -> bytes:
    last = len(reply.lines) - 1
    return b"".join(f"{reply.code}{' ' if n == last else '-'}{line}\r\n".encode() for n, line in enumerate(reply.lines))


@given(replies, st.binary(max_size=20))
def test_a_reply_is_read_back_and_what_follows_is_left(reply: Reply, rest: bytes) -> None:
    assert take_reply(wire(reply) + rest) == (reply, rest)


@given(replies, st.data())
def test_part_of_a_reply_is_never_a_reply(reply: Reply, data: st.DataObject) -> None:
    octets = wire(reply)
    assert take_reply(octets[: data.draw(st.integers(0, len(octets) - 1))]) is None


@given(st.binary(max_size=200))
def test_any_octets_are_a_reply_or_none_or_malformed(octets: bytes) -> None:
    try:
        taken = take_reply(octets)
    except MalformedReplyError as error:
        assert error.shown.encode()
        return
    assert taken is None or 200 <= taken[0].code <= 599


@pytest.mark.parametrize(
    "octets",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"25 0\r\n",
        b"250x\r\n",
        b"150 no\r\n",
        b"600 no\r\n",
        b"-1\r\n",
        b"250-a\r\n251 b\r\n",
        b"250-a\r\nb\r\n",
        b"\xff\xfe\r\n",
        b"250 " + b"x" * REPLY_LINE_BYTES_MAX + b"\r\n",
        b"x" * (REPLY_LINE_BYTES_MAX + 1),
        b"250-x\r\n" * REPLY_LINES_MAX,
    ],
)
def test_what_is_no_reply_is_said_to_be_none(octets: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        take_reply(octets)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("5.1.1 no such user", "5.1.1"),
        ("2.0.0", "2.0.0"),
        ("4.7.28 Gmail", "4.7.28"),
        ("no", None),
        ("3.1.1 x", None),
        ("5.1.1x", None),
    ],
)
def test_the_enhanced_code_is_read(line: str, code: str | None) -> None:
    assert Reply(550, (line,)).enhanced_code == code


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2.0.0 Ok: queued as 4F2AB1C0D3", "4F2AB1C0D3"),
        ("2.0.0 Ok: queued as 4Rk9Yt2Q1Xz3kPbc.", "4Rk9Yt2Q1Xz3kPbc"),
        ("OK id=1rABCD-0001Ab-2C", "1rABCD-0001Ab-2C"),
        ("2.6.0 <m@x> [InternalId=123456789, Hostname=a.b] 1 bytes Queued mail for delivery", "123456789"),
        ("2.0.0 OK  1733043600 a640c23a62f3a-aa599010a5fsi1 - gsmtp", "a640c23a62f3a-aa599010a5fsi1"),
        ("2.0.0 4B15VdX0012345 Message accepted for delivery", "4B15VdX0012345"),
        ("2.0.0 7a1f2c3d Message accepted for delivery", "7a1f2c3d"),
        ("ok 1733043600 qp 12345", "12345"),
        ("Message Queued (6F5B2D3E-0001.1)", "6F5B2D3E-0001.1"),
        (
            "Ok 0100018d5a1b2c3d-1a2b3c4d-0000-1111-2222-333344445555-000000",
            "0100018d5a1b2c3d-1a2b3c4d-0000-1111-2222-333344445555-000000",
        ),
        ("2.0.0 Ok", None),
        ("thank you", None),
        ("", None),
    ],
)
def test_the_queue_id_is_found_in_the_words_of_known_servers(text: str, wanted: str | None) -> None:
    assert queue_id(Reply(250, (text,))) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("4.2.0 Greylisted, please try again in 300 seconds", 300),
        ("try again after 5 minutes", 300),
        ("Please retry in 1 hour", 3600),
        ("wait 90s", 90),
        ("come back in 999999 hours", 24 * 3600),
        ("try again later", None),
        ("4.3.2 in 3 days maybe", None),
    ],
)
def test_the_wait_a_server_asks_for_is_read(text: str, wanted: int | None) -> None:
    assert wait_seconds(Reply(450, (text,))) == wanted
