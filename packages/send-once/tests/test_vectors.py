"""The recorded data is what was recorded, byte for byte: no line end, no final newline was touched."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from recorded import VECTORS, recorded

LEDGERS = sorted(path for path in (VECTORS / "ledger_files").iterdir() if path.is_dir())
FILES = [
    "approval_traces",
    "canonical_json",
    "cli",
    "durations",
    "lock_protocol",
    "once_traces",
    "send_key",
    "sql_protocol",
]


@pytest.mark.parametrize("folder", LEDGERS, ids=lambda folder: folder.name)
def test_a_recorded_ledger_is_unchanged(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    data = (folder / "ledger.jsonl").read_bytes()
    assert len(data) == expected["file_bytes"]
    assert hashlib.sha256(data).hexdigest() == expected["file_sha256"]


def test_every_recorded_file_is_here() -> None:
    assert len(LEDGERS) == 37
    assert sorted(path.stem for path in VECTORS.glob("*.json")) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_recording_is_ascii_and_says_what_it_is(name: str) -> None:
    assert (VECTORS / f"{name}.json").read_bytes().isascii()
    assert recorded(name)["about"]


def test_git_converts_no_line_end_of_the_recordings() -> None:
    attributes = (VECTORS.parents[3] / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert "packages/send-once/tests/vectors/** -text" in attributes
