"""What a subclass of the contract says about its store, and what the rules look at it with."""

from __future__ import annotations

from collections.abc import Callable

from send_once.entry import Entry
from send_once.errors import InvalidInputError
from send_once.stores.base import Store
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

    def another(self, store: Store) -> Store:
        """Another handle on the same data."""
        open_store = self.opener()
        return store if open_store is None else open_store()


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
