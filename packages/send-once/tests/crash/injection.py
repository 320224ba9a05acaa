"""Running a scenario in a process of its own, under strace, with one system call killed or refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import send_once
from crash.scenarios import BEGIN_MARK, END_MARK, Place

TESTS: Final = Path(__file__).resolve().parent.parent
SYNC_ORDER_CALLS: Final = "write,writev,pwrite64,ftruncate,fsync,fdatasync,rename,linkat,mkdir"

WRITES: Final = frozenset({"write", "writev", "pwrite64"})
SYNCS: Final = frozenset({"fsync", "fdatasync"})
REFUSABLE: Final = WRITES | SYNCS | {"ftruncate", "rename", "link", "linkat", "unlink", "openat", "flock", "pread64"}
"""Calls that a disk or a quota can refuse. Not fcntl: SQLite itself tries for ten seconds to get a lock."""

_CALL: Final = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)(?: resumed|\()")


class Point(NamedTuple):
    """The n-th call of a name since the operation began, and what happens there."""

    call: str
    n: int
    fault: str
    """`kill`, an error's name, `short=K` (the call claims to have written K bytes), with `+` after it
    for a fault that stays, and with `&undo` for one that hits truncating, too."""

    def options(self) -> list[str]:
        fault, _, undo = self.fault.partition("&")
        kind = fault.rstrip("+")
        when = f"when={self.n}{'+' if fault.endswith('+') else ''}"
        what = (
            "signal=SIGKILL"
            if kind == "kill"
            else f"retval={kind[6:]}"
            if kind.startswith("short=")
            else f"error={kind}"
        )
        injected = ["-e", f"inject={self.call}:{what}:{when}"]
        return [*injected, "-e", "inject=ftruncate:error=EIO:when=1+"] if undo else injected

    @property
    def kind(self) -> str:
        return self.fault.partition("=")[0].partition("&")[0].rstrip("+")

    def __str__(self) -> str:
        return f"{self.call} #{self.n} {self.fault}"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a victim ended: killed or not, what it told its caller, and its traced calls."""

    killed: bool
    told: dict[str, str] | None
    trace: str

    @property
    def was_hit(self) -> bool:
        return self.killed or "(INJECTED)" in self.trace


class Launcher:
    """The warm process in which victims and lookers are forked; one request at a time."""

    def __init__(self, store: str, scratch: Path) -> None:
        self._scratch = scratch
        program = Path(__file__).with_name("launcher.py")
        self._process = subprocess.Popen(
            [os.path.realpath(sys.executable), "-S", "-I", "-B", str(program), store, *import_path()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__(None, None, None)

    def prepare(self, place: Place, scenario: str) -> dict[str, Any]:
        return self._report("prepare", place, scenario)

    def look(self, place: Place, scenario: str) -> dict[str, Any]:
        return self._report("look", place, scenario)

    def act(
        self, place: Place, scenario: str, options: Sequence[str] | None = None, *, file_bytes_max: int | None = None
    ) -> Ending:
        """Play the scenario under strace with these options; without any, untraced."""
        pid = self._ask(do="act", place=place, scenario=scenario, file_bytes_max=file_bytes_max)["pid"]
        trace = self._scratch / f"trace-{pid}"
        tracer = None if options is None else _attach(pid, options, trace)
        os.kill(pid, signal.SIGCONT)
        answer = self._ask(do="wait", pid=pid)
        if tracer is not None:
            assert tracer.stderr is not None
            tracer.stderr.read()
            tracer.wait()
            tracer.stderr.close()
        text = trace.read_text(errors="replace") if tracer is not None else ""
        trace.unlink(missing_ok=True)
        if answer["status"] != 0 and not answer["killed"]:
            raise RuntimeError(f"The victim {_ended(answer['status'])}: {scenario} in {place}\n{text[-10_000:]}")
        return Ending(answer["killed"], answer["report"], text)

    def _report(self, do: str, place: Place, scenario: str) -> dict[str, Any]:
        answer = self._ask(do="wait", pid=self._ask(do=do, place=place, scenario=scenario)["pid"])
        if answer["status"] != 0:
            raise RuntimeError(f"To {do} {scenario!r} in {place} {_ended(answer['status'])}; see stderr.")
        report: dict[str, Any] = answer["report"]
        return report

    def _ask(self, **request: object) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def _ended(status: int) -> str:
    hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
    return "hung" if hung else f"ended with wait status {status}"


def import_path() -> list[str]:
    """Where a bare interpreter finds the library, these tests and the database driver."""
    source = Path(send_once.__file__).parent.parent
    return [str(source), str(TESTS), sysconfig.get_paths()["purelib"]]


def count_calls(launcher: Launcher, place: Place, scenario: str) -> Counter[str]:
    """How often each system call is made from the operation's beginning to its end.

    With threads, the largest count in any one of them, because an injection counts in each.
    """
    text = launcher.act(place, scenario, []).trace
    started, ended = text.index(BEGIN_MARK), text.index(END_MARK)
    begin = text.rindex("\n", 0, started) + 1 if "\n" in text[:started] else 0
    per_thread: dict[str, Counter[str]] = {}
    for thread, name in _calls(text[begin:ended]):
        per_thread.setdefault(thread, Counter())[name] += 1
    counts: Counter[str] = Counter()
    for counted in per_thread.values():
        counts |= counted
    before = Counter(name for _, name in _calls(text[:begin]))
    return Counter({name: count + before[name] for name, count in counts.items()})


def _calls(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        found = _CALL.match(line)
        if found and " resumed" not in line.partition("(")[0]:
            yield found[1], found[2]


def _attach(pid: int, options: Sequence[str], trace: Path) -> subprocess.Popen[str]:
    """Trace the stopped process. Returns once strace has it; nothing of it has run since."""
    command = ["strace", "-f", "-y", "-o", str(trace), *options, "-p", str(pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    if "attached" not in said:
        raise RuntimeError(f"strace could not attach to {pid}: {said}{tracer.stderr.read()}")
    return tracer
