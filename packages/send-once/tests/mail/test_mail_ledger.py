"""The sender under a ledger: what the ledger records for each way a send can end."""

from __future__ import annotations

import asyncio

import pytest

from mail.samples import TO, message, sender
from send_once import AsyncLedger, Duplicate, Failed, Ledger, MemoryStore, Sent, Unknown, threaded
from send_once.mail import Accepted, SMTPUncertainError
from send_once.mail.envelope import make_envelope
from servers.smtp_acts import Drop, Say, Silent
from servers.smtp_server import smtp_server

KEY = "invoice-reminder:inv_1042"


def test_an_accepted_send_is_recorded_with_the_queue_id() -> None:
    ledger = Ledger(MemoryStore())
    with smtp_server() as server:
        outcome = ledger.once(KEY, lambda: sender(server.port).send(message(), to=TO))
        again = ledger.once(KEY, lambda: sender(server.port).send(message(), to=TO))
    assert isinstance(outcome, Sent)
    assert isinstance(outcome.result, Accepted)
    assert isinstance(again, Duplicate)
    assert again.entry.provider_id == "4TESTQ1"
    assert len(server.accepted) == 1


def test_a_refused_send_is_failed_and_can_be_tried_again() -> None:
    ledger = Ledger(MemoryStore())
    with smtp_server(rcpt=Say("450 4.2.0 Greylisted, try again in 300 seconds")) as server:
        outcome = ledger.once(KEY, lambda: sender(server.port).send(message(), to=TO))
    assert isinstance(outcome, Failed)
    assert outcome.retry_after_seconds == 300
    with smtp_server() as server:
        assert isinstance(ledger.once(KEY, lambda: sender(server.port).send(message(), to=TO)), Sent)


@pytest.mark.parametrize(
    "act", [Drop(accept=True), Drop(reset=True, accept=True), Say("hm", accept=True), Silent(accept=True)]
)
def test_a_lost_reply_is_unknown_and_never_sent_again(act: Drop | Say | Silent) -> None:
    ledger = Ledger(MemoryStore())
    with smtp_server(dot=act) as server:
        for _ in range(3):
            outcome = ledger.once(
                KEY, lambda: sender(server.port, final_reply_timeout_seconds=0.3).send(message(), to=TO)
            )
            assert isinstance(outcome, Unknown)
        assert server.connections == 1
        assert len(server.accepted) == 1


@pytest.mark.parametrize("act", [Drop(accept=True), Say("350 " + "a long story " * 300, accept=True)])
def test_the_entry_of_an_unknown_send_says_which_message_id_to_look_for(act: Drop | Say) -> None:
    ledger = Ledger(MemoryStore())
    mail = message()
    with smtp_server(dot=act) as server:
        outcome = ledger.once(KEY, lambda: sender(server.port).send(mail, to=TO))
    assert isinstance(outcome, Unknown)
    assert isinstance(outcome.error, SMTPUncertainError)
    assert outcome.error.message_id == mail["Message-ID"]
    assert f"Message-ID {mail['Message-ID']}: " in str(outcome.entry.error)


@pytest.mark.parametrize(
    ("head", "message_id"),
    [
        (b"Message-ID: <a@b>\nTo: x\n", "<a@b>"),
        (b"message-id:\n <folded@b>\n", "<folded@b>"),
        (b"X-Message-ID: <not@this>\n", None),
        (b"To: x\n\nMessage-ID: <in@the.body>\n", None),
    ],
)
def test_the_message_id_is_read_from_the_head(head: bytes, message_id: str | None) -> None:
    assert make_envelope(head + b"\n", to=TO, envelope_from="").message_id == message_id


def test_a_message_that_fails_its_check_is_failed_not_unknown() -> None:
    ledger = Ledger(MemoryStore())
    outcome = ledger.once(KEY, lambda: sender(25).send(message(Subject=None), to=TO))
    assert isinstance(outcome, Failed)
    assert "Subject is missing" in str(outcome.error)


def test_from_async_code_it_runs_in_a_thread() -> None:
    async def main(port: int) -> object:
        ledger = AsyncLedger(threaded(MemoryStore()))
        return await ledger.once(KEY, lambda: asyncio.to_thread(sender(port).send, message(), to=TO))

    with smtp_server() as server:
        assert isinstance(asyncio.run(main(server.port)), Sent)
    assert len(server.accepted) == 1
