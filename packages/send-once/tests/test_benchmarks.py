"""The benchmarks run and print; what they print is for people to read, and is not judged here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
SCRIPTS = [
    "sqlite_once.py",
    "file_once.py",
    "file_size.py",
    "postgres_once.py",
    "processes.py",
    "batches.py",
    "peers.py",
]


def test_every_benchmark_is_run_by_the_report() -> None:
    report = (BENCHMARKS / "run.py").read_text()
    scripts = {path.name for path in BENCHMARKS.glob("*.py")} - {"run.py", "timing.py"}
    assert scripts == {*SCRIPTS, "import_time.py"}
    assert all(script in report for script in scripts)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_prints_its_table(script: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, "--quick"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "|---|" in done.stdout
