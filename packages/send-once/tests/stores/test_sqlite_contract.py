from __future__ import annotations

import functools
from pathlib import Path

import pytest

from send_once import AsyncStore, Store, threaded
from send_once.stores.sqlite import SQLiteStore
from send_once.testing import AsyncStoreContract, StoreContract
from send_once.testing.contract import OpenStore


class TestSQLiteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "ledger.db"

    def make_store(self) -> Store:
        return SQLiteStore(self.path)

    def opener(self) -> OpenStore | None:
        return functools.partial(SQLiteStore, str(self.path))


class TestThreadedSQLiteStore(AsyncStoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "ledger.db"

    async def make_store(self) -> AsyncStore:
        return threaded(SQLiteStore(self.path))
