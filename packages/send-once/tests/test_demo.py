"""`make demo` tells its story to the end, on a terminal of 80 columns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[3] / "examples" / "demo" / "run.py"


def test_the_demo_holds_every_claim_it_makes() -> None:
    done = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT SO" not in done.stdout
    told = [line.strip() for line in done.stdout.splitlines()]
    assert [word for word in told if word in {"unknown", "duplicate"}] == ["unknown", "duplicate"]
    assert "[ok] copies in the mailbox: 1" in told
    assert max(map(len, done.stdout.splitlines())) <= 80
