"""How long `import send_once` takes, beside the start of a bare interpreter. Prints medians and their ratios.

Each run starts both interpreters once, one after the other, so that a busy moment of the machine falls on
both. The time of the processor is printed as well: on a busy machine it says more than the clock.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import NamedTuple

RUNS = 31
BARE = "pass"
IMPORT = "import send_once"


class Start(NamedTuple):
    """One start of an interpreter, to its end."""

    wall_ms: float
    processor_ms: float


def measure(runs: int = RUNS) -> tuple[Start, Start]:
    """The medians for a bare interpreter, and for one that imports the library."""
    for code in (BARE, IMPORT):  # once unmeasured: compiled files and the file cache
        _start(code)
    pairs = [(_start(BARE), _start(IMPORT)) for _ in range(runs)]
    return _median([bare for bare, _ in pairs]), _median([importing for _, importing in pairs])


def _median(starts: list[Start]) -> Start:
    return Start(*(statistics.median(column) for column in zip(*starts, strict=True)))


def _start(code: str) -> Start:
    started = time.perf_counter()
    pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "-c", code], os.environ)
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"the interpreter ended with {os.waitstatus_to_exitcode(status)}")
    return Start((time.perf_counter() - started) * 1000, (used.ru_utime + used.ru_stime) * 1000)


def main() -> None:
    bare, importing = measure()
    print("| start of | wall ms | ratio | processor ms | ratio |")
    print("|---|---|---|---|---|")
    print(f"| a bare interpreter | {bare.wall_ms:.1f} | 1.00 | {bare.processor_ms:.1f} | 1.00 |")
    print(
        f"| one that imports send_once | {importing.wall_ms:.1f} | {importing.wall_ms / bare.wall_ms:.2f} "
        f"| {importing.processor_ms:.1f} | {importing.processor_ms / bare.processor_ms:.2f} |"
    )
    print(
        f"\nThe import adds {importing.wall_ms - bare.wall_ms:.1f} ms, of the processor "
        f"{importing.processor_ms - bare.processor_ms:.1f} ms (target: under 60 ms)."
    )


if __name__ == "__main__":
    main()
