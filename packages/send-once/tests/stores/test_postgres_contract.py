from __future__ import annotations

import functools

import pytest

from send_once import AsyncStore, Store
from send_once.stores.postgres import AsyncPostgresStore, PostgresStore
from send_once.testing import AsyncStoreContract, StoreContract
from send_once.testing.contract import OpenStore


class TestPostgresStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url: str) -> None:
        self.url = postgres_url

    def make_store(self) -> Store:
        return PostgresStore(self.url)

    def opener(self) -> OpenStore | None:
        return functools.partial(PostgresStore, self.url)


class TestAsyncPostgresStore(AsyncStoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url: str) -> None:
        self.url = postgres_url

    async def make_store(self) -> AsyncStore:
        return AsyncPostgresStore(self.url)
