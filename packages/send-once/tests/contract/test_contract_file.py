from __future__ import annotations

import functools
from pathlib import Path

import pytest

from send_once import AsyncStore, FileStore, Store, threaded
from send_once.testing import AsyncStoreContract, StoreContract
from send_once.testing.contract import OpenStore


class TestFileStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "ledger.jsonl"

    def make_store(self) -> Store:
        return FileStore(self.path)

    def opener(self) -> OpenStore | None:
        return functools.partial(FileStore, str(self.path))


class TestThreadedFileStore(AsyncStoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "ledger.jsonl"

    async def make_store(self) -> AsyncStore:
        return threaded(FileStore(self.path))
