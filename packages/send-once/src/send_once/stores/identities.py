"""Which file a path names now.

A plain stat() also asks for the times of last change. Since Linux 6.13 the kernel notes that somebody has seen
them, and the next write to the file must then change its inode too: measured here as a tenth of a millisecond
for every send through a write-ahead log. statx(2) can ask for the number of the inode alone, but takes longer
itself when it is called by hand: it pays where the file is written to between any two looks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Any, Final

from send_once.stores.files import NOWHERE, Identity

_AT_FDCWD: Final = -100
_STATX_INO: Final = 0x100
_THIS_DEVICE: Final = -2
"""In place of the device's number: what lies in one folder lies on one device."""
_Buffer: Final = ctypes.c_char * 256
_INODE: Final = struct.Struct("=Q")
_INODE_AT: Final = 32
"""Where struct statx has it (statx(2)), on every architecture."""


def _find_statx() -> Any:
    """The C library's statx, or None: not Linux, or older than glibc 2.28."""
    if os.uname().sysname != "Linux":
        return None
    try:
        return ctypes.CDLL(None, use_errno=True).statx
    except (AttributeError, OSError):
        return None


_statx: Final = _find_statx()


def identity_of(path: str) -> Identity:
    """Device and inode of the file that `path` names; NOWHERE if there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return NOWHERE
    return found.st_dev, found.st_ino


def identity_in_passing(path: str) -> Identity:
    """The same, to be asked again and again of a file that is being written to. Compare it with its own
    answers for this path only: the device is left out."""
    return identity_of(path) if _statx is None else _by_statx(path)


def _by_statx(path: str) -> Identity:
    buffer = _Buffer()
    if _statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_INO, buffer) == 0:
        return _THIS_DEVICE, _INODE.unpack_from(buffer, _INODE_AT)[0]
    code = ctypes.get_errno()
    if code in (errno.ENOENT, errno.ENOTDIR):
        return NOWHERE
    if code in (errno.ENOSYS, errno.EPERM):
        return identity_of(path)  # forbidden by the sandbox of a container, or unknown to its kernel
    raise OSError(code, os.strerror(code), path)
