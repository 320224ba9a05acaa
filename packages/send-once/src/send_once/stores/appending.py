"""Writing to a ledger file: append, sync, and read back, so that the file itself says who was first.

Called while holding the locks of `filelock`. What is appended counts only once it has been synced
and found again, at the place where the reader had stopped reading; when that fails the bytes are
taken back, and where they cannot be, the caller is told that it must not send.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from send_once.entry import Entry
from send_once.errors import EntryTooLargeError, StoreError, UnsafeStoreError
from send_once.stores.files import Identity, write_all
from send_once.stores.journal import End, Journal
from send_once.stores.linescan import STATUS_CODES, is_fresh_claim, key_and_code

SETTLING_BYTES: Final = 131_072
"""How much longer than a claim a settling entry may be: more than the ledger ever adds (an error's text, a
provider's id, who resolved it and why; each is cut), because a send that ran must not fail to be recorded."""


@dataclass(frozen=True, slots=True)
class NewLine:
    """An entry ready to be appended; `body` is its JSON text in UTF-8, without the newline."""

    entry: Entry
    body: bytes
    fresh_claim: bool


def new_line(entry: Entry, *, bytes_max: int) -> NewLine:
    """The entry as a line, or EntryTooLargeError before anything is written."""
    text = entry.text
    if "\n" in text:
        text = entry.evolve({}).text  # JSON may be spread over lines; a ledger's entry is one line
    try:
        body = text.encode()
    except UnicodeEncodeError:
        body = entry.evolve({}).text.encode()  # written anew, lone surrogates become \\udXXX escapes
    fresh = is_fresh_claim(entry)
    limit = bytes_max if fresh else bytes_max + max(bytes_max, SETTLING_BYTES)
    if len(body) > limit:
        raise EntryTooLargeError(
            f"The entry of {entry.key[:80]} has {len(body)} bytes; this ledger takes {limit}. "
            "Keep meta small: a reference to the message rather than the message."
        )
    return NewLine(entry, body, fresh)


def append(journal: Journal, fd: int, identity: Identity, lines: Sequence[NewLine], looked: End) -> list[bool]:
    """Append all lines with one write and one sync. For each, whether it stands: nothing of its key
    came between where `journal` had read when the caller `looked` and the line.

    Not where it has read by now: another thread's `get` may have moved the index on, past a line that
    a stranger wrote after the look.

    Raises StoreError with nothing left behind; UnsafeStoreError where something of this may be left
    in the file, or a stranger claimed the same key at the same moment. No send may follow either.
    """
    base = looked.size
    lead = b"" if looked.is_whole else b"\n"
    data = lead + b"".join(line.body + b"\n" for line in lines)
    try:
        write_all(fd, data)
        os.fdatasync(fd)
    except BaseException as error:
        _take_back(fd, base, data, journal.path, error)
        if isinstance(error, OSError):
            raise write_failed(journal.path, error) from error
        raise
    # From here on the kernel says that all is written and synced; the file has the last word.
    if os.pread(fd, len(data) + 1, base) == data:
        _require_same_file(journal, identity)
        _note(journal, base, lead, data, lines)
        return [True] * len(lines)
    return _who_stands(journal, fd, identity, base, data, lines)


def write_failed(path: str, error: OSError) -> StoreError:
    return StoreError(f"Could not write to {path}: {error.strerror}. What was written has been taken back.")


def _note(journal: Journal, base: int, lead: bytes, data: bytes, lines: Sequence[NewLine]) -> None:
    offset, keys = base + len(lead), []
    for line in lines:
        keys.append((line.entry.key, offset, STATUS_CODES[line.entry.status]))
        offset += len(line.body) + 1
    if not journal.note_appended(base, data, keys):
        journal.refresh()


def _take_back(fd: int, base: int, data: bytes, path: str, cause: BaseException) -> None:
    """Cut the file to what it was before the failed append.

    A failed fsync is never repeated and then believed: the kernel may have marked the pages clean
    (fsync(2), errors). Cut off, nobody can read the claim, so nobody can act on it; should a power
    cut bring it back, it is a pending entry of a send that never ran.
    """
    try:
        size = os.fstat(fd).st_size
        if size <= base:
            return
        if _is_only_ours(os.pread(fd, size - base, base), data):
            os.ftruncate(fd, base)
            _try_sync(fd)
            return
        reason = "another program has written after it"
    except OSError as error:
        reason = str(error)
    raise UnsafeStoreError(
        f"Writing to {path} failed, and what was written could not be taken back: {reason}. Nothing was sent by this "
        "call; the entry may show as pending. Check the disk, then `send-once audit`."
    ) from cause


def _is_only_ours(landed: bytes, data: bytes) -> bool:
    """Whether the file's end holds nothing but bytes of `data`: its beginning, or all but a piece of it."""
    same = next((at for at, (one, other) in enumerate(zip(landed, data, strict=False)) if one != other), len(landed))
    return len(landed) <= len(data) and data.endswith(landed[same:])


def _try_sync(fd: int) -> None:
    try:
        os.fdatasync(fd)
    except OSError:
        pass  # the cut itself is seen by every reader at once; only a power cut could bring the bytes back


def _require_same_file(journal: Journal, written: Identity) -> None:
    """Refuse where the ledger's name no longer leads to the file that was written."""
    try:
        named = os.stat(journal.path)
    except FileNotFoundError:
        named = None
    if named is None or (named.st_dev, named.st_ino) != written:
        raise StoreError(
            f"{journal.path} was removed or replaced while it was written to; what was written is not in the ledger. "
            "Stop whatever moves the file (log rotation, a restore), then call again."
        )


def _who_stands(
    journal: Journal, fd: int, identity: Identity, base: int, data: bytes, lines: Sequence[NewLine]
) -> list[bool]:
    """Something else was written too: read it all, and see what came before and after each line."""
    end = os.lseek(fd, 0, os.SEEK_CUR)  # where our last write ended (O_APPEND moves the offset there)
    region = os.pread(fd, os.fstat(fd).st_size - base, base)
    start = end - len(data) - base
    _require_same_file(journal, identity)
    if start < 0 or region[start : start + len(data)] != data:
        cause = OSError(0, "the file does not hold what was written to it")
        _take_back(fd, base, data, journal.path, cause)
        raise write_failed(journal.path, cause)
    before, after = _keys_in(region[:start]), _keys_in(region[start + len(data) :])
    journal.refresh()
    for line in lines:
        if line.fresh_claim and line.entry.key in after and line.entry.key not in before:
            raise UnsafeStoreError(
                f"{line.entry.key} was claimed by another program at the same moment, without the ledger's lock, and "
                "that program may send. Nothing was sent by this call; the entry stays pending until it is settled."
            )
    _restore_winners(journal, fd, [line for line in lines if line.entry.key in before])
    return [line.entry.key not in before for line in lines]


def _restore_winners(journal: Journal, fd: int, lost: Sequence[NewLine]) -> None:
    """Write the winner's line once more where ours stands after it: the reference believes the last
    line of a key. A failure here changes nothing for this library's readers, so it is let pass."""
    winners = [journal.entry(line.entry.key) for line in lost]
    texts = [
        winner.text.encode() + b"\n"
        for winner, line in zip(winners, lost, strict=True)
        if winner is not None and winner != line.entry
    ]
    if not texts:
        return
    try:
        write_all(fd, b"".join(texts))
        os.fdatasync(fd)
    except OSError:
        pass
    journal.refresh()


def _keys_in(region: bytes) -> set[str]:
    found = (key_and_code(line) for line in region.split(b"\n") if line)
    return {key_code[0] for key_code in found if key_code is not None}
