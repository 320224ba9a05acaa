"""Who was mailed: finding a person's send, though keys are hashes; and who settled what."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_runs import line, mark, run
from send_once import Ledger, RejectedSendError, UncertainSendError
from send_once.commands.rows import recipient
from send_once.entry import Entry
from send_once.stores.addresses import open_store


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("l.jsonl")


def recipient_of(meta: object) -> str | None:
    return recipient(Entry({"key": "k", "status": "sent", "claimedAt": "", "meta": meta}))


@pytest.mark.parametrize(
    ("meta", "who"),
    [
        ({"to": "ana@example.com"}, "ana@example.com"),
        ({"template": "welcome", "to": "ana@example.com"}, "ana@example.com"),
        ({"template": "welcome", "n": 1}, "welcome"),
        ({"n": 1, "phone": "+49 30 1"}, "+49 30 1"),
        ({"to": ["ana@example.com", "ben@example.com"]}, "ana@example.com, ben@example.com"),
        ({"to": {"name": "Ana"}, "id": "u1"}, "u1"),
        ({"to": "", "id": "u1"}, "u1"),
        ({"approvedBy": "boss", "approvedAt": "2026", "to": "ana@example.com"}, "ana@example.com"),
        ({"approvedBy": "boss", "approvedAt": "2026", "n": 2}, None),
        ("ana@example.com", "ana@example.com"),
        (["x", "y"], "x"),
        (None, None),
        (7, None),
        ({}, None),
    ],
)
def test_whom_a_send_is_for_is_the_metas_to_or_its_first_text(meta: object, who: str | None) -> None:
    assert recipient_of(meta) == who


def test_the_list_shows_whom_each_send_is_for_in_a_column(ledger: Path) -> None:
    long = "a" * 60 + "@example.com"
    metas = [{"to": "ana@example.com"}, {"to": long}, None, {"to": "z\x1b[2J"}]
    ledger.write_text("".join(line(f"{n}" * 64, "sent", meta=meta) for n, meta in enumerate(metas)))
    rows = run("list", "l.jsonl").stdout.splitlines()
    assert [row.split()[3] for row in rows] == ["ana@example.com", f"{long[:39]}…", "-", r"z\x1b[2J"]
    assert {row.index(str(number) * 64) for number, row in enumerate(rows)} == {81}


PEOPLE = [
    line("a" * 64, "sent", meta={"to": "Ana@Example.com"}, providerId="MSG-7"),
    line("b" * 64, "failed", meta={"to": "ben@example.com", "of": {"order": [1042]}}, error="550 No such User"),
    line("Straße", "pending", meta={"to": "zoë@example.com"}),
]


@pytest.mark.parametrize("address", ["l.jsonl", "sqlite:l.db"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ana@example.COM", "a"),
        ("msg-7", "a"),
        ("no such user", "b"),
        ("1042", "b"),
        ("ORDER", "b"),
        ("BBBB", "b"),
        ("ZOË", "S"),
        ("strasse", "S"),
        ("zoe\u0308", "S"),
        ("example", "abS"),
        ("nobody", ""),
    ],
)
def test_a_text_finds_the_entries_that_hold_it(ledger: Path, address: str, text: str, found: str) -> None:
    ledger.write_text("".join(PEOPLE))
    run("import", "sqlite:l.db", "l.jsonl")
    ran = run("list", address, "--grep", text, "--json")
    assert ran.exit == 0
    assert [entry["key"][0] for entry in ran.json] == list(found)


def test_a_found_entry_counts_against_the_limit_and_other_conditions(ledger: Path) -> None:
    ledger.write_text("".join(PEOPLE))
    text = run("list", "l.jsonl", "--grep", "example", "--limit", "1").stdout
    assert text.splitlines()[1:] == ["… and 2 more"]
    failed = run("list", "l.jsonl", "--grep", "example", "--status", "failed").stdout
    assert failed.split()[3] == "ben@example.com"


def test_nothing_found_is_said_beside_the_output(ledger: Path) -> None:
    ledger.write_text("".join(PEOPLE))
    ran = run("list", "l.jsonl", "--grep", "nobody")
    assert (ran.exit, ran.stdout, ran.stderr) == (0, "", "No entry matches.\n")
    assert run("list", "l.jsonl", "--grep", "nobody", "--json").stderr == ""
    ledger.write_text("")
    assert run("list", "l.jsonl").stderr == "The ledger is empty.\n"


def lose() -> None:
    raise UncertainSendError("no reply")


def refuse() -> None:
    raise RejectedSendError("550")


@pytest.mark.parametrize("address", ["l.jsonl", "sqlite:l.db"])
def test_show_says_who_settled_earlier_attempts(ledger: Path, address: str) -> None:
    with Ledger(open_store(address)) as opened:
        for name, note in (("ana", "provider log"), ("ben", None)):
            opened.once("k", lose)
            opened.resolve("k", "failed", by=name, note=note)
        opened.once("k", refuse)
    text = " ".join(run("show", address, "k").stdout.split())
    assert "attempt 1 had been resolved as failed by ana at " in text
    assert ": provider log" in text
    assert text.count("attempt 2 had been resolved as failed by ben at ") == 1


def test_show_says_who_settled_an_attempt_that_only_the_files_lines_tell_of(ledger: Path) -> None:
    """The Node package keeps no record of earlier attempts in the entry."""
    settled = {"status": "failed", "from": "pending", "by": "ops", "note": "x", "at": "2026-09-27T17:00:00.000Z"}
    ledger.write_text(line("k", "failed", resolution=settled) + line("k", "pending", attempts=2))
    assert "attempt 1 had been resolved as failed by ops" in " ".join(run("show", "l.jsonl", "k").stdout.split())


def test_show_says_who_settled_an_attempt_that_only_the_entry_tells_of(ledger: Path) -> None:
    """A compacted file has lost its history."""
    settled = {"status": "failed", "from": "pending", "by": "ops\x1b[2J", "at": "2026-09-27T17:00:00.000Z"}
    before = {"attempt": 1, "claimedAt": "x", "status": "failed", "resolution": settled}
    ledger.write_text(line("k", "failed", attempts=2, claim=mark(before=[before])))
    text = " ".join(run("show", "l.jsonl", "k").stdout.split())
    assert r"attempt 1 had been resolved as failed by ops\x1b[2J" in text


def test_what_it_is_now_is_said_once(ledger: Path) -> None:
    ledger.write_text(line("k", "pending"))
    run("resolve", "l.jsonl", "k", "sent", "--by", "ana")
    assert run("show", "l.jsonl", "k").stdout.count("by ana") == 1
