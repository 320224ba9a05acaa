"""Addresses of ledgers: what they lead to, and what of them may be printed."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from send_once import Ledger, open_store
from send_once.errors import InvalidInputError, NotALedgerError, StoreError
from send_once.stores.addresses import parse_address
from send_once.stores.file import FileStore
from send_once.stores.sqlite import SQLiteStore


@pytest.mark.parametrize(
    ("address", "kind", "target", "table"),
    [
        ("sends.jsonl", "file", "sends.jsonl", "send_once"),
        ("./a:b.jsonl", "file", "./a:b.jsonl", "send_once"),
        ("C:x", "file", "C:x", "send_once"),
        ("file:sends.jsonl", "file", "sends.jsonl", "send_once"),
        ("file:/var/sends.jsonl", "file", "/var/sends.jsonl", "send_once"),
        ("file:///var/my%20sends.jsonl", "file", "/var/my sends.jsonl", "send_once"),
        ("file://localhost/var/sends.jsonl", "file", "/var/sends.jsonl", "send_once"),
        ("FILE:x", "file", "x", "send_once"),
        ("sqlite:sends.db", "sqlite", "sends.db", "send_once"),
        ("sqlite:///var/sends.db?table=mine", "sqlite", "/var/sends.db", "mine"),
        ("postgres://u@h/db", "postgres", "postgresql://u@h/db", "send_once"),
        (
            "postgresql://u:p@h:6432/db?sslmode=require&table=ops.sends",
            "postgres",
            "postgresql://u:p@h:6432/db?sslmode=require",
            "ops.sends",
        ),
        (
            "postgresql:///db?host=/run/postgresql&table=mine",
            "postgres",
            "postgresql:///db?host=/run/postgresql",
            "mine",
        ),
        ("postgres://", "postgres", "postgresql://", "send_once"),
        ("postgresql://u:p?q#r@h/db?table=mine", "postgres", "postgresql://u:p?q#r@h/db", "mine"),
    ],
)
def test_an_address_leads_to_its_store(address: str, kind: str, target: str, table: str) -> None:
    found = parse_address(address)
    assert (found.kind, found.target, found.table) == (kind, target, table)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mysql://root:secret@h/db", "No store for mysql://root:***@h/db"),
        ("file://host/x", "names a host"),
        ("sqlite:", "names no file"),
        ("sqlite:x.db?mode=ro", "the only parameter of a sqlite: address is table, not mode"),
        ("redis://h/0?password=hunter2", "password=***"),
    ],
)
def test_an_address_that_leads_nowhere_says_why(address: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        parse_address(address)
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana:s%40cret@h/db?table=x",
        "postgresql://h/db?user=ana&password=s%40cret",
        "postgresql://ana:s%40cret@h1:1,h2:2/db",
        "postgresql://ana:s@cret@h/db",
        "postgresql://ana:s#cret@h/db",
        "postgresql://ana:s?cret@h/db?table=x",
        "postgresql://ana:s/cret@h/db",
        "postgresql:///db?user=ana&pass%77ord=s%40cret",
    ],
)
def test_a_password_is_never_shown(address: str) -> None:
    shown = parse_address(address).shown
    assert "cret" not in shown
    assert "***" in shown
    assert "ana" in shown


def test_an_address_is_not_printed_by_its_own_text() -> None:
    assert "cret" not in repr(parse_address("postgresql://ana:s%40cret@h/db"))


def test_a_store_opened_by_its_address_keeps_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for address, kind in (("file:l.jsonl", FileStore), ("sqlite:l.db?table=mine", SQLiteStore)):
        store = open_store(address)
        assert isinstance(store, kind)
        assert Ledger(store).once("k", lambda: "m").outcome == "sent"
        entry = open_store(address, read_only=True).get("k")
        assert entry is not None
        assert entry.provider_id == "m"


@pytest.mark.parametrize("address", ["no.jsonl", "file:no.jsonl", "sqlite:no.db"])
def test_reading_makes_nothing(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="No such ledger: "):
        open_store(address, read_only=True)
    assert os.listdir() == []


def test_a_server_whose_host_is_a_parameter_is_reached(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    address = f"postgresql://{parts.path}?host={parts.hostname}&port={parts.port}&user={parts.username}&table=mine"
    with Ledger(open_store(address)) as ledger:
        assert ledger.once("k", lambda: "m").outcome == "sent"
    assert open_store(address, read_only=True).get("k") is not None


def test_a_database_that_is_only_read_cannot_be_written(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path / 'l.db'}"
    with Ledger(open_store(address)) as ledger:
        entry = ledger.claim("k").entry
    readonly = open_store(address, read_only=True)
    assert readonly.get("k") == entry
    assert list(readonly.list()) == [entry]
    with pytest.raises(StoreError):
        readonly.claim(entry)
    with pytest.raises(StoreError):
        readonly.transition(entry, entry)
    assert sorted(os.listdir(tmp_path)) == ["l.db", "l.db-queue"], "no log files are left behind"


def test_a_database_without_the_table_is_no_ledger_and_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NotALedgerError, match="no ledger table send_once"):
        open_store(f"sqlite:{path}", read_only=True).list()
    assert path.read_bytes() == before


def test_a_row_that_is_no_entry_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger(open_store(f"sqlite:{path}")) as ledger:
        ledger.claim("k")
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO send_once VALUES ('x', 'sent', 'rubbish', '', '')")
    connection.close()
    with pytest.raises(NotALedgerError, match="1 rows whose entry is none"):
        open_store(f"sqlite:{path}", read_only=True).list()


def test_the_postgres_driver_never_sees_our_parameter() -> None:
    found = parse_address("postgresql://h/db?table=a&application_name=x%20y")
    assert (found.target, found.table) == ("postgresql://h/db?application_name=x%20y", "a")
