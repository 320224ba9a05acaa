"""One send: what is said on the wire, what is kept of the answer, which limit applies when."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from mail.samples import FROM, TO, message, sender
from send_once import certainty_of
from send_once.mail import SMTPFailure, SMTPRejectedError, SMTPRetryLaterError, SMTPSender, SMTPUncertainError, Stage
from servers.smtp_acts import Call, Drop, Say, SayLate, Trickle
from servers.smtp_server import SMTPServer, smtp_server

BIG_LINE = "x" * 900 + "\n"


def test_a_reply_after_the_limit_does_not_undo_the_doubt() -> None:
    """The server took the message and says so too late: the client has stopped listening (RFC 1047)."""
    with smtp_server(dot=SayLate("250 2.0.0 Ok: queued as LATE1", accept=True)) as server:
        with pytest.raises(SMTPUncertainError) as caught:
            sender(server.port, final_reply_timeout_seconds=0.3).send(message(), to=TO)
        server.release()
        server.join()
    assert caught.value.stage is Stage.DOT_SENT
    assert len(server.accepted) == 1


def test_a_slow_but_steady_reply_to_the_dot_is_waited_for() -> None:
    """B004: the limit for the reply to the dot is its own; commands may have a far shorter one."""
    with smtp_server(dot=SayLate("250 2.0.0 Ok: queued as SLOW1", accept=True)) as server:
        short = {f"{name}_timeout_seconds": 5.0 for name in ("command", "data")}
        threading.Timer(0.3, server.release).start()
        accepted = sender(server.port, **short, final_reply_timeout_seconds=600).send(message(), to=TO)
    assert accepted.provider_id == "SLOW1"


def test_a_reply_that_trickles_in_is_not_waited_for_beyond_the_limit() -> None:
    """Each line comes in time, the reply as a whole does not."""
    trickle = Trickle(lines=100, pause_seconds=0.05, accept=True)
    with smtp_server(dot=trickle) as server, pytest.raises(SMTPUncertainError, match="Timeout") as caught:
        sender(server.port, final_reply_timeout_seconds=0.5).send(message(), to=TO)
    assert caught.value.stage is Stage.DOT_SENT


def test_a_connection_nobody_accepts_is_given_up_within_its_limit() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [_connect_without_waiting(listener.getsockname()) for _ in range(4)]
        with pytest.raises(SMTPRetryLaterError) as caught:
            sender(listener.getsockname()[1], connect_timeout_seconds=0.3).send(message(), to=TO)
        for sock in waiting:
            sock.close()
    assert caught.value.stage is Stage.CONNECTING


def _connect_without_waiting(address: tuple[str, int]) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex(address)
    return sock


def test_an_unknown_host_is_rejected_by_name() -> None:
    with pytest.raises(SMTPFailure, match="no-such-host.invalid") as caught:
        SMTPSender("no-such-host.invalid", 25, security="none").send(message(), to=TO)
    assert caught.value.stage is Stage.CONNECTING
    assert certainty_of(caught.value) == "failed"


def test_each_call_is_one_transaction_for_one_recipient() -> None:
    """B034, B053: a refusal of one recipient touches nobody else."""
    with smtp_server() as server:
        sender(server.port).send(message(To="ana@example.com, bo@example.com"), to="bo@example.com")
    assert server.verbs == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
    assert [received.recipients for received in server.accepted] == [("bo@example.com",)]


def test_what_arrives_is_what_was_checked() -> None:
    with smtp_server() as server:
        sender(server.port).send(message(), to=TO)
    (received,) = server.accepted
    assert received.sender == FROM
    assert b"Subject: Your invoice\r\n" in received.octets
    assert received.octets.endswith(b"\r\nInvoice 1042 is due on Friday.\r\n")


def test_a_refused_send_is_not_repeated_by_the_sender() -> None:
    """B005: whatever happens, one call is one connection."""
    for act in (Drop(), Say("451 4.3.0 later"), Drop(reset=True)):
        with smtp_server(dot=act) as server:
            with pytest.raises(SMTPFailure):
                sender(server.port).send(message(), to=TO)
            server.join()
        assert server.connections == 1
        assert server.verbs.count("DATA") == 1


def test_the_servers_words_are_kept() -> None:
    with smtp_server(rcpt=Say("550-5.1.1 No such user\r\n550 5.1.1 here")) as server:
        with pytest.raises(SMTPRejectedError) as caught:
            sender(server.port).send(message(), to=TO)
    failure = caught.value
    assert (failure.reply_code, failure.enhanced_code) == (550, "5.1.1")
    assert failure.reply_text == "5.1.1 No such user\n5.1.1 here"
    assert "No such user" in str(failure)


def test_unreadable_words_are_kept_too() -> None:
    with smtp_server(dot=Say("I took it", accept=True)) as server, pytest.raises(SMTPUncertainError) as caught:
        sender(server.port).send(message(), to=TO)
    assert caught.value.reply_text == "I took it\r\n"
    assert caught.value.reply_code is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("450 4.2.0 Greylisted, try again in 300 seconds", 300),
        ("451 4.7.1 Please try again after 5 minutes", 300),
        ("421 4.3.2 closing", 1800),
    ],
)
def test_a_transient_refusal_says_when_to_try_again(text: str, seconds: int) -> None:
    with smtp_server(rcpt=Say(text)) as server, pytest.raises(SMTPRetryLaterError) as caught:
        sender(server.port).send(message(), to=TO)
    assert caught.value.after == seconds


def test_a_message_beyond_the_servers_size_is_refused_before_it_is_offered() -> None:
    with SMTPServer(extensions=("SIZE 1000",)) as server:
        big = message()
        big.set_content(BIG_LINE * 50)
        with pytest.raises(SMTPRejectedError, match="at most 1000"):
            sender(server.port).send(big, to=TO)
    assert server.verbs == ["EHLO", "QUIT"]


@pytest.mark.parametrize("offer", ["SIZE", "SIZE 0", "SIZE lots"])
def test_a_server_without_a_size_limit_takes_any_message(offer: str) -> None:
    with SMTPServer(extensions=(offer,)) as server:
        sender(server.port).send(message(), to=TO)
    assert len(server.accepted) == 1
    assert f"SIZE={len(server.accepted[0].octets)}" in server.commands[1]


def test_a_server_that_knows_only_helo_is_spoken_to_in_helo() -> None:
    with smtp_server(ehlo=Say("502 5.5.2 what")) as server:
        sender(server.port).send(message(), to=TO)
    assert server.verbs[:2] == ["EHLO", "HELO"]
    assert server.commands[2] == f"MAIL FROM:<{FROM}>"


def test_an_address_that_needs_smtputf8_is_refused_where_it_is_not_offered() -> None:
    """B117: a clear refusal before DATA, no question marks."""
    to = "почта@bücher.example"
    with smtp_server() as server:
        with pytest.raises(SMTPRejectedError, match="SMTPUTF8"):
            sender(server.port).send(message(To=to), to=to)
    assert server.verbs == ["EHLO", "QUIT"]


def test_an_address_that_needs_smtputf8_is_sent_where_it_is_offered() -> None:
    to = "почта@bücher.example"
    with SMTPServer(extensions=("SMTPUTF8", "8BITMIME")) as server:
        sender(server.port).send(message(To=to), to=to)
    assert server.commands[1] == f"MAIL FROM:<{FROM}> BODY=8BITMIME SMTPUTF8"
    assert server.commands[2] == "RCPT TO:<почта@xn--bcher-kva.example>"
    assert "To: почта@xn--bcher-kva.example\r\n".encode() in server.accepted[0].octets


def test_an_international_domain_needs_no_extension() -> None:
    """B115: the envelope carries the A-label."""
    with SMTPServer(extensions=()) as server:
        sender(server.port).send(message(To="info@bücher.example"), to="info@bücher.example")
    assert server.accepted[0].recipients == ("info@xn--bcher-kva.example",)


def test_8_bit_bytes_are_refused_where_8bitmime_is_not_offered() -> None:
    with SMTPServer(extensions=()) as server:
        with pytest.raises(SMTPRejectedError, match="8BITMIME"):
            sender(server.port).send_bytes("Subject: x\r\n\r\né\r\n".encode(), to=TO, envelope_from=FROM)
    assert server.verbs == ["EHLO", "QUIT"]


def test_the_empty_return_path_is_sent_as_such() -> None:
    with smtp_server() as server:
        sender(server.port).send(message(), to=TO, envelope_from="")
    assert server.commands[1].startswith("MAIL FROM:<>")


@contextlib.contextmanager
def signal_raises(error: BaseException) -> Iterator[Call]:
    """An act that interrupts the client by a signal whose handler raises `error`."""

    def handler(_number: int, _frame: object) -> None:
        raise error

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield Call(lambda: os.kill(os.getpid(), signal.SIGUSR1), accept=True)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_a_stopped_program_is_not_taken_for_a_failed_send(error: BaseException) -> None:
    """What stops a program passes, so that the entry stays pending; the connection is closed without a word."""
    with signal_raises(error) as act, smtp_server(dot=act) as server:
        with pytest.raises(type(error)):
            sender(server.port).send(message(), to=TO)
        server.join()
    assert b"QUIT" not in server.wire
    assert len(server.accepted) == 1


class SoftTimeLimitError(Exception):
    """As task queues raise it inside whatever their task is doing."""


def test_an_exception_nobody_foresaw_after_the_body_began_is_uncertain() -> None:
    """Left as it is, the ledger would take it for a definite no."""
    with signal_raises(SoftTimeLimitError("time is up")) as act, smtp_server(dot=act) as server:
        with pytest.raises(SMTPUncertainError, match="time is up") as caught:
            sender(server.port).send(message(), to=TO)
    assert caught.value.stage in (Stage.BODY_STARTED, Stage.DOT_SENT)  # the signal may come within the last write
    assert isinstance(caught.value.__cause__, SoftTimeLimitError)


def test_an_exception_nobody_foresaw_before_the_body_passes_as_it_is() -> None:
    with signal_raises(SoftTimeLimitError("time is up")) as act, smtp_server(rcpt=act) as server:
        with pytest.raises(SoftTimeLimitError):
            sender(server.port).send(message(), to=TO)
        server.join()
    assert "DATA" not in server.verbs


@pytest.mark.parametrize("act", [Say("550-5.1.1 no\r\n550 5.1.1 such"), Say("450 4.2.0 wait 90s"), Drop()])
def test_a_failure_survives_pickling_and_copying(act: Say | Drop) -> None:
    """Task queues carry exceptions between processes."""
    with smtp_server(rcpt=act) as server, pytest.raises(SMTPFailure) as caught:
        sender(server.port).send(message(), to=TO)
    for twin in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert type(twin) is type(caught.value)
        assert str(twin) == str(caught.value)
        assert vars(twin) == vars(caught.value)
