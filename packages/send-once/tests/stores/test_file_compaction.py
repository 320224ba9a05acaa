"""Compaction keeps every key, replaces the file in one step, and never lets a message go out again."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from send_once.entry import Status
from send_once.errors import LedgerDamagedError, RejectedSendError, StoreError, UncertainSendError
from send_once.ledger import Ledger
from send_once.moves import claimed
from send_once.owner import new_mark
from send_once.stores.file import FileStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def rejected() -> None:
    raise RejectedSendError("422")


def uncertain() -> None:
    raise UncertainSendError("timed out")


def filled(path: Path) -> Ledger:
    ledger = Ledger(FileStore(path))
    ledger.once("sent", lambda: "msg_1", {"to": "ana@example.com"})
    ledger.once("failed", rejected)
    ledger.once("unknown", uncertain)
    return ledger


def test_after_compaction_nothing_is_sent_that_was_not_to_be_sent_before(path: Path) -> None:
    filled(path)
    FileStore(path).compact()
    calls: list[str] = []
    ledger = Ledger(FileStore(path))
    assert ledger.once("sent", lambda: calls.append("sent")).outcome == "duplicate"
    assert ledger.once("unknown", lambda: calls.append("unknown")).outcome == "unknown"
    assert calls == []
    assert ledger.once("failed", lambda: calls.append("failed")).outcome == "sent"


def test_a_sent_entry_becomes_the_references_smallest_and_the_others_stay_whole(path: Path) -> None:
    ledger = filled(path)
    whole = {key: ledger.get(key) for key in ("failed", "unknown")}
    done = FileStore(path).compact()
    first, *others = path.read_text().splitlines()
    assert list(json.loads(first)) == ["key", "status", "attempts", "claimedAt", "updatedAt", "meta"]
    assert json.loads(first)["meta"] is None
    assert others == [entry.text for entry in whole.values() if entry is not None]
    assert (done.entries, done.tombstones, done.bytes_after) == (3, 1, path.stat().st_size)


def test_the_old_file_stays_beside_the_new_one(path: Path) -> None:
    filled(path)
    before = path.read_bytes()
    done = FileStore(path).compact()
    assert Path(done.backup).read_bytes() == before
    again = FileStore(path).compact()
    assert again.backup != done.backup


def test_a_store_that_was_open_goes_on_with_the_new_file(path: Path) -> None:
    ledger, other = filled(path), FileStore(path)
    other.list()
    FileStore(path).compact()
    assert ledger.once("new", lambda: "msg_9").outcome == "sent"
    entry = other.get("new")
    assert entry is not None and entry.status is Status.SENT
    assert not other.claim(claimed("sent", meta=None, mark=new_mark(), now_ms=0))


def test_entries_younger_than_asked_for_are_kept_whole(path: Path) -> None:
    ledger = filled(path)
    before = ledger.get("sent")
    assert FileStore(path).compact(older_than="30d").tombstones == 0
    assert ledger.get("sent") == before


def test_a_symlink_goes_on_leading_to_the_ledger(path: Path) -> None:
    filled(path)
    link = path.with_name("link.jsonl")
    link.symlink_to(path)
    FileStore(link).compact()
    assert link.is_symlink()
    assert not FileStore(path).claim(claimed("sent", meta=None, mark=new_mark(), now_ms=0))


def test_a_ledger_with_another_hard_link_is_not_split_in_two(path: Path) -> None:
    filled(path)
    path.with_name("other.jsonl").hardlink_to(path)
    with pytest.raises(StoreError, match="has 2 names"):
        FileStore(path).compact()


def test_a_compaction_that_died_before_its_end_is_swept_up_by_the_next(path: Path) -> None:
    filled(path)
    Path(f"{path}.20260927T160000Z.bak").hardlink_to(path)
    Path(f"{path}.compacting").write_text("half a li")
    FileStore(path).compact()
    assert not Path(f"{path}.compacting").exists()
    assert path.stat().st_nlink == 1


def test_damage_nobody_has_seen_is_not_compacted_away(path: Path) -> None:
    filled(path)
    with path.open("ab") as file:
        file.write(b"garbage\n")
    with pytest.raises(LedgerDamagedError):
        FileStore(path).compact()
    FileStore(path).accept_damage(by="ops")
    FileStore(path).compact()
    assert FileStore(path).snapshot().skipped == 0


@pytest.mark.parametrize("name", ["write", "fsync", "link", "rename"])
def test_a_compaction_that_fails_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    ledger = filled(path)
    entries = ledger.entries()
    store = FileStore(path)
    store.claim(claimed("sent", meta=None, mark=new_mark(), now_ms=0))
    real = getattr(os, name)

    def fails(*args: object, **options: object) -> object:
        if name == "link" and str(args[1]).endswith(".lock"):
            return real(*args, **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(os, name, fails)
        with pytest.raises(StoreError):
            store.compact()
    assert FileStore(path).list() == entries
    assert store.claim(claimed("new", meta=None, mark=new_mark(), now_ms=0))
