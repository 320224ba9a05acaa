"""Running the command line in tests: in this process with a fixed clock, or as a real process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from send_once.cli import main

NOW = datetime(2026, 9, 27, 20, 0, 0, tzinfo=UTC)
AT = "2026-09-27T16:00:00.000Z"
PROCESS_SECONDS_MAX = 120


@dataclass(frozen=True)
class Ran:
    """What a run ended with."""

    exit: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(*args: str, env: dict[str, str] | None = None, stdout: io.StringIO | None = None) -> Ran:
    out, err = stdout or io.StringIO(), io.StringIO()
    code = main(args, clock=lambda: NOW, stdout=out, stderr=err, env=env or {})
    return Ran(code, out.getvalue(), err.getvalue())


def process(*args: str, env: dict[str, str] | None = None) -> Ran:
    done = subprocess.run(
        [sys.executable, "-m", "send_once", *args],
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=PROCESS_SECONDS_MAX,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def line(key: str, status: str, **more: Any) -> str:
    """One line of a ledger file."""
    entry = {"key": key, "status": status, "attempts": 1, "claimedAt": AT, "updatedAt": AT, "meta": None, **more}
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n"


def mark(**more: Any) -> dict[str, Any]:
    """A claim by a process on another host."""
    return {"id": "0" * 32, "host": "web-9", "pid": 4242, "start": "abcd1234.4026531836.77", **more}


def last_entry(text: str, key: str) -> dict[str, Any]:
    """The last line of a key in a ledger file's text."""
    entries: Sequence[dict[str, Any]] = [json.loads(one) for one in text.splitlines() if one]
    return [entry for entry in entries if entry["key"] == key][-1]
