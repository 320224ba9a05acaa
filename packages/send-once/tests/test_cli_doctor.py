"""`send-once doctor`: what is wrong with a ledger, and accepting it."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli_runs import line, run
from send_once import Ledger
from send_once.commands.doctor_postgres import settings_findings
from send_once.errors import LedgerDamagedError
from send_once.stores.file import FileStore


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("l.jsonl")
    path.write_text(line("k", "sent"))
    return path


def findings(address: str = "l.jsonl") -> dict[str, tuple[str, str]]:
    found = run("doctor", address, "--json").json["findings"]
    return {one["about"]: (one["level"], " | ".join([one["text"], *one["details"]])) for one in found}


def test_a_sound_ledger_is_sound(ledger: Path) -> None:
    assert run("doctor", "l.jsonl").exit == 0
    assert {level for level, _ in findings().values()} == {"ok"}
    assert os.listdir() == ["l.jsonl"], "looking leaves nothing behind"


def test_a_torn_line_is_no_damage(ledger: Path) -> None:
    ledger.write_text(line("k", "sent") + '{"key":"t')
    assert run("doctor", "l.jsonl").exit == 0
    assert findings()["torn lines"][0] == "ok"


def test_damage_is_shown_with_its_place_and_harmless(ledger: Path) -> None:
    ledger.write_text(line("k", "sent") + "\x1b[2Jrubbish\n" + line("j", "sent"))
    ran = run("doctor", "l.jsonl")
    assert ran.exit == 1
    offset = len(line("k", "sent"))
    assert f"line 2, 11 bytes at offset {offset}: \\x1b[2Jrubbish" in ran.stdout


def test_the_command_that_accepts_damage_can_be_pasted_into_a_shell(ledger: Path) -> None:
    Path("-my ledger.jsonl").write_text(line("k", "sent") + "rubbish\n")
    text = " ".join(run("doctor", "--", "-my ledger.jsonl").stdout.split())
    command = text[text.index("doctor --accept-damage") : text.index(" line 2,")].replace("NAME", "ana")
    assert run(*shlex.split(command)).stdout == "Accepted as ana: line 2. Claims go on.\n"


def test_accepted_damage_lets_claims_go_on(ledger: Path) -> None:
    ledger.write_text(line("k", "sent") + "rubbish\n")
    with pytest.raises(LedgerDamagedError):
        Ledger(FileStore(ledger)).claim("new")
    assert run("doctor", "l.jsonl", "--accept-damage").exit == 2, "someone must put their name to it"
    ran = run("doctor", "l.jsonl", "--accept-damage", "--by", "ana", "--note", "a bad copy")
    assert (ran.exit, ran.stdout) == (0, "Accepted as ana: line 2. Claims go on.\n")
    assert Ledger(FileStore(ledger)).claim("new").outcome == "claimed"
    assert run("doctor", "l.jsonl").exit == 0
    assert findings()["damaged lines"][0] == "note"
    assert json.loads(Path("l.jsonl.accepted").read_text())["by"] == "ana"


def test_without_damage_there_is_nothing_to_accept(ledger: Path) -> None:
    ran = run("doctor", "l.jsonl", "--accept-damage", "--by", "ana")
    assert (ran.exit, ran.stdout) == (0, "There is no damage to accept.\n")


def test_a_file_of_something_else_is_no_ledger(ledger: Path) -> None:
    Path("x.csv").write_text("a,b\n1,2\n")
    assert run("doctor", "x.csv").exit == 1
    assert "this is no ledger" in findings("x.csv")["entries"][1]


def test_a_ledger_that_anyone_may_write_is_not_sound(ledger: Path) -> None:
    ledger.chmod(0o666)
    assert findings()["file"][0] == "bad"


def test_other_names_of_the_file_are_named(ledger: Path) -> None:
    os.link("l.jsonl", "other.jsonl")
    os.symlink("l.jsonl", "link.jsonl")
    assert findings("link.jsonl")["name"][0] == "note"
    assert "a symbolic link to" in run("doctor", "link.jsonl").stdout


def test_a_writer_at_work_is_seen(ledger: Path) -> None:
    with ledger.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert findings()["kernel lock"] == ("ok", "held by a writer right now")
    assert findings()["kernel lock"] == ("ok", "free")


def lock_by(pid: int, host: str, age_seconds: float) -> None:
    at = int((time.time() - age_seconds) * 1000)
    body: dict[str, Any] = {"pid": pid, "host": host, "token": "0123456789abcdef", "at": at}
    Path("l.jsonl.lock").write_text(json.dumps(body))


def doctor_now() -> dict[str, tuple[str, str]]:
    done = subprocess.run(
        [sys.executable, "-m", "send_once", "doctor", "l.jsonl", "--json"], capture_output=True, check=False
    )
    found = json.loads(done.stdout)["findings"]
    return {one["about"]: (one["level"], one["text"]) for one in found}


def test_a_lock_file_and_its_holder_are_named(ledger: Path) -> None:
    lock_by(os.getpid(), socket.gethostname(), 2)
    level, text = doctor_now()["lock file"]
    assert (level, f"held by process {os.getpid()} on {socket.gethostname()}" in text) == ("ok", True)


def test_a_lock_that_is_held_too_long_needs_a_person(ledger: Path) -> None:
    lock_by(1, "elsewhere", 3_600)
    level, text = doctor_now()["lock file"]
    assert level == "bad"
    assert "held by process 1 on elsewhere, for 1h" in text
    assert "delete" in text


def test_a_lock_whose_holder_is_gone_needs_nobody(ledger: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock_by(gone.pid, socket.gethostname(), 3_600)
    level, text = doctor_now()["lock file"]
    assert (level, "the next writer removes it" in text) == ("ok", True)


@pytest.fixture
def database(ledger: Path) -> str:
    run("import", "sqlite:l.db", "l.jsonl")
    return "sqlite:l.db"


def change(sql: str) -> None:
    connection = sqlite3.connect("l.db")
    with connection:
        connection.execute(sql)
    connection.close()


def test_a_sound_database_is_sound(database: str) -> None:
    assert run("doctor", database).exit == 0
    assert {level for level, _ in findings(database).values()} == {"ok"}


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("UPDATE send_once SET status = 'failed'", "k: its entry has another status"),
        ("UPDATE send_once SET key = 'other'", "other: its entry has another key"),
        ("UPDATE send_once SET entry = '{}'", "k: its entry is none"),
    ],
)
def test_a_row_that_contradicts_itself_is_named(database: str, sql: str, reason: str) -> None:
    change(sql)
    assert run("doctor", database).exit == 1
    level, text = findings(database)["entries"]
    assert (level, reason in text) == ("bad", True)


def test_a_damaged_database_is_not_sound(database: str) -> None:
    change("CREATE INDEX extra ON send_once (status)")
    change("PRAGMA wal_checkpoint(TRUNCATE)")
    connection = sqlite3.connect("l.db")
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'extra'").fetchone()
    connection.close()
    with Path("l.db").open("r+b") as file:
        file.seek((root - 1) * 4096 + 3)
        file.write(b"\x00\x00")
    assert findings(database)["integrity"][0] == "bad"


def test_a_database_without_the_table_is_no_ledger(ledger: Path) -> None:
    sqlite3.connect("l.db").close()
    change("CREATE TABLE other (x)")
    ran = run("doctor", "sqlite:l.db")
    assert (ran.exit, "[not_a_ledger]" in ran.stderr) == (2, True)


SOUND = {
    "version": "16.1", "synchronous_commit": "on", "fsync": "on", "full_page_writes": "on", "in_recovery": "false",
    "read_only": "off", "standbys": "ANY 1 (a, b)",
}  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "about", "level"),
    [
        ({}, "standbys", "ok"),
        ({"standbys": ""}, "standbys", "note"),
        ({"synchronous_commit": "off"}, "synchronous_commit", "bad"),
        ({"fsync": "off"}, "fsync", "bad"),
        ({"in_recovery": "true"}, "role", "bad"),
        ({"read_only": "on"}, "role", "bad"),
    ],
)
def test_a_server_that_may_lose_a_claim_is_not_sound(setting: dict[str, str], about: str, level: str) -> None:
    found = {one.about: one.level for one in settings_findings({**SOUND, **setting})}
    assert found[about] == level
    assert "bad" not in {one for name, one in found.items() if name != about}
