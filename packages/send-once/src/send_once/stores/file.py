"""The ledger as a file: JSON lines, readable by a person and shared with the reference."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from send_once.clock import system_clock_ms
from send_once.durations import parse_duration
from send_once.entry import Entry, Status
from send_once.errors import InvalidInputError, StoreError, UnsafeStoreError
from send_once.instants import iso_from_ms
from send_once.stores.appending import NewLine, append, new_line
from send_once.stores.base import Pair
from send_once.stores.compaction import (
    Compaction,
    backup_name,
    drop_unfinished_backups,
    may_shrink,
    replace_with,
    tombstone,
)
from send_once.stores.damage import Acceptances, DamagedLine, Snapshot, no_ledger, refusal
from send_once.stores.filelock import LedgerLock
from send_once.stores.journal import End, Journal
from send_once.stores.linescan import read_entry

ENTRY_BYTES_MAX: Final = 262_144


class FileStore:
    """A ledger in a file of JSON lines, the reference's format and lock file, byte for byte.

    The file is only ever appended to; the last line of a key is its state (the exact rule is
    `linescan.takes_over`). Claims and transitions are atomic between threads, processes and
    containers of one machine, and with Node processes that use the reference, and durable before
    they return: one write, one fdatasync. `get` and `list` take no lock and see what any process has
    written. Their cost does not grow with the ledger: an index is kept, and each look reads only
    what was appended since.

    - The file is created by the first claim (not its directory), unless `create` is False.
    - A waiting caller is served in turn, for `lock_timeout_seconds`, then gets LockTimeoutError.
      A process that dies while holding the lock delays nobody.
    - A lock file left by a Node process is removed when it is `stale_lock_seconds` old and its
      process is gone from this host.
    - With `beside_node=False` no lock file is made: a third faster, and safe only while no Node process
      writes to the ledger. Python processes keep apart by the kernel's lock either way.
    - A claim longer than `entry_bytes_max` is refused (EntryTooLargeError); what settles it always has room.
    - A damaged line makes claims fail (LedgerDamagedError) until `accept_damage`; settling, `get`
      and `list` go on. A torn line, as a crash leaves it, is no damage.
    - A file of which no line is an entry is never written to (NotALedgerError).
    - Usable in a forked child. POSIX only; not for a file that several hosts share over a network.

    Raises StoreError, with the reason in its text, for a path that cannot be a ledger and for
    writes that fail; nothing is left behind by those unless it is an UnsafeStoreError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lock_timeout_seconds: float = 10,
        stale_lock_seconds: float = 30,
        entry_bytes_max: int = ENTRY_BYTES_MAX,
        create: bool = True,
        beside_node: bool = True,
    ) -> None:
        self._shown = _checked_path(path)
        # Pinned now: a later chdir must not lead to another ledger. Not normalised: ".." after a link is the kernel's.
        self._path = os.path.join(os.getcwd(), self._shown)
        self._bytes_max = _checked_size(entry_bytes_max)
        self._journal = Journal(self._path)
        self._lock = LedgerLock(
            self._path,
            shown=self._shown,
            create=create,
            timeout_seconds=_checked_seconds("lock_timeout_seconds", lock_timeout_seconds),
            stale_seconds=_checked_seconds("stale_lock_seconds", stale_lock_seconds),
            beside_node=beside_node,
        )
        self._acceptances = Acceptances(os.path.realpath(self._path))
        _STORES.add(self)

    @property
    def path(self) -> str:
        """The path as it was given."""
        return self._shown

    def claim(self, entry: Entry) -> bool:
        return self.claim_or_get(entry) is True

    def claim_or_get(self, entry: Entry) -> bool | Entry:
        # A key that is there refuses a claim, whoever holds the lock.
        present = self.get(entry.key) if self._journal.has_seen(entry.key) else None
        if present is not None:
            return present
        line = new_line(entry, bytes_max=self._bytes_max)
        with self._lock:
            looked = self._look(for_claims=True)
            present = self._journal.entry(entry.key)
            if present is not None:
                return present
            self._refuse_forgotten(line)
            return self._append([line], looked)[0] or (self._journal.entry(entry.key) or False)

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        lines = [new_line(entry, bytes_max=self._bytes_max) for entry in entries]
        with self._lock:
            looked = self._look(for_claims=True)
            seen: set[str] = set()
            free = []
            for entry in entries:
                free.append(entry.key not in seen and self._journal.entry(entry.key) is None)
                seen.add(entry.key)
            for line, is_free in zip(lines, free, strict=True):
                if is_free:
                    self._refuse_forgotten(line)
            return self._append_where(lines, free, looked)

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        line = new_line(entry, bytes_max=self._bytes_max)
        with self._lock:
            looked = self._look(for_claims=line.fresh_claim)
            return self._journal.text(came_from.key) == came_from.text and self._append([line], looked)[0]

    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        lines = [new_line(entry, bytes_max=self._bytes_max) for _, entry in pairs]
        with self._lock:
            looked = self._look(for_claims=any(line.fresh_claim for line in lines))
            seen: set[str] = set()
            unchanged = []
            for came_from, _ in pairs:
                unchanged.append(self._journal.text(came_from.key) == came_from.text and came_from.key not in seen)
                seen.add(came_from.key)
            return self._append_where(lines, unchanged, looked)

    def get(self, key: str) -> Entry | None:
        return self._journal.current(key)

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        with self._journal:
            self._journal.refresh()
            return sorted(self._journal.entries(status), key=lambda entry: entry.claimed_at)

    def history(self, key: str) -> Sequence[Entry]:
        """Every line of the key, in the file's order, those that lost a race included. Reads the whole file."""
        with self._journal:
            self._journal.refresh()
            lines = (line for _, block in self._journal.blocks() for line in block.split(b"\n") if _may_name(line, key))
            found = (read_entry(line) for line in lines)
            return tuple(entry for entry in found if entry is not None and entry.key == key)

    def snapshot(self, status: Status | None = None) -> Snapshot:
        """The whole ledger as of one reading; with `status`, only entries of that status are read, but
        all are counted."""
        with self._journal:
            self._journal.refresh(verify=True)
            lines, skipped = self._journal.line_counts()
            damaged = self._acceptances.mark(self._journal.damaged())
            entries = tuple(self._journal.entries(status))
            return Snapshot(entries, skipped, lines, tuple(damaged), self._journal.counts())

    def damage(self) -> Sequence[DamagedLine]:
        """The damaged lines, each with whether someone has accepted it."""
        with self._journal:
            self._journal.refresh(verify=True)
            return tuple(self._acceptances.mark(self._journal.damaged()))

    def accept_damage(self, *, by: str, note: str | None = None) -> Sequence[DamagedLine]:
        """Record, durably, that a person has seen every damaged line there is now; claims go on.

        Answers the lines accepted by this call. A line that is damaged later, or changes, or moves,
        must be accepted anew. NotALedgerError where no line is an entry: then there is nothing to accept.
        """
        if not isinstance(by, str) or not by.strip():
            raise InvalidInputError("accept_damage: by must name who has looked at the lines.", field="by")
        with self._lock:
            self._journal.refresh(verify=True)
            self._require_ledger()
            new = [line for line in self._acceptances.mark(self._journal.damaged()) if not line.accepted]
            if new:
                self._acceptances.add(new, by=by, note=note, at=iso_from_ms(system_clock_ms()))
            return tuple(self._acceptances.mark(new))

    def compact(self, *, older_than: str | float = 0) -> Compaction:
        """Rewrite the file with one line a key. Never done by itself, and no key is forgotten.

        Sent entries settled at least `older_than` ago ("30d" or milliseconds) become tombstones that
        still refuse every claim; everything else keeps its current line, whole. Histories, torn
        lines and accepted damage go. The old file stays beside the new as `<path>.<time>.bak`: it is
        the only copy of what went. Every process, Node too, goes on with the new file.

        Raises LedgerDamagedError over damage nobody has accepted, StoreError if the file has further
        hard links or the new one cannot be written; no entry is lost then.
        """
        older_than_ms = parse_duration(older_than)
        with self._lock:
            self._look(for_claims=True)
            try:
                return self._compact(older_than_ms, system_clock_ms())
            except OSError as error:
                raise StoreError(f"Could not compact {self._shown}: {error}. No entry was lost.") from error

    def after_fork(self) -> None:
        """In the child, once: let go of what belongs to the parent. Called by itself after os.fork."""
        self._journal.after_fork()
        self._lock.after_fork()

    def close(self) -> None:
        """Close the files. A later call opens them again."""
        self._lock.close()
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _look(self, *, for_claims: bool) -> End:
        """Bring the index up to date under the lock; refuse claims over damage nobody has accepted.
        Answers how far it was read: what is decided after it holds for lines up to there."""
        looked = self._journal.refresh(verify=True)
        self._require_ledger()
        if for_claims and self._journal.is_damaged():
            open_damage = [line for line in self._acceptances.mark(self._journal.damaged()) if not line.accepted]
            if open_damage:
                raise refusal(self._shown, open_damage)
        return looked

    def _require_ledger(self) -> None:
        if self._journal.is_foreign():
            raise no_ledger(self._shown, self._journal.damaged())

    def _refuse_forgotten(self, line: NewLine) -> None:
        """A file that was deleted, cut or replaced does not make this process forget what it has seen."""
        if line.fresh_claim and line.entry.key in self._journal.vanished:
            raise UnsafeStoreError(
                f"{self._shown} no longer holds an entry of {line.entry.key} that this process has read there: the "
                "file was removed, cut or replaced. The message may have gone out, so it is not sent again. Restore "
                "the file; if the entry was removed on purpose, restart this process."
            )

    def _compact(self, older_than_ms: float, now_ms: float) -> Compaction:
        path = os.path.realpath(self._path)
        drop_unfinished_backups(path)
        bytes_before, backup = self._journal.size, backup_name(path, now_ms)
        kept = [
            tombstone(entry) if may_shrink(entry, now_ms=now_ms, older_than_ms=older_than_ms) else entry
            for entry in self._journal.entries()
        ]
        self._lock.adopt(replace_with(kept, path, backup))
        self._journal.refresh()
        shrunk = sum(1 for entry in kept if entry.status is Status.SENT and entry.claim_id is None)
        return Compaction(len(kept), shrunk, bytes_before, self._journal.size, backup)

    def _append_where(self, lines: Sequence[NewLine], wanted: Sequence[bool], looked: End) -> Sequence[bool]:
        """Append the wanted lines in one durable step; for each line, whether it stands."""
        chosen = [line for line, wants in zip(lines, wanted, strict=True) if wants]
        landed = iter(self._append(chosen, looked))
        return [wants and next(landed) for wants in wanted]

    def _append(self, lines: Sequence[NewLine], looked: End) -> Sequence[bool]:
        if not lines:
            return []
        stands = append(self._journal, self._lock.fd, self._lock.identity, lines, looked)
        if any(line.fresh_claim for line in lines) and not self._lock.files_are_ours():
            raise UnsafeStoreError(
                f"Another program removed {self._shown}.lock while it was held, and may have claimed the same key. "
                "Nothing was sent by this call; the entry stays pending until it is settled."
            )
        return stands


_STORES: Final[weakref.WeakSet[FileStore]] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """A child must not keep the parent's locked file open: the lock would outlive the parent."""
    for store in list(_STORES):
        store.after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _may_name(line: bytes, key: str) -> bool:
    """Whether a line can be one of the key's, without parsing it: it holds the key's bytes, or
    anything from which they might be decoded."""
    return key.encode("utf-8", "replace") in line or b"\\" in line or not line.isascii()


def _checked_path(path: object) -> str:
    if isinstance(path, str | os.PathLike):
        text = os.fsdecode(os.fspath(path))
        if text and "\0" not in text:
            return text
    raise InvalidInputError("FileStore needs a file path.", field="path")


def _checked_seconds(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InvalidInputError(
            f"FileStore: {field} must be a number of seconds, 0 or more, got {value!r}.", field=field
        )
    return value


def _checked_size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(
            f"FileStore: entry_bytes_max must be a positive whole number of bytes, got {value!r}.",
            field="entry_bytes_max",
        )
    return value
