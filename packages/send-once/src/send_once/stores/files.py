"""What the parts of the file store ask of the file system."""

from __future__ import annotations

import os
import stat
from typing import Final

from send_once.errors import StoreError

Identity = tuple[int, int]
"""Device and inode: which file a name leads to."""
NOWHERE: Final = (-1, -1)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte: the kernel may take fewer than it was given (write(2))."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def sync_directory(directory: str) -> None:
    """Make the names in a directory durable (fsync(2): syncing a file does not sync its name)."""
    fd = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_if_there(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def require_regular_file(path: str) -> None:
    """Refuse, before opening it, what is there and cannot be a ledger; a missing file is fine."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise unusable(path, "it is a directory; name a file inside it")
    if not stat.S_ISREG(mode):
        raise unusable(path, "it is a device, pipe or socket, not a regular file")


def unusable(path: str, reason: str) -> StoreError:
    return StoreError(f"{path} cannot be used as a ledger: {reason}.")
