"""Which rules of the contract our own stores leave out, so that none is left out by a slip."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from send_once import FileStore, MemoryStore, SQLiteStore, SQLStore
from send_once.stores.postgres import AsyncPostgresStore, PostgresStore
from send_once.testing import StoreContract

OPTIONAL = ("claim_many", "transition_many", "claim_or_get", "history")
ACROSS_PROCESSES = {
    "TestFileStore",
    "TestFileStoreWithoutTheLockFile",
    "TestSQLiteStore",
    "TestPostgresStore",
    "TestPostgresStoreBehindAPooler",
    "TestSQLStoreOnSQLite",
    "TestSQLStoreOnPostgres",
}


def contracts() -> Iterator[type[StoreContract]]:
    """Those beside this file, whichever of them this run collects."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name != Path(__file__).name:
            yield from contracts_in(module_at(path))


def contracts_in(module: ModuleType) -> Iterator[type[StoreContract]]:
    for name, value in vars(module).items():
        if name.startswith("Test") and isinstance(value, type) and issubclass(value, StoreContract):
            yield value


def module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"looked_at_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def defines_opener(contract: type[StoreContract]) -> bool:
    return contract.opener is not StoreContract.opener


@pytest.mark.parametrize(
    ("store", "lacking"),
    [
        (MemoryStore, {"claim_or_get"}),
        (FileStore, set[str]()),
        (SQLiteStore, {"history"}),
        (PostgresStore, {"history"}),
        (AsyncPostgresStore, {"history"}),
        (SQLStore, {"claim_many", "transition_many", "claim_or_get", "history"}),
    ],
)
def test_a_store_of_ours_lacks_only_what_it_cannot_have(store: type, lacking: set[str]) -> None:
    """One row per key holds no history; one statement through a caller's function is all SQLStore may ask for."""
    assert {method for method in OPTIONAL if not hasattr(store, method)} == lacking


def test_every_store_of_ours_that_outlives_its_process_is_tried_with_several() -> None:
    found = {contract.__name__: defines_opener(contract) for contract in contracts()}
    assert found.keys() >= ACROSS_PROCESSES
    assert [name for name, has_opener in found.items() if not has_opener] == ["TestMemoryStore"]
