"""What a subclass of the contract says about its store, and what the rules look at it with."""

from __future__ import annotations

from collections.abc import Callable
from unittest import SkipTest

from send_once.entry import Entry
from send_once.errors import InvalidInputError
from send_once.stores.base import AnsweringStore, BatchStore, HistoryStore, Store
from send_once.testing.entries import entry_of
from send_once.testing.races import OpenStore


class StoreHooks:
    """What the rules ask of the class they are run in."""

    def new_store(self) -> Store:
        """A new, empty store, as the rules call it."""
        raise NotImplementedError

    def opener(self) -> OpenStore | None:
        """A picklable function that opens the same data, or None for a store within one process."""
        return None

    def required_opener(self) -> OpenStore:
        """What `opener` gives; skips the test, and says so, where it gives nothing."""
        open_store = self.opener()
        if open_store is None:
            raise SkipTest(
                "define opener(), which returns a picklable function that opens the same data: without it nothing is "
                "tried with a second handle, with several processes, killed ones or forked ones"
            )
        return open_store


def batches(store: Store) -> BatchStore:
    """The store as one that does batches; skips the test, and says so, where it is none.

    AssertionError for half of one: a ledger uses the two together or not at all.
    """
    if isinstance(store, BatchStore):
        return store
    name = type(store).__name__
    for has, lacks in (("claim_many", "transition_many"), ("transition_many", "claim_many")):
        assert not hasattr(store, has), f"{name} has {has} and no {lacks}: no ledger will call it"
    raise SkipTest(f"{name} has no claim_many and transition_many, which are optional")


def answering(store: Store) -> AnsweringStore:
    if not isinstance(store, AnsweringStore):
        raise SkipTest(f"{type(store).__name__} has no claim_or_get, which is optional")
    return store


def keeping_history(store: Store) -> HistoryStore:
    if not isinstance(store, HistoryStore):
        raise SkipTest(f"{type(store).__name__} has no history, which is optional")
    return store


def stored(store: Store, key: str) -> Entry:
    entry = store.get(key)
    assert entry is not None, f"the store has no entry for {key!r}"
    return entry


def claimed_or_refused(store: Store, key: str) -> bool:
    """True if the key was claimed, False if it was refused as bad input; anything else breaks the contract."""
    try:
        claimed = store.claim(entry_of(key))
    except InvalidInputError:
        return False
    assert claimed is True, f"{key!r} was taken for another key"
    return True


def raises(kind: type[BaseException], call: Callable[[], object]) -> None:
    """Without pytest, so that the contract depends on the standard library only."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def close(store: Store) -> None:
    closes = getattr(store, "close", None)
    if callable(closes):
        closes()
