"""Who makes a claim, and whether that process is still there."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from send_once.entry import ClaimMark

Liveness = Literal["running here", "process gone", "another boot", "another host", "another container", "not known"]

_START_PARTS: Final = 3
_START_TIME: Final = 19  # field 22 of proc(5)'s stat, counted from the one after the command name


class Owner(NamedTuple):
    """This process as a claim names it. `start` tells it from a later process with the same id: on
    Linux `<boot id>.<pid namespace>.<clock ticks at start>`, elsewhere random per process."""

    host: str
    pid: int
    start: str


def new_mark(payload: str | None = None) -> ClaimMark:
    """A mark with an id nobody else has (128 random bits from the operating system)."""
    owner = this_owner()
    return ClaimMark(os.urandom(16).hex(), owner.host, owner.pid, owner.start, payload)


def this_owner() -> Owner:
    """This process, right also after a fork."""
    return _owner_of(os.getpid())


def liveness(mark: ClaimMark | None) -> Liveness:
    """Whether the process that made the claim still runs, as far as can be told from here.

    For showing only: nothing is ever sent again because of it.
    """
    if mark is None or not mark.start or mark.pid <= 0:
        return "not known"
    if mark.host != os.uname().nodename:
        return "another host"
    here, there = this_owner().start.split("."), mark.start.split(".")
    if len(here) != _START_PARTS or len(there) != _START_PARTS:
        return "running here" if mark.start == this_owner().start else "not known"
    if here[0] != there[0]:
        # This machine restarted and the process is gone, or another one bears its name and runs it still.
        return "another boot"
    if here[1] != there[1]:
        return "another container"
    return "running here" if _start_ticks(mark.pid) == there[2] else "process gone"


@lru_cache(maxsize=1)
def _owner_of(pid: int) -> Owner:
    # Keyed by pid, so that a forked child does not speak with its parent's name.
    return Owner(os.uname().nodename, pid, _start_of(pid))


def _start_of(pid: int) -> str:
    boot, namespace, ticks = _boot_id(), _pid_namespace(), _start_ticks(pid)
    return f"{boot}.{namespace}.{ticks}" if boot and namespace and ticks else os.urandom(8).hex()


def _boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id")[:8]


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""


def _start_ticks(pid: int) -> str:
    """When the process started, or "" if it has ended. The command name may hold spaces: count after it."""
    after_name = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    ended = not after_name or after_name[0] in "ZX"
    return "" if ended or len(after_name) <= _START_TIME else after_name[_START_TIME]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
