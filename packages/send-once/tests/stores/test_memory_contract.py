from __future__ import annotations

from pathlib import Path

import pytest

from send_once import AsyncStore, FileStore, MemoryStore, Store, threaded
from send_once.testing import AsyncStoreContract, StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self) -> Store:
        return MemoryStore()


class TestThreadedMemoryStore(AsyncStoreContract):
    async def make_store(self) -> AsyncStore:
        return threaded(MemoryStore())


class TestThreadedFileStore(AsyncStoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "ledger.jsonl"

    async def make_store(self) -> AsyncStore:
        return threaded(FileStore(self.path))
