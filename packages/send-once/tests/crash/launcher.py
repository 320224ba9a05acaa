"""The process in which scenario processes are forked, already warm.

Run as a script by the real interpreter (`-S -I -B`), with the store's name and the import path as arguments. Reads one
JSON request a line, answers one JSON line. A victim is forked, stops itself before its first step,
and waits for a tracer, so that every system call counted or injected belongs to the operation.
A fork of a process that never opened a store is as fresh as one that was just started.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = sys.argv[2:]

from crash import scenarios  # noqa: E402  # the import path is an argument of this script

CHILD_SECONDS_MAX = 120
"""A child that hangs ends by SIGALRM, and its point is reported; no scenario takes that long."""


def main() -> None:
    scenarios.warm_up(sys.argv[1])
    children: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer = _start(request, children) if request["do"] != "wait" else _wait(request["pid"], children)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _start(request: dict[str, Any], children: dict[int, int]) -> dict[str, Any]:
    """Fork a child for `request`; it writes its report to a memory file that the launcher reads."""
    report_fd = os.memfd_create("report")
    pid = os.fork()
    if pid == 0:
        _child(request, report_fd)
    children[pid] = report_fd
    if request["do"] == "act":
        os.waitpid(pid, os.WUNTRACED)
    return {"pid": pid}


def _child(request: dict[str, Any], report_fd: int) -> None:
    """Never returns. `pwritev` carries the report, because no store uses it and nothing injects it."""
    signal.alarm(CHILD_SECONDS_MAX)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    status = 1
    try:
        report = scenarios.run(request)
        os.pwritev(report_fd, [json.dumps(report).encode()], 0)
        status = 0
    except BaseException:
        if request["do"] != "act":
            sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _wait(pid: int, children: dict[int, int]) -> dict[str, Any]:
    report_fd = children.pop(pid)
    _, status = os.waitpid(pid, 0)
    text = os.pread(report_fd, 1 << 24, 0)
    os.close(report_fd)
    return {
        "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGALRM,
        "status": status,
        "report": json.loads(text) if text else None,
    }


if __name__ == "__main__":
    main()
