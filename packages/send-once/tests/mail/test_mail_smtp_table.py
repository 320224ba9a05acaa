"""The uncertainty table of SMTP, row by row, against a server that fails at exactly that place.

Each row says how the send must end, at which stage, and how many messages the server has taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mail.samples import FROM, TO, message, sender
from send_once import RejectedSendError, RetryLaterError, UncertainSendError, certainty_of
from send_once.mail import (
    Accepted,
    SMTPFailure,
    SMTPRejectedError,
    SMTPRetryLaterError,
    SMTPUncertainError,
    Stage,
)
from servers.smtp_acts import Act, Drop, DropAfter, Interrupt, Say, SayInPackets, Silent
from servers.smtp_server import SMTPServer

REJECTED, LATER, UNCERTAIN = SMTPRejectedError, SMTPRetryLaterError, SMTPUncertainError
LIMITS_SECONDS = (0.3, 1.2, 5.0)
"""Tried in turn where a row is about a limit, so that a slow machine does not decide the outcome."""
BIG_LINE = "x" * 900 + "\n"
BUFFER_OCTETS = int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2])
BIG = b"Subject: big\r\n\r\n" + BIG_LINE.encode() * ((BUFFER_OCTETS + 1_000_000) // len(BIG_LINE))
"""More than buffers on the way hold: the client is still writing when the server stops reading."""


@dataclass(frozen=True)
class Row:
    at: Mapping[str, Act | Sequence[Act]]
    ends: type[SMTPFailure] | None
    stage: Stage
    code: int | None = None
    taken: int = 0
    limits: Sequence[str] = field(default=())
    is_big: bool = False
    or_stage: Stage | None = None


def refusals(place: str, stage: Stage) -> dict[str, Row]:
    """What every command may be answered with, or not answered."""
    return {
        f"{place}: 421": Row({place: Say("421 4.3.2 closing")}, LATER, stage, 421),
        f"{place}: 451": Row({place: Say("451 4.3.0 try again")}, LATER, stage, 451),
        f"{place}: 554": Row({place: Say("554 5.7.1 no")}, REJECTED, stage, 554),
        f"{place}: unfitting 3yz": Row({place: Say("399 what")}, REJECTED, stage, 399),
        f"{place}: no SMTP reply": Row({place: Say("HTTP/1.1 400 Bad Request")}, REJECTED, stage),
        f"{place}: overlong line": Row({place: Say("250 " + "x" * 5000)}, REJECTED, stage),
        f"{place}: dropped": Row({place: Drop()}, LATER, stage),
        f"{place}: reset": Row({place: Drop(reset=True)}, LATER, stage),
        f"{place}: half a reply, dropped": Row({place: [Say(raw=b"250 o"), Drop()]}, LATER, stage),
        f"{place}: silent": Row({place: Silent()}, LATER, stage, limits=("command",)),
        f"{place}: multi-line refusal": Row({place: Say("550-5.1.1 no\r\n550 5.1.1 such")}, REJECTED, stage, 550),
    }


BEFORE_THE_BODY = {
    "connection refused": Row({"connect": Drop()}, LATER, Stage.CONNECTING),
    **refusals("greeting", Stage.GREETING),
    # A reset right behind the handshake may end the connect() itself.
    "greeting: reset": Row({"greeting": Drop(reset=True)}, LATER, Stage.GREETING, or_stage=Stage.CONNECTING),
    **{
        name: row
        for name, row in refusals("ehlo", Stage.HELLO).items()
        if "5" not in name.partition(": ")[2][:1] and "multi-line" not in name
    },
    "ehlo and helo: 554": Row({"ehlo": Say("502 no"), "helo": Say("554 5.7.1 no")}, REJECTED, Stage.HELLO, 554),
    **refusals("mail", Stage.MAIL),
    **refusals("rcpt", Stage.RCPT),
    **{name: row for name, row in refusals("data", Stage.DATA).items() if "3yz" not in name},
    "data: answered like a message": Row({"data": Say("250 2.0.0 Ok")}, REJECTED, Stage.DATA, 250),
    "data: 354 with a reply too many": Row(
        {"data": Say("354 go\r\n250 2.0.0 Ok: queued as X")}, REJECTED, Stage.DATA, 250
    ),
    "rcpt: a refusal too many": Row({"rcpt": Say("250 ok\r\n451 4.3.0 no")}, LATER, Stage.DATA, 451),
}

BODY = {
    "body: dropped at once": Row({"body": DropAfter(1)}, UNCERTAIN, Stage.BODY_STARTED, is_big=True),
    "body: dropped in the middle": Row({"body": DropAfter(5000)}, UNCERTAIN, Stage.BODY_STARTED, is_big=True),
    "body: reset in the middle": Row({"body": DropAfter(5000, reset=True)}, UNCERTAIN, Stage.BODY_STARTED, is_big=True),
    "body: not read any more": Row({"body": Silent()}, UNCERTAIN, Stage.BODY_STARTED, limits=("data",), is_big=True),
    "body: 552 in the middle": Row(
        {"body": Interrupt(5000, "552 5.3.4 too big")}, REJECTED, Stage.BODY_STARTED, 552, is_big=True
    ),
    "body: 421 in the middle": Row(
        {"body": Interrupt(5000, "421 4.4.2 timeout")}, LATER, Stage.BODY_STARTED, 421, is_big=True
    ),
    "body: 250 in the middle": Row(
        {"body": Interrupt(5000, "250 2.0.0 Ok")}, UNCERTAIN, Stage.BODY_STARTED, 250, is_big=True
    ),
    "body: nonsense in the middle": Row({"body": Interrupt(5000, "well")}, UNCERTAIN, Stage.BODY_STARTED, is_big=True),
}

DOT = {
    "dot: dropped, taken": Row({"dot": Drop(accept=True)}, UNCERTAIN, Stage.DOT_SENT, taken=1),
    "dot: dropped, not taken": Row({"dot": Drop()}, UNCERTAIN, Stage.DOT_SENT),
    "dot: reset, taken": Row({"dot": Drop(reset=True, accept=True)}, UNCERTAIN, Stage.DOT_SENT, taken=1),
    "dot: silent, taken": Row(
        {"dot": Silent(accept=True)}, UNCERTAIN, Stage.DOT_SENT, taken=1, limits=("final_reply",)
    ),
    "dot: silent, not taken": Row({"dot": Silent()}, UNCERTAIN, Stage.DOT_SENT, limits=("final_reply",)),
    "dot: half a 250, dropped": Row(
        {"dot": [Say(raw=b"250 2.0.0 Ok: que", accept=True), Drop()]}, UNCERTAIN, Stage.DOT_SENT, taken=1
    ),
    "dot: half a 554, dropped": Row(
        {"dot": [Say(raw=b"554 5.7", accept=True), Drop()]}, UNCERTAIN, Stage.DOT_SENT, taken=1
    ),
    "dot: one line of two, dropped": Row(
        {"dot": [Say("554-5.7.1 one", accept=True), Drop()]}, UNCERTAIN, Stage.DOT_SENT, taken=1
    ),
    "dot: nonsense": Row({"dot": Say("queued, I think", accept=True)}, UNCERTAIN, Stage.DOT_SENT, taken=1),
    "dot: binary nonsense": Row({"dot": Say(raw=b"\xff\x00\n", accept=True)}, UNCERTAIN, Stage.DOT_SENT, taken=1),
    "dot: overlong 250": Row({"dot": Say("250 " + "x" * 5000, accept=True)}, UNCERTAIN, Stage.DOT_SENT, taken=1),
    "dot: endless 250": Row({"dot": Say("250-x\r\n" * 200 + "250 x", accept=True)}, UNCERTAIN, Stage.DOT_SENT, taken=1),
    "dot: lines of two codes": Row({"dot": Say("250-one\r\n554 two", accept=True)}, UNCERTAIN, Stage.DOT_SENT, taken=1),
    "dot: 354": Row({"dot": Say("354 more", accept=True)}, UNCERTAIN, Stage.DOT_SENT, 354, taken=1),
    "dot: 250": Row({"dot": Say("250 2.0.0 Ok", accept=True)}, None, Stage.ACCEPTED, 250, taken=1),
    "dot: 252": Row({"dot": Say("252 maybe", accept=True)}, None, Stage.ACCEPTED, 252, taken=1),
    "dot: 250 without text": Row({"dot": Say("250", accept=True)}, None, Stage.ACCEPTED, 250, taken=1),
    "dot: 250 ended by LF": Row({"dot": Say(raw=b"250 Ok\n", accept=True)}, None, Stage.ACCEPTED, 250, taken=1),
    "dot: multi-line 250": Row(
        {"dot": Say("250-2.0.0 Ok\r\n250 2.0.0 more", accept=True)}, None, Stage.ACCEPTED, 250, taken=1
    ),
    "dot: 250 in packets": Row(
        {"dot": SayInPackets((b"2", b"50-2.0", b".0 O", b"k\r", b"\n25", b"0 end\r\n"), accept=True)},
        None,
        Stage.ACCEPTED,
        250,
        taken=1,
    ),
    "dot: 421": Row({"dot": Say("421 4.3.2 closing")}, LATER, Stage.DOT_SENT, 421),
    "dot: 451": Row({"dot": Say("451 4.3.0 later")}, LATER, Stage.DOT_SENT, 451),
    "dot: 452": Row({"dot": Say("452 4.3.1 full")}, LATER, Stage.DOT_SENT, 452),
    "dot: 550": Row({"dot": Say("550 5.7.1 spam")}, REJECTED, Stage.DOT_SENT, 550),
    "dot: 554": Row({"dot": Say("554 5.6.0 no")}, REJECTED, Stage.DOT_SENT, 554),
    "quit: 451": Row({"quit": Say("451 no")}, None, Stage.ACCEPTED, 250, taken=1),
    "quit: 554": Row({"quit": Say("554 no")}, None, Stage.ACCEPTED, 250, taken=1),
    "quit: nonsense": Row({"quit": Say("?")}, None, Stage.ACCEPTED, 250, taken=1),
    "quit: dropped": Row({"quit": Drop()}, None, Stage.ACCEPTED, 250, taken=1),
    "quit: reset": Row({"quit": Drop(reset=True)}, None, Stage.ACCEPTED, 250, taken=1),
    "quit: silent": Row({"quit": Silent()}, None, Stage.ACCEPTED, 250, taken=1),
}

TABLE = {**BEFORE_THE_BODY, **BODY, **DOT}


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE.keys())
def test_a_send_that_breaks_off_ends_as_the_table_says(row: Row) -> None:
    ended, taken = run(row, next(iter(LIMITS_SECONDS)))
    for seconds in LIMITS_SECONDS[1:]:
        if ended.stage != row.stage and row.limits:
            ended, taken = run(row, seconds)
    check_end(ended, row)
    assert taken == row.taken


@pytest.mark.parametrize("row", BEFORE_THE_BODY.values(), ids=BEFORE_THE_BODY.keys())
def test_nothing_of_the_message_leaves_before_the_server_has_asked_for_it(row: Row) -> None:
    with SMTPServer(at=row.at) as server:
        attempt(server, row, LIMITS_SECONDS[0])
        server.release()
        server.join()
    assert b"Invoice 1042" not in server.wire


def run(row: Row, seconds: float) -> tuple[Accepted | SMTPFailure, int]:
    with SMTPServer(at=row.at) as server:
        ended = attempt(server, row, seconds)
        server.release()
        server.join()
    return ended, len(server.accepted)


def attempt(server: SMTPServer, row: Row, seconds: float) -> Accepted | SMTPFailure:
    limits = {f"{name}_timeout_seconds": seconds for name in row.limits}
    try:
        if row.is_big:
            return sender(server.port, **limits).send_bytes(BIG, to=TO, envelope_from=FROM)
        return sender(server.port, **limits).send(message(), to=TO)
    except SMTPFailure as failure:
        return failure


def check_end(ended: Accepted | SMTPFailure, row: Row) -> None:
    assert type(ended) is (row.ends or Accepted), ended
    assert ended.stage in (row.stage, row.or_stage)
    assert ended.reply_code == row.code
    if isinstance(ended, SMTPFailure):
        assert certainty_of(ended) == ("unknown" if row.ends is UNCERTAIN else "failed")
        assert "127.0.0.1" in str(ended)


def test_the_three_errors_are_the_ledgers_own() -> None:
    assert issubclass(SMTPRejectedError, RejectedSendError)
    assert issubclass(SMTPRetryLaterError, RetryLaterError)
    assert issubclass(SMTPUncertainError, UncertainSendError)
