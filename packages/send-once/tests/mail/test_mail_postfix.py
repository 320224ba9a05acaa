"""Against a real Postfix, whose own log says how often a message arrived."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from pathlib import Path
from queue import SimpleQueue

import pytest

from mail.samples import message as sample
from mail.samples import sender
from send_once import Duplicate, Entry, FileStore, Found, Ledger, Unknown
from send_once.mail import SMTPRejectedError, SMTPUncertainError, Stage, derive_message_id
from servers.postfix import Postfix, postfix, wait_for
from servers.relay import DotRelay

__all__ = ["postfix"]  # the fixture, for pytest to find here

DOMAIN = "learner.test"
CLIENT = """
import sys
from email.message import EmailMessage
from email.utils import localtime
from send_once import FileStore, Ledger
from send_once.mail import SMTPSender, derive_message_id

path, port, key = sys.argv[1], int(sys.argv[2]), sys.argv[3]
message = EmailMessage()
message["From"], message["To"], message["Subject"] = "app@learner.test", "ana@learner.test", "Kill me"
message["Date"], message["Message-ID"] = localtime(), derive_message_id(key, "learner.test")
message.set_content("Invoice 1042 is due on Friday.")
sender = SMTPSender("127.0.0.1", port, security="none")
print(Ledger(FileStore(path)).once(key, lambda: sender.send(message, to="ana@learner.test")).outcome)
"""


def message(key: str, to: str = "ana@learner.test") -> EmailMessage:
    return sample(From="app@learner.test", To=to, Message_ID=derive_message_id(key, DOMAIN))


def test_an_accepted_message_arrives_once_under_the_id_we_were_told(postfix: Postfix) -> None:
    message_id = derive_message_id("accepted", DOMAIN)
    accepted = sender(postfix.port).send(message("accepted"), to="ana@learner.test")
    wait_for(lambda: postfix.deliveries(message_id), "the delivery")
    assert postfix.arrivals(message_id) == [accepted.provider_id]
    assert postfix.deliveries(message_id) == ["ana@learner.test"]
    assert accepted.reply_text == f"2.0.0 Ok: queued as {accepted.provider_id}"


def test_an_unknown_mailbox_is_rejected_in_the_servers_words(postfix: Postfix) -> None:
    with pytest.raises(SMTPRejectedError) as caught:
        sender(postfix.port).send(message("unknown mailbox", "nobody@learner.test"), to="nobody@learner.test")
    assert (caught.value.reply_code, caught.value.enhanced_code, caught.value.stage) == (550, "5.1.1", Stage.RCPT)
    assert postfix.arrivals(derive_message_id("unknown mailbox", DOMAIN)) == []


def test_mail_to_the_outside_does_not_leave(postfix: Postfix) -> None:
    with pytest.raises(SMTPRejectedError, match="no outside mail in tests"):
        sender(postfix.port).send(message("outside", "ana@example.com"), to="ana@example.com")
    assert postfix.arrivals(derive_message_id("outside", DOMAIN)) == []


def test_a_reply_that_comes_too_late_leaves_it_unknown_though_the_message_arrived(postfix: Postfix) -> None:
    message_id = derive_message_id("late", DOMAIN)
    with pytest.raises(SMTPUncertainError) as caught:
        sender(postfix.slow_port, final_reply_timeout_seconds=0.2).send(message("late"), to="ana@learner.test")
    assert caught.value.stage is Stage.DOT_SENT
    wait_for(lambda: postfix.deliveries(message_id), "the delivery")
    assert len(postfix.arrivals(message_id)) == 1


def run_client_killed_at_the_dot(postfix: Postfix, path: Path, key: str, *, swallow: bool) -> None:
    """A process of its own, killed by SIGKILL when its final dot has passed on the wire."""
    started: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    def kill() -> None:
        process = started.get(timeout=30)
        process.send_signal(signal.SIGKILL)
        process.wait()

    with DotRelay(postfix.port, on_dot=kill, swallow=swallow) as relay:
        command = [sys.executable, "-c", CLIENT, str(path), str(relay.port), key]
        client = subprocess.Popen(command, stdout=subprocess.PIPE)
        started.put(client)
        out, _ = client.communicate(timeout=30)
    assert client.returncode == -signal.SIGKILL
    assert out == b""


@pytest.mark.parametrize("swallow", [False, True], ids=["server got the dot", "server never got the dot"])
def test_a_client_killed_after_the_dot_leaves_the_send_unknown_whether_or_not_it_arrived(
    postfix: Postfix, tmp_path: Path, swallow: bool
) -> None:
    key = f"killed {swallow}"
    message_id = derive_message_id(key, DOMAIN)
    path = tmp_path / "sends.jsonl"
    run_client_killed_at_the_dot(postfix, path, key, swallow=swallow)

    again: list[str] = []
    ledger = Ledger(FileStore(path))
    outcome = ledger.once(key, lambda: again.append("sent a second time"))
    assert isinstance(outcome, Unknown)
    assert again == []
    if swallow:
        wait_for(lambda: "lost connection after DATA" in postfix.log, "the server to notice")
        assert postfix.arrivals(message_id) == []
    else:
        wait_for(lambda: postfix.deliveries(message_id), "the delivery")
        assert len(postfix.arrivals(message_id)) == 1


def test_the_servers_log_settles_what_a_kill_left_unknown(postfix: Postfix, tmp_path: Path) -> None:
    """Evidence: the Message-ID derives from the key, so the log can be asked by key."""
    key, path = "killed, settled", tmp_path / "sends.jsonl"
    run_client_killed_at_the_dot(postfix, path, key, swallow=False)

    def look_up(entry: Entry) -> Found:
        arrivals = wait_for(lambda: postfix.arrivals(derive_message_id(entry.key, DOMAIN)), "the arrival")
        return Found(provider_id=arrivals[0], note="found in the server's log")

    ledger = Ledger(FileStore(path))
    assert len(ledger.reconcile(look_up, older_than="0s").sent) == 1
    assert isinstance(ledger.once(key, lambda: pytest.fail("sent twice")), Duplicate)
    assert len(postfix.arrivals(derive_message_id(key, DOMAIN))) == 1


def test_fifty_sends_at_once_arrive_once_each(postfix: Postfix) -> None:
    client = sender(postfix.port)
    keys = [f"many {n}" for n in range(50)]
    with ThreadPoolExecutor(8) as pool:
        accepted = list(pool.map(lambda key: client.send(message(key), to="ana@learner.test"), keys))
    wait_for(lambda: all(postfix.arrivals(derive_message_id(key, DOMAIN)) for key in keys), "the arrivals")
    arrived = [postfix.arrivals(derive_message_id(key, DOMAIN)) for key in keys]
    assert arrived == [[each.provider_id] for each in accepted]
