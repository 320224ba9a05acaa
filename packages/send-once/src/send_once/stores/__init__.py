"""The stores. Each is loaded when it is first named, so that `import send_once` stays quick."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from send_once.stores.base import AsyncStore, BatchStore, HistoryStore, Store

if TYPE_CHECKING:
    from send_once.stores.addresses import open_store
    from send_once.stores.file import FileStore
    from send_once.stores.lifted import ThreadedStore, threaded
    from send_once.stores.memory import MemoryStore
    from send_once.stores.postgres import AsyncPostgresStore, PostgresStore
    from send_once.stores.sql import SQLStore
    from send_once.stores.sqlite import SQLiteStore

_HOMES: Final = {
    "AsyncPostgresStore": "send_once.stores.postgres",
    "FileStore": "send_once.stores.file",
    "MemoryStore": "send_once.stores.memory",
    "PostgresStore": "send_once.stores.postgres",
    "SQLStore": "send_once.stores.sql",
    "SQLiteStore": "send_once.stores.sqlite",
    "ThreadedStore": "send_once.stores.lifted",
    "open_store": "send_once.stores.addresses",
    "threaded": "send_once.stores.lifted",
}

__all__ = [
    "AsyncPostgresStore",
    "AsyncStore",
    "BatchStore",
    "FileStore",
    "HistoryStore",
    "MemoryStore",
    "PostgresStore",
    "SQLStore",
    "SQLiteStore",
    "Store",
    "ThreadedStore",
    "open_store",
    "threaded",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
