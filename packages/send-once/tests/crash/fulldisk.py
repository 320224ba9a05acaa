"""A real file system of its own, so small that it can be filled: tmpfs, which root may mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE_BYTES = 4096


class Disk:
    """A mounted tmpfs. `fill` leaves `free_pages` pages of four KiB; `make_room` takes the filling away."""

    def __init__(self, mounted_at: Path, free_pages: int) -> None:
        self.path = mounted_at
        self._ballast, self._free_pages = mounted_at / "ballast", free_pages

    def fill(self) -> None:
        found = os.statvfs(self.path)
        free_bytes = found.f_bavail * found.f_bsize - self._free_pages * PAGE_BYTES
        self._ballast.write_bytes(b"\0" * max(free_bytes, 0))

    def make_room(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(at: Path, *, free_pages: int) -> Iterator[Disk]:
    """A disk of 256 KiB mounted at `at`. Raises CalledProcessError where this user may not mount."""
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(at)], check=True, capture_output=True)
    try:
        yield Disk(at, free_pages)
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)
