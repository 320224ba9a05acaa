"""What a lock file says, and whether the one who wrote it is gone. Pure but for asking the system
about this machine and its processes."""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import time
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

PID_MAX: Final = 2**31 - 1
TOKEN_DIGITS: Final = 16
DOUBLE_MAX: Final = sys.float_info.max


class LockBody(NamedTuple):
    """A readable lock file: the reference's four members."""

    pid: float
    host: str
    token: str
    at_ms: float


def is_abandoned(text: str, *, mtime: float, now: float, stale_seconds: float) -> bool:
    """Whether the holder of a lock file with this text is gone. Asked while holding the kernel's lock.

    Made by this library since the machine started: gone, because a living holder would hold the
    kernel's lock. Made by it earlier: gone, once the lock is `stale_seconds` old. Made by the
    reference: gone if old, from this host, and its process id is free. Unreadable: gone if its file
    is old, as the reference judges.
    """
    body = read_lock_body(text)
    if body is None:
        return now - mtime >= stale_seconds
    made_here, this_boot = _made_by_this_library(body)
    if made_here and this_boot:
        return True
    if now * 1000 - body.at_ms < stale_seconds * 1000:
        return False
    return made_here or (body.host == _host() and not _process_exists(body.pid))


def read_lock_body(text: str) -> LockBody | None:
    """The reference's test: an object with a number `pid`, text `host`, text `token`, number `at`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    pid, at_ms = _number(value.get("pid")), _number(value.get("at"))
    host, token = value.get("host"), value.get("token")
    if pid is None or at_ms is None or not isinstance(host, str) or not isinstance(token, str):
        return None
    return LockBody(pid, host, token, at_ms)


def lock_body() -> bytes:
    """The body of a new lock: `{"pid","host","token","at"}` as the reference writes it.

    The token is 16 hex digits, as there: four count, the rest are check digits over pid, host and
    the kernel's boot id, by which this library knows its own locks again.
    """
    before, after = _body_parts(os.getpid())
    return f"{before}{next(_COUNT) & 0xFFFF:04x}{after}{time.time_ns() // 1_000_000}}}".encode()


_COUNT: Final = itertools.count(int.from_bytes(os.urandom(2), "big"))


@lru_cache(maxsize=1)
def _body_parts(pid: int) -> tuple[str, str]:
    host = json.dumps(_host(), ensure_ascii=False)
    made_by, boot = _check_digits(pid, _host())
    return f'{{"pid":{pid},"host":{host},"token":"', f'{made_by}{boot}","at":'


def _made_by_this_library(body: LockBody) -> tuple[bool, bool]:
    """(by this library, and since the machine started). A token of the reference passes the first
    by chance once in 65,536 times, and both once in 2**48."""
    made_by, boot = _check_digits(body.pid, body.host)
    return len(body.token) == TOKEN_DIGITS and body.token[4:8] == made_by, body.token[8:] == boot


def _check_digits(pid: float, host: str) -> tuple[str, str]:
    named = f"send-once:{pid}:{host}".encode("utf-8", "surrogatepass")
    made_by = blake2b(named, digest_size=2).hexdigest()
    return made_by, blake2b(named + _boot_id(), digest_size=4).hexdigest()


@lru_cache(maxsize=1)
def _boot_id() -> bytes:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return os.urandom(16)  # no boot id to be had: only this process knows its own locks at once


@lru_cache(maxsize=1)
def _host() -> str:
    return socket.gethostname()


def _process_exists(pid: float) -> bool:
    """As the reference's runtime answers. Zero and below name process groups: never "gone"."""
    if pid <= 0:
        return True
    if pid != int(pid) or pid > PID_MAX:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -DOUBLE_MAX <= value <= DOUBLE_MAX else None
