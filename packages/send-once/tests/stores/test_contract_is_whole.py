"""Which rules of the contract our own stores leave out, so that none is left out by a slip."""

from __future__ import annotations

import pytest

from send_once import FileStore, MemoryStore, SQLiteStore, SQLStore
from send_once.stores.postgres import AsyncPostgresStore, PostgresStore
from send_once.testing import StoreContract

OPTIONAL = ("claim_many", "transition_many", "claim_or_get", "history")


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


def test_every_store_of_ours_that_outlives_its_process_is_tried_with_several(request: pytest.FixtureRequest) -> None:
    """Looks at the classes this very run collected."""
    contracts = {item.cls for item in request.session.items if isinstance(item, pytest.Function) and item.cls}
    without = {
        contract.__name__
        for contract in contracts
        if issubclass(contract, StoreContract) and contract.opener is StoreContract.opener
    }
    assert without <= {"TestMemoryStore"}
