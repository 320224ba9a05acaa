"""Stores that go wrong where there is more than one handle, or a process dies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from broken.plain import Plain
from send_once import Entry, Store, jsontext


class Apart(Plain):
    """Each handle has data of its own, wherever it was told to keep them."""

    def __init__(self, _path: str) -> None:
        super().__init__()


class RemembersWhatItRead(Plain):
    """Another handle writes, and this one answers from its cache."""

    shared: ClassVar[dict[str, dict[str, str]]] = {}

    def __init__(self, path: str) -> None:
        super().__init__()
        self.texts = self.shared.setdefault(path, {})
        self.read: dict[str, Entry | None] = {}

    def get(self, key: str) -> Entry | None:
        if key not in self.read:
            self.read[key] = super().get(key)
        return self.read[key]


class _InAFile(Plain):
    """Replaced whole, so that a reader never sees half of it: what goes wrong is what the store does, not its file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = Path(path)

    def load(self) -> dict[str, str]:
        texts: dict[str, str] = jsontext.parse(self.path.read_text()) if self.path.exists() else {}
        return texts

    def save(self) -> None:
        new = self.path.with_suffix(f".{os.getpid()}")
        new.write_text(jsontext.stringify(self.texts))
        new.replace(self.path)


class WritesWhenClosed(_InAFile):
    """Keeps claims in memory until it is closed; who is killed never closes."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.texts = self.load()

    def close(self) -> None:
        self.save()


class LeavesRecordsForLater(_InAFile):
    """A claim is on the disk when it is answered, the outcome of its send only when it is closed."""

    def get(self, key: str) -> Entry | None:
        self.texts = self.load() | self.texts
        return super().get(key)

    def claim(self, entry: Entry) -> bool:
        if self.get(entry.key) is not None:
            return False
        claimed = super().claim(entry)
        self.save()
        return claimed

    def close(self) -> None:
        self.save()


class ChecksThenActsInAFile(_InAFile):
    """Every call reads the file, and a claim replaces it: the last writer wins."""

    def get(self, key: str) -> Entry | None:
        self.texts = self.load()
        return super().get(key)

    def claim(self, entry: Entry) -> bool:
        if self.get(entry.key) is not None:
            return False
        claimed = super().claim(entry)
        self.save()
        return claimed


def look(store: Store) -> object:
    """Something a child process can do with a store that claims nothing."""
    return store.get("k")
