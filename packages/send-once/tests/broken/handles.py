"""Stores that go wrong where there is more than one handle, or a process dies."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from broken.plain import Plain
from send_once import Entry, Store, jsontext


class RemembersWhatItRead(Plain):
    """Another handle writes, and this one answers from its cache."""

    shared: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.texts = self.shared
        self.read: dict[str, Entry | None] = {}

    def get(self, key: str) -> Entry | None:
        if key not in self.read:
            self.read[key] = super().get(key)
        return self.read[key]


class Apart(Plain):
    """Each handle has data of its own, wherever it was told to keep them."""

    def __init__(self, _path: str) -> None:
        super().__init__()


class WritesWhenClosed(Plain):
    """Keeps claims in memory until it is closed; who is killed never closes."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = Path(path)
        if self.path.exists():
            self.texts = jsontext.parse(self.path.read_text())

    def close(self) -> None:
        self.path.write_text(jsontext.stringify(self.texts))


class LeavesRecordsForLater(Plain):
    """A claim is on the disk when it is answered, the outcome of its send only when it is closed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = Path(path)
        if self.path.exists():
            self.texts = jsontext.parse(self.path.read_text())

    def get(self, key: str) -> Entry | None:
        if self.path.exists():
            self.texts = jsontext.parse(self.path.read_text()) | self.texts
        return super().get(key)

    def claim(self, entry: Entry) -> bool:
        if self.get(entry.key) is not None:
            return False
        claimed = super().claim(entry)
        self.path.write_text(jsontext.stringify(self.texts))
        return claimed

    def close(self) -> None:
        self.path.write_text(jsontext.stringify(self.texts))


class ChecksThenActsInAFile(Plain):
    """Every call reads the file, and a claim writes it anew: the last writer wins."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = Path(path)

    def get(self, key: str) -> Entry | None:
        self.texts = jsontext.parse(self.path.read_text() or "{}") if self.path.exists() else {}
        return super().get(key)

    def claim(self, entry: Entry) -> bool:
        if self.get(entry.key) is not None:
            return False
        claimed = super().claim(entry)
        self.path.write_text(jsontext.stringify(self.texts))
        return claimed


def look(store: Store) -> object:
    """Something a child process can do with a store that claims nothing."""
    return store.get("k")
