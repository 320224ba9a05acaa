"""Making a ledger file small again without forgetting a single key: on request only."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from send_once.entry import Entry, Json, Status
from send_once.errors import StoreError
from send_once.instants import parse_instant
from send_once.stores.files import remove_if_there, sync_directory, write_all

BUFFER_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Compaction:
    """What `compact` did: keys kept, how many of them as tombstones, sizes in bytes, and the old file."""

    entries: int
    tombstones: int
    bytes_before: int
    bytes_after: int
    backup: str


def tombstone(entry: Entry) -> Entry:
    """A sent entry with everything gone but what makes it count: it still refuses every claim, here
    and in the reference. Its provider id, its meta and the payload it was claimed with are forgotten."""
    members: dict[str, Json] = {
        "key": entry.key,
        "status": entry.status.value,
        "attempts": entry["attempts"] if entry.has("attempts") else 1,
        "claimedAt": entry.claimed_at,
        "updatedAt": entry.updated_at or entry.claimed_at,
        "meta": None,
    }
    return Entry(members)


def may_shrink(entry: Entry, *, now_ms: float, older_than_ms: float) -> bool:
    """Whether the entry may become a tombstone: sent, and settled at least that long ago. An entry
    whose time cannot be read, or lies ahead, is kept whole unless any age will do."""
    if entry.status is not Status.SENT:
        return False
    if older_than_ms <= 0:
        return True
    settled_ms = parse_instant(entry.updated_at or "")
    return settled_ms is not None and now_ms - settled_ms >= older_than_ms


def replace_with(entries: Iterable[Entry], path: str, backup: str) -> int:
    """Put a new ledger with these entries in the place of the one at `path` (its real path), in one
    step and durably, keeping the old one as `backup`. Call it under all locks.

    Answers a descriptor of the new file, open for appending and already locked, so that nobody gets
    between the replacement and the end of the caller's own lock. After a crash at any point the
    name leads to the old ledger or to the new one, whole.
    """
    unfinished = f"{path}.compacting"
    remove_if_there(unfinished)
    before = os.stat(path)
    fd = os.open(unfinished, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        _write_lines(fd, entries)
        os.fchmod(fd, stat.S_IMODE(before.st_mode))
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(fd, before.st_uid, before.st_gid)
        os.fsync(fd)
        os.link(path, backup)
        os.rename(unfinished, path)
        # Before anyone may append: else a power cut could bring the old file back without what came after.
        sync_directory(os.path.dirname(path))
    except BaseException:
        remove_if_there(unfinished)
        os.close(fd)
        raise
    return fd


def backup_name(path: str, now_ms: float) -> str:
    """`<ledger>.<UTC time>.bak`, with a number where that name is taken."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ms / 1000))
    name, number = f"{path}.{stamp}.bak", 2
    while os.path.lexists(name):
        name, number = f"{path}.{stamp}-{number}.bak", number + 1
    return name


def drop_unfinished_backups(path: str) -> None:
    """Remove backups that still are the ledger itself: a compaction died before its replacement.
    Refuse a ledger that has other hard links, because they would go on leading to the old file."""
    ledger = os.stat(path)
    if ledger.st_nlink == 1:
        return
    directory, base = os.path.split(path)
    links = ledger.st_nlink
    for name in os.listdir(directory or "."):
        candidate = os.path.join(directory, name)
        if name.startswith(f"{base}.") and name.endswith(".bak") and os.path.samestat(os.stat(candidate), ledger):
            os.unlink(candidate)
            links -= 1
    if links > 1:
        raise StoreError(
            f"{path} has {links} names (hard links). Compacting it under one of them would make two ledgers, each "
            "ignorant of the other's sends. Remove the other names, or use symbolic links."
        )


def _write_lines(fd: int, entries: Iterable[Entry]) -> None:
    """Write and sync the lines, and read them back: the old file goes, so this one must be right."""
    written, buffer = blake2b(), bytearray()
    for entry in entries:
        buffer += entry.text.encode() + b"\n"
        if len(buffer) >= BUFFER_BYTES:
            _write_piece(fd, buffer, written)
    _write_piece(fd, buffer, written)
    os.fsync(fd)
    found, offset = blake2b(), 0
    while piece := os.pread(fd, BUFFER_BYTES, offset):
        found.update(piece)
        offset += len(piece)
    if found.digest() != written.digest():
        raise OSError(errno.EIO, "the new file does not hold what was written to it")


def _write_piece(fd: int, buffer: bytearray, written: blake2b) -> None:
    write_all(fd, bytes(buffer))
    written.update(buffer)
    buffer.clear()
