"""What `doctor` looks at in a ledger file. Nothing is changed, and no lock is kept."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence

from send_once.commands.findings import Finding
from send_once.commands.wording import as_command, counted
from send_once.durations import format_duration
from send_once.entry import Status
from send_once.stores.damage import DamagedLine, Snapshot, no_ledger
from send_once.stores.file import FileStore
from send_once.stores.files import require_regular_file
from send_once.stores.lockbody import is_abandoned, read_lock_body
from send_once.stores.sqliteplace import network_file_system
from send_once.terminal import harmless

STALE_SECONDS = 30
EXCERPT_CHARS = 120


def examine(path: str, *, shown: str, now_ms: float) -> Sequence[Finding]:
    """Findings about the file at `path`. Raises StoreError for one that cannot be read as a ledger."""
    require_regular_file(path)
    with FileStore(path, create=False) as store:
        snapshot = store.snapshot(Status.PENDING)  # the others are only counted
    real = os.path.realpath(path)
    return [
        _entries(snapshot, shown),
        *_lines(snapshot, shown),
        *_names(path, real),
        _rights(real),
        _place(real),
        _kernel_lock(real),
        *(_lock_file(f"{name}.lock", now_ms / 1000) for name in sorted({os.path.abspath(path), real})),
    ]


def _entries(snapshot: Snapshot, shown: str) -> Finding:
    number = sum(snapshot.counts.values())
    if snapshot.damaged and not number:
        return Finding("bad", "entries", f"this is no ledger. {no_ledger(shown, snapshot.damaged)}")
    return Finding("ok", "entries", f"{counted(number, 'key', 'keys')} in {counted(snapshot.lines, 'line', 'lines')}")


def _lines(snapshot: Snapshot, shown: str) -> Iterator[Finding]:
    torn = snapshot.skipped - len(snapshot.damaged)
    if torn:
        yield Finding("ok", "torn lines", f"{torn}, left by a crash in the middle of a write; none ever counted")
    accepted = [line for line in snapshot.damaged if line.accepted]
    fresh = [line for line in snapshot.damaged if not line.accepted]
    if accepted:
        yield Finding("note", "damaged lines", f"{len(accepted)} accepted", [*map(_described, accepted)])
    if fresh and any(snapshot.counts.values()):
        text = (
            f"{len(fresh)} that nobody has accepted, so new claims are refused. Each may have been a claim whose "
            "message went out: find out what it was, resolve or add what is missing, then accept it with "
            f"{as_command('doctor --accept-damage --by NAME', shown)}"
        )
        yield Finding("bad", "damaged lines", text, [*map(_described, fresh)])
    if not snapshot.damaged:
        yield Finding("ok", "damaged lines", "none")


def _described(line: DamagedLine) -> str:
    excerpt = line.excerpt[:EXCERPT_CHARS]
    more = "…" if line.length > len(excerpt.encode("utf-8", "replace")) else ""
    return f"line {line.number}, {line.length} bytes at offset {line.offset}: {harmless(excerpt)}{more}"


def _names(path: str, real: str) -> Iterator[Finding]:
    if os.path.islink(path):
        yield Finding("ok", "name", f"a symbolic link to {real}")
    links = os.stat(real).st_nlink
    if links > 1:
        yield Finding(
            "note",
            "name",
            f"the file has {links} names (hard links). Python processes lock the file under any of them, Node "
            "processes only the name they use, and it cannot be compacted",
        )


def _rights(real: str) -> Finding:
    found = os.stat(real)
    mode = f"{found.st_size:,} bytes, mode {stat.S_IMODE(found.st_mode):04o}, owner {found.st_uid}:{found.st_gid}"
    if found.st_mode & stat.S_IWOTH:
        return Finding(
            "bad", "file", f"{mode}: every user of this machine may write it, and so undo a claim. chmod o-w"
        )
    missing = [
        what for what, ok in (("the file", os.access(real, os.W_OK)), ("its directory", _may_add(real))) if not ok
    ]
    if missing:
        return Finding("note", "file", f"{mode}; this user may not write {' and '.join(missing)}, so cannot claim")
    return Finding("ok", "file", mode)


def _may_add(real: str) -> bool:
    return os.access(os.path.dirname(real) or ".", os.W_OK | os.X_OK)


def _place(real: str) -> Finding:
    kind = network_file_system(os.path.dirname(real))
    if kind:
        return Finding(
            "bad",
            "file system",
            f"{kind}, over a network: its locks may not reach other hosts, and what it reports as synced may not be. "
            "Keep the ledger on a local disk, or in PostgreSQL",
        )
    return Finding("ok", "file system", "local, as far as can be seen")


def _kernel_lock(real: str) -> Finding:
    """A shared lock, tried and dropped at once, says whether the kernel locks this file at all."""
    fd = os.open(real, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return Finding("ok", "kernel lock", "held by a writer right now")
    except OSError as error:
        return Finding(
            "bad", "kernel lock", f"the file system does not offer flock ({error.strerror}); claims will fail"
        )
    finally:
        os.close(fd)
    return Finding("ok", "kernel lock", "free")


def _lock_file(path: str, now: float) -> Finding:
    try:
        mtime = os.stat(path, follow_symlinks=False).st_mtime
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(4096)
    except FileNotFoundError:
        return Finding("ok", "lock file", "none")
    except OSError as error:
        return Finding("bad", "lock file", f"{path} cannot be read ({error.strerror}); writers wait for it in vain")
    body = read_lock_body(text)
    who = "nobody that can be read" if body is None else f"process {body.pid:.0f} on {harmless(body.host)}"
    since = mtime if body is None else body.at_ms / 1000
    held = f"held by {who}, for {format_duration((now - since) * 1000)}"
    if is_abandoned(text, mtime=mtime, now=now, stale_seconds=STALE_SECONDS):
        return Finding("ok", "lock file", f"{held}; its holder is gone, and the next writer removes it")
    if now - since < STALE_SECONDS:
        return Finding("ok", "lock file", held)
    return Finding("bad", "lock file", f"{held}. Writers wait for it. If no process uses this ledger, delete {path}")
