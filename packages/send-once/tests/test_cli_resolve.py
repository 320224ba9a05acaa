"""`send-once resolve`, beyond the recorded runs: live processes, and settling from a provider's export."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_runs import last_entry, line, mark, process, run
from send_once import Ledger, Settlement, UncertainSendError
from send_once.commands.settling import settle
from send_once.entry import Entry, Status
from send_once.stores.file import FileStore

CLAIM_AND_STAY = """
import sys
from send_once import Ledger
from send_once.stores.file import FileStore
Ledger(FileStore(sys.argv[1])).claim(sys.argv[2])
print("claimed", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("l.jsonl")


@pytest.fixture
def sender(ledger: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has claimed `live` and is still there."""
    child = subprocess.Popen(
        [sys.executable, "-c", CLAIM_AND_STAY, str(ledger), "live"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "claimed\n"
    yield child
    child.kill()
    child.communicate()


def test_a_send_in_progress_is_not_written_off(ledger: Path, sender: subprocess.Popen[str]) -> None:
    before = ledger.read_bytes()
    refused = run("resolve", "l.jsonl", "live", "failed")
    assert refused.exit == 1
    assert f"claimed by process {sender.pid}, which is still running here" in refused.stderr
    assert ledger.read_bytes() == before


def test_a_send_in_progress_is_written_off_by_who_insists(ledger: Path, sender: subprocess.Popen[str]) -> None:
    assert run("resolve", "l.jsonl", "live", "failed", "--even-if-running").exit == 0
    assert last_entry(ledger.read_text(), "live")["status"] == "failed"


def test_a_send_in_progress_may_be_recorded_as_sent(ledger: Path, sender: subprocess.Popen[str]) -> None:
    assert run("resolve", "l.jsonl", "live", "sent").exit == 0


def test_a_send_whose_process_was_killed_is_written_off(ledger: Path, sender: subprocess.Popen[str]) -> None:
    sender.kill()
    sender.wait()
    assert run("resolve", "l.jsonl", "live", "failed").exit == 0


def test_a_send_that_ended_unknown_is_written_off_while_its_worker_goes_on(ledger: Path) -> None:
    def send() -> None:
        raise UncertainSendError("no reply")

    Ledger(FileStore(ledger)).once("k", send)
    assert process("resolve", "l.jsonl", "k", "failed").exit == 0


def test_a_provider_id_is_recorded(ledger: Path) -> None:
    ledger.write_text(line("k", "pending"))
    run("resolve", "l.jsonl", "k", "sent", "--provider-id", "msg_7")
    assert last_entry(ledger.read_text(), "k")["providerId"] == "msg_7"


def test_the_claim_is_kept_and_stays_last(ledger: Path) -> None:
    ledger.write_text(line("k", "pending", claim=mark()))
    answer = run("resolve", "l.jsonl", "k", "sent", "--json").json
    assert list(answer)[-1] == "claim"
    assert answer["claim"] == mark()
    assert last_entry(ledger.read_text(), "k") == answer


def test_what_is_written_off_is_the_attempt_that_was_judged_and_no_later_one(ledger: Path) -> None:
    """Between looking and writing, the dead attempt is settled by someone else and claimed anew by a
    process that lives."""
    ledger.write_text(line("k", "pending", claim=mark()))

    class LooksTooEarly(FileStore):
        looks = 0

        def get(self, key: str) -> Entry | None:
            seen = super().get(key)
            self.looks += 1
            if self.looks == 1:
                others = Ledger(FileStore(ledger))
                others.resolve("k", "failed")
                assert others.claim("k").outcome == "claimed"
            return seen

    store = LooksTooEarly(ledger)
    answer = settle(store, Settlement("k", Status.FAILED), by="ana", now_ms=lambda: 0.0)
    assert isinstance(answer, str)
    assert "still running here" in answer
    assert last_entry(ledger.read_text(), "k")["status"] == "pending"


EXPORT = (
    "id,external_ref,state\n"
    "m1,a,Delivered\n"
    "m2,b,rejected\n"
    "m3,c,queued\n"
    "m4,stranger,delivered\n"
    "m5,done,rejected\n"
    "m6,both,rejected\n"
    "m7,both,bounced\n"
)
BY_EXPORT = (
    "resolve", "l.jsonl", "--from-export", "e.csv", "--key-column", "external_ref", "--status-column", "state",
    "--provider-id-column", "id", "--sent-when", "delivered,bounced", "--failed-when", "rejected", "--by", "ana",
)  # fmt: skip


@pytest.fixture
def exported(ledger: Path) -> Path:
    keys = [line(key, "pending", claim=mark()) for key in ("a", "b", "c", "both", "untouched")]
    ledger.write_text("".join([*keys, line("done", "sent")]))
    Path("e.csv").write_text(EXPORT)
    return ledger


def test_an_export_settles_what_it_proves_and_names_what_it_leaves(exported: Path) -> None:
    ran = run(*BY_EXPORT)
    text = exported.read_text()
    status = {key: last_entry(text, key)["status"] for key in ("a", "b", "c", "both", "untouched", "done")}
    assert status == {
        "a": "sent", "b": "failed", "c": "pending", "both": "sent", "untouched": "pending", "done": "sent",
    }  # fmt: skip
    assert last_entry(text, "a")["providerId"] == "m1"
    resolution = last_entry(text, "b")["resolution"]
    assert (resolution["by"], resolution["note"]) == ("ana", "e.csv, row 2: rejected")
    assert ran.exit == 1
    assert ran.stdout.startswith("Settled 2 as sent and 1 as failed, from 7 rows.\n1 is not in this ledger.\n")
    assert "  done: recorded as sent" in ran.stdout
    assert "  c: the export says 'queued'" in ran.stdout


def test_a_dry_run_says_the_same_and_changes_nothing(exported: Path) -> None:
    before = exported.read_bytes()
    assert run(*BY_EXPORT, "--dry-run").stdout.startswith("Would settle 2 as sent and 1 as failed, from 7 rows.\n")
    assert exported.read_bytes() == before


def test_an_export_applied_twice_changes_nothing_the_second_time(exported: Path) -> None:
    run(*BY_EXPORT)
    before = exported.read_bytes()
    again = run(*BY_EXPORT, "--json")
    assert (again.json["settled"], again.json["already"]) == ({"sent": 0, "failed": 0}, 3)
    assert exported.read_bytes() == before


def test_no_word_of_a_provider_counts_unless_it_was_named(ledger: Path) -> None:
    ledger.write_text(line("a", "pending") + line("b", "pending"))
    Path("e.jsonl").write_text('{"key":"a","status":"bounced"}\n{"key":"b","status":"error"}\n')
    ran = run("resolve", "l.jsonl", "--from-export", "e.jsonl", "--json")
    assert (ran.exit, ran.json["settled"]) == (1, {"sent": 0, "failed": 0})


def test_an_export_does_not_write_off_a_send_in_progress(ledger: Path, sender: subprocess.Popen[str]) -> None:
    Path("e.jsonl").write_text('{"key":"live","status":"failed"}\n')
    refused = run("resolve", "l.jsonl", "--from-export", "e.jsonl")
    assert refused.exit == 1
    assert "live: still running here" in refused.stdout
    assert last_entry(ledger.read_text(), "live")["status"] == "pending"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a;b\n", "has no rows"),
        ("x,status\n1,sent\n", "Row 1 has no column 'key'. It has: x, status"),
        ('{"key":"a","status":"sent"}\nnot json\n', "e.csv, line 2 is not JSON"),
        ("[1]", "row 1 is no JSON object"),
    ],
)
def test_an_export_that_cannot_be_read_changes_nothing(exported: Path, content: str, message: str) -> None:
    before = exported.read_bytes()
    Path("e.csv").write_text(content)
    ran = run("resolve", "l.jsonl", "--from-export", "e.csv")
    assert ran.exit == 2
    assert message in ran.stderr
    assert exported.read_bytes() == before


def test_a_word_cannot_mean_both(exported: Path) -> None:
    ran = run("resolve", "l.jsonl", "--from-export", "e.csv", "--sent-when", "x", "--failed-when", "x")
    assert (ran.exit, "'x' stands in --sent-when and in --failed-when" in ran.stderr) == (2, True)


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_row_that_cannot_be_recorded_does_not_keep_the_others_from_it(ledger: Path, dry: tuple[str, ...]) -> None:
    """A database cannot hold a key with a NUL, and no entry an id without end."""
    ledger.write_text(line("a", "pending") + line("b", "pending") + line("c", "pending"))
    run("import", "sqlite:l.db", "l.jsonl")
    rows = [
        {"key": "a", "status": "sent"},
        {"key": "n\0", "status": "sent"},
        {"key": "n\0m", "status": "odd"},
        {"key": "b", "status": "sent", "id": "x" * 5_000},
        {"key": "c", "status": "sent"},
    ]
    Path("e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = ("resolve", "sqlite:l.db", "--from-export", "e.jsonl", "--provider-id-column", "id", "--json", *dry)
    ran = run(*args)
    assert ran.exit == 1
    assert (ran.json["settled"], ran.json["notInLedger"]) == ({"sent": 2, "failed": 0}, 2)
    assert [(one["key"], "longer than 4000" in one["reason"]) for one in ran.json["left"]] == [("b", True)]


def test_a_note_that_is_too_long_is_refused_once(ledger: Path) -> None:
    ledger.write_text(line("a", "pending") + line("b", "pending"))
    Path("e.csv").write_text("key,status\na,sent\nb,sent\n")
    ran = run("resolve", "l.jsonl", "--from-export", "e.csv", "--note", "x" * 5_000)
    assert (ran.exit, ran.stdout) == (2, "")
    assert ran.stderr == "Error: resolve: note is longer than 4000 characters. [invalid_input]\n"
