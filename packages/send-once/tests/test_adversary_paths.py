"""One ledger under many spellings of its path: every one leads to it, and none gets in its own way."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from send_once import Duplicate, FileStore, Ledger, Sent, SQLiteStore

SPELLINGS = ("./ledger", "sub/../ledger", ".//ledger", "linked/ledger", "linked/deep/../ledger")
"""Of `here/ledger`, seen from `here`; `linked` leads back to `here`."""
STORES: dict[str, Callable[[str], Any]] = {"file": FileStore, "sqlite": SQLiteStore}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    (folder / "deep").mkdir(parents=True)
    (folder / "sub").mkdir()
    (folder / "linked").symlink_to(folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("kind", STORES)
def test_every_spelling_of_a_path_leads_to_the_ledger_and_can_claim(here: Path, kind: str, spelling: str) -> None:
    with Ledger(STORES[kind](spelling)) as ledger:
        assert isinstance(ledger.once("first", lambda: "id"), Sent)
        with Ledger(STORES[kind](str(here / "ledger"))) as plain:
            assert isinstance(plain.once("first", lambda: "id"), Duplicate)
            assert isinstance(plain.once("second", lambda: "id"), Sent)
        assert isinstance(ledger.once("second", lambda: "id"), Duplicate)
    assert not (here / "ledger.lock").exists()


@pytest.mark.parametrize("kind", STORES)
def test_two_dots_after_a_link_are_taken_as_the_kernel_takes_them(here: Path, kind: str) -> None:
    """Another program that is given the same path opens the file where the kernel finds it."""
    away = here / "away"
    (away / "deep").mkdir(parents=True)
    (here / "link").symlink_to(away / "deep")
    with Ledger(STORES[kind]("link/../ledger")) as ledger:
        ledger.once("key", lambda: "id")
    assert (away / "ledger").exists()
    assert not (here / "ledger").exists()
    if kind == "sqlite":
        with sqlite3.connect("link/../ledger") as other:
            assert other.execute("SELECT key FROM send_once").fetchall() == [("key",)]
