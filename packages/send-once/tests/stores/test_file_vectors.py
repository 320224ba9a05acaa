"""FileStore against what the reference was recorded to answer: ledgers read, lock files judged."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from send_once.errors import LockTimeoutError, StoreError
from send_once.moves import claimed
from send_once.owner import new_mark
from send_once.stores.damage import Snapshot
from send_once.stores.file import FileStore
from send_once.stores.lockbody import lock_body, read_lock_body

VECTORS = Path(__file__).parents[1] / "vectors"
LEDGERS = sorted(path.name for path in (VECTORS / "ledger_files").iterdir() if path.is_dir())
LOCKS: list[dict[str, Any]] = json.loads((VECTORS / "lock_protocol.json").read_text())["judged"]


def reading_of(path: Path) -> Snapshot:
    return FileStore(path).snapshot()


def as_doubles(value: Any) -> Any:
    """JSON as the recording shows it: every number a double, and one too large for that as null."""
    if isinstance(value, dict):
        return {name: as_doubles(member) for name, member in value.items()}
    if isinstance(value, list):
        return [as_doubles(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return None if math.isinf(value) else float(value)


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_is_read_as_the_reference_reads_it(name: str) -> None:
    folder = VECTORS / "ledger_files" / name
    expected = json.loads((folder / "expected.json").read_text())["parse"]
    snapshot = reading_of(folder / "ledger.jsonl")
    assert snapshot.skipped == expected["skipped"]
    if expected.get("entries_are_keys_only"):
        assert [entry.key for entry in snapshot.entries] == expected["entries"]
    else:
        read = [as_doubles(json.loads(entry.text, parse_int=float)) for entry in snapshot.entries]
        assert read == as_doubles(expected["entries"])


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_read_in_two_pieces_reads_the_same(name: str, tmp_path: Path) -> None:
    data = (VECTORS / "ledger_files" / name / "ledger.jsonl").read_bytes()
    whole = reading_of(VECTORS / "ledger_files" / name / "ledger.jsonl")
    for cut in range(0, len(data), max(1, len(data) // 23)):
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(data[:cut])
        store = FileStore(path)
        store.list()
        with path.open("ab") as file:
            file.write(data[cut:])
        assert store.snapshot() == whole


def test_only_a_cut_entry_is_torn_and_everything_else_skipped_is_damage() -> None:
    torn_only = {"torn_last_line", "torn_inside_utf8", "torn_then_continued", "mixed"}
    for name in LEDGERS:
        snapshot = reading_of(VECTORS / "ledger_files" / name / "ledger.jsonl")
        expected = 0 if name in torn_only else snapshot.skipped
        assert len(snapshot.damaged) == expected, name


def test_a_lock_body_is_the_references_byte_for_byte() -> None:
    body = lock_body()
    members = json.loads(body)
    assert list(members) == ["pid", "host", "token", "at"]
    assert (members["pid"], members["host"]) == (os.getpid(), socket.gethostname())
    assert len(members["token"]) == 16 and set(members["token"]) <= set("0123456789abcdef")
    assert abs(members["at"] - time.time() * 1000) < 60_000
    assert body == json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
    assert read_lock_body(body.decode()) is not None


# The reference throws its own error types; ours says the same in ours.
DIFFERENT_ERRORS = {"lock path is a directory": (StoreError, "is a directory")}


@pytest.fixture(scope="module")
def dead_pid() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def filled_in(body: str, dead_pid: int) -> str:
    now_ms = int(time.time() * 1000)
    body = body.replace("<DEAD_PID>", str(dead_pid)).replace("<LIVE_PID>", str(os.getppid()))
    body = body.replace("<HOST>", socket.gethostname())
    for part in [piece.split(">")[0] for piece in body.split("<NOW")[1:]]:
        seconds = int(part.removesuffix("s"))
        body = body.replace(f"<NOW{part}>", str(now_ms + seconds * 1000))
    return body


@pytest.mark.parametrize("case", LOCKS, ids=[case["name"] for case in LOCKS])
def test_a_lock_file_is_judged_as_the_reference_judges_it(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead_pid: int
) -> None:
    monkeypatch.chdir(tmp_path)
    lock = Path("ledger.jsonl.lock")
    if case["name"] == "lock path is a directory":
        lock.mkdir()
    else:
        lock.write_text(filled_in(case["lock_body"], dead_pid))
        if "mtime_age_ms" in case:
            mtime = time.time() - case["mtime_age_ms"] / 1000
            os.utime(lock, (mtime, mtime))
    options = case["options"]
    store = FileStore(
        "ledger.jsonl",
        lock_timeout_seconds=options["lockTimeoutMs"] / 1000,
        stale_lock_seconds=options.get("staleLockMs", 30_000) / 1000,
    )
    entry = claimed("k", meta=None, mark=new_mark(), now_ms=1_790_510_400_000)
    if case["outcome"] == "refused":
        kind, text = DIFFERENT_ERRORS.get(case["name"], (LockTimeoutError, case["throws"]["message"]))
        with pytest.raises(kind) as raised:
            store.claim(entry)
        assert text in str(raised.value)
        assert store.get("k") is None
    else:
        assert store.claim(entry) is case["claimed"]
    assert lock.exists() is case["lock_file_after"]
    store.close()
    left = set(os.listdir()) - {"ledger.jsonl", "ledger.jsonl.lock"}
    assert left == set(case["other_files_after"])
