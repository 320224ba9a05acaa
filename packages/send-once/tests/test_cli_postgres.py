"""The command line on a ledger in a real PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli_runs import line, mark, run
from send_once import Ledger, RejectedSendError
from send_once.stores.addresses import open_store


@pytest.fixture
def address(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger of three keys in a fresh database."""
    monkeypatch.chdir(tmp_path)
    Path("l.jsonl").write_text(line("a", "sent") + line("b", "pending", claim=mark()) + line("c", "failed"))
    assert run("import", postgres_url, "l.jsonl").exit == 0
    return postgres_url


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as opened:
        yield opened


def findings(address: str) -> dict[str, tuple[str, str]]:
    found = run("doctor", address, "--json").json["findings"]
    return {one["about"]: (one["level"], " | ".join([one["text"], *one["details"]])) for one in found}


def test_reports_read_as_those_of_a_file(address: str) -> None:
    for command, *rest in (("audit",), ("show", "b"), ("history", "b"), ("list",), ("stats",)):
        in_file, in_table = (run(command, name, *rest, "--json").json for name in ("l.jsonl", address))
        if isinstance(in_table, dict) and "ledger" in in_table:
            in_table["ledger"] = "l.jsonl"
        assert in_table == in_file, command
    assert run("export", address).stdout == Path("l.jsonl").read_text()


def test_a_send_is_settled_and_imported_once(address: str) -> None:
    assert run("resolve", address, "b", "sent", "--by", "ana").stdout.startswith("Resolved b as sent.")
    assert run("audit", address).exit == 0
    again = run("import", address, "l.jsonl", "--json").json
    assert (again["inserted"], again["present"], again["different"]) == (0, 3, 1)


def test_keys_that_it_cannot_hold_are_left_out_and_named(postgres_url: str, tmp_path: Path) -> None:
    source = tmp_path / "odd.jsonl"
    source.write_text(line("a", "sent") + line("KEY", "sent").replace("KEY", "n\\u0000") + line("b", "sent"))
    ran = run("import", postgres_url, str(source), "--json")
    assert (ran.exit, ran.json["inserted"], [one["key"] for one in ran.json["refused"]]) == (1, 2, ["n\0"])


def test_an_import_shows_no_password(address: str) -> None:
    Path("more.jsonl").write_text(line("b", "sent") + "rubbish\n")
    secret = f"{address}{'&' if '?' in address else '?'}password=secret"
    run("doctor", "more.jsonl", "--accept-damage", "--by", "ana")
    ran = run("import", secret, "more.jsonl")
    assert (ran.exit, "send-once resolve " in ran.stdout, "secret" in ran.stdout + ran.stderr) == (1, True, False)


def test_a_persons_send_is_found(address: str) -> None:
    Path("more.jsonl").write_text(line("f" * 64, "sent", meta={"to": "Ana@example.com"}))
    run("import", address, "more.jsonl")
    assert run("list", address, "--grep", "ana@").stdout.split()[3:] == ["Ana@example.com", "f" * 64]


def test_another_table_is_another_ledger(address: str, connection: psycopg.Connection[Any]) -> None:
    other = f"{address}{'&' if '?' in address else '?'}table=other"
    assert run("import", other, "l.jsonl", "--json").json["inserted"] == 3
    assert connection.execute("SELECT count(*) FROM other").fetchone() == (3,)


def test_reading_makes_no_table(postgres_url: str, connection: psycopg.Connection[Any]) -> None:
    for command in ("audit", "list", "stats", "export"):
        ran = run(command, postgres_url)
        assert (ran.exit, ran.stdout) == (2, ""), command
    assert connection.execute("SELECT to_regclass('send_once')").fetchone() == (None,)


def test_a_server_that_is_not_there_is_one_line_without_the_password(tmp_path: Path) -> None:
    for command in ("audit", "doctor"):
        ran = run(command, f"postgresql://ana:secret@/db?host={tmp_path}&connect_timeout=1")
        assert ran.exit == 2
        assert ran.stderr.startswith("Error: ")
        assert ran.stderr.count("\n") == 1
        assert "secret" not in ran.stderr


@pytest.mark.parametrize("command", ["audit", "doctor"])
def test_without_the_driver_the_extra_is_named(command: str) -> None:
    code = "import sys; sys.modules['psycopg'] = None; from send_once.cli import main; sys.exit(main())"
    ran = subprocess.run(
        [sys.executable, "-c", code, command, "postgresql://h/db"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("Error: ")
    assert "pip install 'send-once[postgres]'" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_sound_database_is_sound(address: str) -> None:
    found = findings(address)
    assert "bad" not in {level for level, _ in found.values()}
    assert found["entries"] == ("ok", "3 rows, each an entry that agrees with its columns")


def test_settings_under_which_a_claim_may_be_lost_are_named(address: str, connection: psycopg.Connection[Any]) -> None:
    connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET synchronous_commit = off')
    assert run("doctor", address).exit == 1
    assert findings(address)["synchronous_commit"][0] == "bad"


def test_a_table_that_cannot_be_a_ledger_is_named(postgres_url: str, connection: psycopg.Connection[Any]) -> None:
    assert findings(postgres_url)["table"] == ("bad", "send_once does not exist here")
    connection.execute("CREATE TABLE send_once (key text, status text, entry jsonb, claimed_at text, updated_at text)")
    found = findings(postgres_url)
    assert (found["table"][0], "entry is jsonb" in found["table"][1]) == ("bad", True)
    assert found["key"][0] == "bad"


def test_a_row_that_someone_changed_is_named(address: str, connection: psycopg.Connection[Any]) -> None:
    connection.execute("UPDATE send_once SET status = 'failed' WHERE key = 'a'")
    assert "a: its entry has another status" in findings(address)["entries"][1]


def test_a_ledger_opened_by_its_address_sends_once(address: str) -> None:
    def refused() -> None:
        raise RejectedSendError("no")

    with Ledger(open_store(address)) as ledger:
        assert ledger.once("a", refused).outcome == "duplicate"
        assert ledger.once("new", lambda: "m").outcome == "sent"
    assert run("show", address, "new").exit == 0
