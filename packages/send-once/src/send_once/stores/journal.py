"""Reading a ledger file: an index of where each key's current line stands, brought up to date by
reading only what was appended since. Takes no lock between processes, and never writes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from send_once.entry import Entry, Status
from send_once.errors import StoreError
from send_once.stores.damage import DamagedLine, damaged_line
from send_once.stores.files import NOWHERE, require_regular_file
from send_once.stores.linescan import (
    FAILED_CODE,
    SENT_CODE,
    STATUS_CODES,
    key_and_code,
    kind_of,
    read_entry,
    takes_over,
)

BLOCK_BYTES: Final = 1 << 20
LINE_BYTES_GUESS: Final = 1024
GUARD_BYTES: Final = 256


class End(NamedTuple):
    """How far the file has been read: in bytes, and whether its last line ended with a newline."""

    size: int
    is_whole: bool


class Journal:
    """The current line of every key of the ledger at `path`.

    Each look costs one stat(2), and reads what has grown. A file that shrank, was replaced, or no
    longer has the bytes it had before its old end is read again from the start. A last line
    without a newline counts if it is a whole entry, and is read again when the file grows.

    The index keeps an integer a key: the line's offset, and the status in its last two bits.
    `vanished` holds the keys that were pending or sent here and are no longer in the file: it was
    deleted, cut or replaced by one that does not know them. Safe between threads; a `with` block on
    it makes several calls one.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.identity = NOWHERE
        self.mutex = threading.RLock()
        self._fd = -1
        self._places: dict[str, int] = {}
        self._damaged: list[DamagedLine] = []
        self._guard = b""
        self.consumed = self.size = 0
        self.vanished: set[str] = set()
        self._changing = False
        self._forget()

    def __enter__(self) -> Self:
        """Keep other threads of this process from moving the index for the length of a `with` block."""
        self.mutex.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.mutex.release()
        if isinstance(error, OSError):
            raise StoreError(f"Could not read {self.path}: {error.strerror}.") from error

    def current(self, key: str) -> Entry | None:
        """The current entry of `key` as of now."""
        with self.mutex:
            self._refuse_reentry()
            try:
                self._refresh(verify=False)
                return self._entry(key)
            except OSError as error:
                self._distrust()
                raise StoreError(f"Could not read {self.path}: {error.strerror}.") from error
            except BaseException:
                self._distrust()
                raise

    def entry(self, key: str) -> Entry | None:
        """The current entry of `key` as of the last look."""
        with self.mutex:
            return self._entry(key)

    def text(self, key: str) -> str | None:
        """The current line of `key` as of the last look, decoded but not parsed."""
        with self.mutex:
            place = self._place(key)
            return None if place is None else self.line_at(place >> 2).decode("utf-8", "replace")

    def entries(self, status: Status | None = None) -> Iterator[Entry]:
        """Current entries in order of first appearance, as of the last look."""
        code = None if status is None else STATUS_CODES[status]
        with self.mutex:
            places = self._places
            if self._tail is not None:
                places = {**places, self._tail[0]: self._tail[1]}
            found = [self.entry(key) for key, place in places.items() if code is None or place & 3 == code]
        return (entry for entry in found if entry is not None and (status is None or entry.status is status))

    def counts(self) -> dict[Status, int]:
        """How many keys are in each status, without reading their lines."""
        with self.mutex:
            codes = [place & 3 for place in self._places.values()]
            if self._tail is not None:
                before = self._places.get(self._tail[0])
                codes.append(self._tail[1] & 3)
                if before is not None:
                    codes.remove(before & 3)
        return {status: codes.count(code) for status, code in STATUS_CODES.items()}

    def keys(self) -> list[str]:
        with self.mutex:
            return list(self._places if self._tail is None else {**self._places, self._tail[0]: 0})

    def damaged(self) -> list[DamagedLine]:
        with self.mutex:
            return self._damaged + ([self._damaged_tail] if self._damaged_tail is not None else [])

    def is_damaged(self) -> bool:
        return bool(self._damaged) or self._damaged_tail is not None

    def is_foreign(self) -> bool:
        """Whether there are damaged lines and not one entry: the file is something else."""
        return self.is_damaged() and not self._places and self._tail is None

    def line_counts(self) -> tuple[int, int]:
        """(lines that are not blank, those of them that were skipped: torn or damaged)."""
        return self._lines + self._tail_counts[0], self._torn + len(self._damaged) + self._tail_counts[1]

    def has_seen(self, key: str) -> bool:
        """Whether `key` has an entry as far as was read; always true before the first look."""
        return self.identity == NOWHERE or self._place(key) is not None

    def refresh(self, *, verify: bool = False) -> End:
        """Look at the file and read what is new. A missing file is an empty ledger. Answers how far was
        read: every line before that is in the index.

        With `verify`, also that the bytes before the old end are still those that were read: a
        failed write that was taken back may have been followed by another line of the same length.
        """
        with self.mutex:
            self._refuse_reentry()
            try:
                self._refresh(verify=verify)
            except BaseException:
                self._distrust()
                raise
            return End(self.size, self.consumed == self.size)

    def note_appended(self, base: int, data: bytes, keys: list[tuple[str, int, int]]) -> bool:
        """Take over lines just appended and read back by us: (key, offset, code) each. False if the
        index has meanwhile seen more, or ended in the middle of a line: then `refresh` must look."""
        with self.mutex:
            if self.size != base or self.consumed != base:
                return False
            for key, offset, code in keys:
                self._places[key] = offset << 2 | code
            self._lines += len(keys)
            self._numbered += len(keys)
            self.consumed = self.size = base + len(data)
            self._guard = (self._guard + data)[-GUARD_BYTES:]
            return True

    def line_at(self, offset: int) -> bytes:
        """The line that starts at `offset`, without its newline."""
        piece = os.pread(self._fd, LINE_BYTES_GUESS, offset)
        end = piece.find(b"\n")
        while end < 0:
            more = os.pread(self._fd, max(LINE_BYTES_GUESS, len(piece)), offset + len(piece))
            if not more:
                return piece
            end = more.find(b"\n")
            end = end + len(piece) if end >= 0 else -1
            piece += more
        return piece[:end]

    def blocks(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """(offset, bytes) of the file from `start` to its end as of the last look, split after
        newlines; the last block may end without one."""
        carry, position = b"", start
        while position < self.size:
            piece = os.pread(self._fd, min(BLOCK_BYTES, self.size - position), position)
            if not piece:
                break
            position += len(piece)
            cut = piece.rfind(b"\n") + 1
            if cut:
                block = carry + piece[:cut]
                yield position - len(piece) - len(carry), block
                carry = piece[cut:]
            else:
                carry += piece
        if carry:
            yield position - len(carry), carry

    def close(self) -> None:
        with self.mutex:
            # Forgotten first: a child forked in between must not close what another file has by then.
            fd, self._fd, self.identity = self._fd, -1, NOWHERE
            if fd >= 0:
                os.close(fd)
            self._forget()

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def after_fork(self) -> None:
        """In the child: another thread of the parent may have been in the middle of anything."""
        self.mutex = threading.RLock()
        self._changing = False
        self.close()

    def _entry(self, key: str) -> Entry | None:
        place = self._place(key)
        if place is None:
            return None
        entry = read_entry(self.line_at(place >> 2))
        if entry is not None and entry.key == key and STATUS_CODES[entry.status] == place & 3:
            return entry
        # The bytes under an offset changed: someone rewrote the file in place.
        self._distrust()
        self.refresh()
        place = self._place(key)
        return None if place is None else read_entry(self.line_at(place >> 2))

    def _refresh(self, *, verify: bool) -> None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            if self._fd >= 0:
                self._change(self._start_over, self.close)
            return
        if (found.st_dev, found.st_ino) != self.identity:
            self._change(self._start_over, self._open)
        elif found.st_size != self.size or (verify and not self._guard_holds()):
            self._change(self._read_on, found.st_size)

    def _refuse_reentry(self) -> None:
        """The mutex lets the thread that holds it in again: a signal handler or finalizer that interrupted
        a reading. To it, keys that are in the file would look absent."""
        if self._changing:
            raise StoreError(
                f"{self.path} is just being read by what this call interrupted (the ledger was asked in a signal "
                "handler or finalizer). Nothing was sent by this call. Set a flag there, and send from the program's "
                "own flow."
            )

    def _change(self, update: Callable[..., None], *args: object) -> None:
        self._changing = True
        try:
            update(*args)
        finally:
            self._changing = False

    def _distrust(self) -> None:
        """A reading that broke off knows only some of the keys: forget it all, so that the next look
        starts over. What was seen before is remembered as vanished until it is found again."""
        self.vanished |= self._unsettled_or_sent()
        self.close()

    def _unsettled_or_sent(self) -> set[str]:
        return {key for key, place in self._places.items() if place & 3 != FAILED_CODE}

    def _place(self, key: str) -> int | None:
        if self._tail is not None and self._tail[0] == key:
            return self._tail[1]
        return self._places.get(key)

    def _forget(self) -> None:
        self._places = {}
        self._lines = self._torn = self._numbered = 0
        self._damaged = []
        self.consumed = self.size = 0
        self._guard = b""
        self._drop_tail()

    def _drop_tail(self) -> None:
        self._tail: tuple[str, int] | None = None
        self._damaged_tail: DamagedLine | None = None
        self._tail_counts = (0, 0)

    def _open(self) -> None:
        self.close()
        try:
            require_regular_file(self.path)
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        found = os.fstat(self._fd)
        self.identity = (found.st_dev, found.st_ino)

    def _start_over(self, prepare: Callable[[], None] | None = None) -> None:
        """Read all from the first byte, of another file perhaps, and note the keys that are gone."""
        self.vanished |= self._unsettled_or_sent()
        if prepare is not None:
            prepare()
        self._forget()
        if self._fd >= 0:
            self._read_lines(os.fstat(self._fd).st_size)
        self.vanished = {key for key in self.vanished if self._place(key) is None}

    def _read_on(self, size: int) -> None:
        if size < self.consumed or not self._guard_holds():
            self._start_over()
        else:
            self._read_lines(size)

    def _read_lines(self, size: int) -> None:
        self._drop_tail()
        self.size = size
        end = self.consumed
        for offset, block in self.blocks(self.consumed):
            end = offset + len(block)
            if block.endswith(b"\n"):
                self._take_lines(offset, block)
                self.consumed = offset + len(block)
                self._guard = (self._guard + block[-GUARD_BYTES:])[-GUARD_BYTES:]
            else:
                self._take_tail(offset, block)
        self.size = end  # what was read, should the file have been cut meanwhile

    def _guard_holds(self) -> bool:
        length = len(self._guard)
        return os.pread(self._fd, length, self.consumed - length) == self._guard

    def _take_lines(self, offset: int, block: bytes) -> None:
        places = self._places
        for line in block[:-1].split(b"\n"):
            found = key_and_code(line)
            self._numbered += 1
            if found is None:
                self._take_other(offset, line)
            else:
                self._lines += 1
                key, code = found
                if code == SENT_CODE or key not in places or self._takes_over(places[key], line):
                    places[key] = offset << 2 | code
            offset += len(line) + 1

    def _takes_over(self, place: int, line: bytes) -> bool:
        current, later = read_entry(self.line_at(place >> 2)), read_entry(line)
        return current is None or (later is not None and takes_over(current, later))

    def _take_other(self, offset: int, line: bytes) -> None:
        kind = kind_of(line)
        if kind == "blank":
            return
        self._lines += 1
        if kind == "torn":
            self._torn += 1
        else:
            self._damaged.append(damaged_line(self._numbered, offset, line))

    def _take_tail(self, offset: int, line: bytes) -> None:
        """A last line without a newline: someone is writing it, or died while writing."""
        found = key_and_code(line)
        if found is not None:
            key, code = found
            before = self._places.get(key)
            if code == SENT_CODE or before is None or self._takes_over(before, line):
                self._tail = (key, offset << 2 | code)
            self._tail_counts = (1, 0)
            return
        kind = kind_of(line)
        if kind == "damaged":
            self._damaged_tail = damaged_line(self._numbered + 1, offset, line)
        if kind != "blank":
            self._tail_counts = (1, 1)
