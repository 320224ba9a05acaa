from __future__ import annotations

from send_once import AsyncStore, MemoryStore, Store, threaded
from send_once.testing import AsyncStoreContract, StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self) -> Store:
        return MemoryStore()


class TestThreadedMemoryStore(AsyncStoreContract):
    async def make_store(self) -> AsyncStore:
        return threaded(MemoryStore())
