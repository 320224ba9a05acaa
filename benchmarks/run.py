"""Run every benchmark and write build/benchmarks.md. `--quick` only shows that they run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from timing import machine

HERE = Path(__file__).parent
REPORT = HERE.parent / "build" / "benchmarks.md"

BENCHMARKS = {
    "sqlite_once.py": "SQLite",
    "file_once.py": "File",
    "file_size.py": "File, as the ledger grows",
    "postgres_once.py": "Postgres",
    "processes.py": "Several processes",
    "batches.py": "Batches",
    "peers.py": "Beside peers",
    "import_time.py": "Import",
}


def main() -> None:
    parts = [f"# Benchmarks\n\nTaken on {machine()}. Ratios are of medians taken in one run, in turn.\n"]
    failed = []
    for script, title in BENCHMARKS.items():
        print(f"## {title}\n", flush=True)
        done = subprocess.run(
            [sys.executable, HERE / script, *sys.argv[1:]], capture_output=True, text=True, check=False
        )
        print(done.stdout, flush=True)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            failed.append(script)
        parts.append(f"## {title}\n\n{done.stdout}")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text("\n".join(parts), encoding="utf-8")
    print(f"Written to {REPORT.relative_to(HERE.parent)}.")
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
