"""A Node and a Python process on one ledger file."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from races.running import NODE_SCRIPT, race
from send_once import FileStore, Ledger, Sent

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed: nothing races beside Python"),
]


def test_node_and_python_racing_for_the_same_keys_send_each_once(tmp_path: Path) -> None:
    _race(tmp_path, processes=3, node_processes=3, threads=2, keys=25)


@pytest.mark.full
def test_node_and_python_racing_for_long_send_each_once(tmp_path: Path) -> None:
    _race(tmp_path, processes=4, node_processes=4, threads=4, keys=400)


def test_node_settles_a_python_claim_and_hands_the_claim_member_back(tmp_path: Path) -> None:
    ledger = Ledger(FileStore(tmp_path / "ledger.jsonl"))
    claimed = ledger.claim("k", {"to": "ana"})
    assert _node_resolves(tmp_path / "ledger.jsonl", "k", "failed")
    entry = ledger.get("k")
    assert entry is not None
    assert (entry.status, entry.claim) == ("failed", claimed.entry.claim)
    again = ledger.once("k", lambda: "msg_2")
    assert isinstance(again, Sent)
    assert again.entry.attempts == 2


def test_what_node_sent_is_a_duplicate_here_and_the_other_way_round(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    race("file", [str(path)], tmp_path / "sent", processes=0, node_processes=1, threads=1, keys=2)
    ledger = Ledger(FileStore(path))
    assert ledger.once("key 0", lambda: pytest.fail("sent again")).outcome == "duplicate"
    ledger.once("key 2", lambda: "msg_2")
    beside = race("file", [str(path)], tmp_path / "sent2", processes=0, node_processes=1, threads=1, keys=3)
    assert (dict(beside.told), beside.sends.total()) == ({"duplicate": 3}, 0)


def _race(directory: Path, *, processes: int, node_processes: int, threads: int, keys: int) -> None:
    raced = race(
        "file",
        [str(directory / "ledger.jsonl")],
        directory / "sent",
        processes=processes,
        node_processes=node_processes,
        threads=threads,
        keys=keys,
    )
    assert raced.sent_each_of(keys), raced.sends
    assert set(raced.told) <= {"sent", "duplicate", "unknown"}, raced.told
    assert raced.told["sent"] == keys


def _node_resolves(ledger: Path, key: str, status: str) -> bool:
    spec = {"address": str(ledger), "resolve": key, "status": status}
    done = subprocess.run(["node", str(NODE_SCRIPT), json.dumps(spec)], capture_output=True, text=True, check=True)
    resolved: bool = json.loads(done.stdout)["resolved"]
    return resolved
