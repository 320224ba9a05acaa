"""Where a SQLite database may lie: refused is every place where its locks, its log or its shared
memory cannot be relied on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from send_once.errors import InvalidInputError, StoreError, UnsafeStoreError

_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "9p", "ncpfs", "beegfs", "gfs2"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.ceph", "fuse.cephfs"}
)


def require_path(path: object) -> str:
    """The database's path as an absolute one. Refused: what SQLite would take for something else."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError("SQLiteStore needs the path of a file.", field="path")
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise InvalidInputError("SQLiteStore needs the path as text, without a NUL.", field="path")
    if text in ("", ":memory:"):
        raise UnsafeStoreError("A SQLite database in memory is gone with its process. Use MemoryStore, or give a path.")
    if text.startswith("file:"):
        raise InvalidInputError(
            f"SQLiteStore takes a plain path, not {text}: a URI can switch off locking. Leave out file:.", field="path"
        )
    # Not normalised: ".." after a link is the kernel's, and another program takes it that way too.
    return os.path.join(os.getcwd(), text)


def require_place(path: str) -> None:
    """Refuse a place where SQLite's locks or its shared memory cannot be relied on."""
    if os.path.islink(path) and not os.path.exists(path):
        raise StoreError(f"{path} is a link to {os.readlink(path)}, which does not exist (is a volume missing?).")
    real = os.path.realpath(path)
    directory = os.path.dirname(real)
    if not os.path.isdir(directory):
        raise StoreError(f"The directory {directory} of the database does not exist; create it first.")
    if os.path.isdir(real):
        raise StoreError(f"{path} is a directory; give the path of a file.")
    network = network_file_system(directory)
    if network:
        raise UnsafeStoreError(
            f"{path} lies on a network file system ({network}), where SQLite's write-ahead log is not safe. "
            "Keep the database on a local disk, or use PostgresStore."
        )
    if os.path.exists(real) and os.stat(real).st_nlink > 1:
        raise UnsafeStoreError(
            f"{path} has other names (hard links). SQLite names its log after the path, so that two names give two "
            "logs and claims get lost. Remove the other names; use a symbolic link instead."
        )


def network_file_system(directory: str, mounts: Callable[[], str] = lambda: read_text("/proc/self/mountinfo")) -> str:
    """The type of the network file system that a directory lies on; empty when local or not known."""
    device = os.stat(directory).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts().splitlines():
        # proc(5): ID, parent, major:minor, root, mount point, options, optional fields, "-", type, ...
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if len(fields) > 2 and fields[2] == wanted and kind in _NETWORK_FILE_SYSTEMS:  # noqa: PLR2004  # see above
            return kind
    return ""


def read_text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
