"""What a store is: four methods, none of which writes without saying what it expects to find.

`send_once.testing.StoreContract` decides whether a class is a store; read *adding a store* in the
docs before writing one.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from send_once.entry import Entry, Status
from send_once.errors import InvalidInputError

REQUIRED_METHODS = ("claim", "transition", "get", "list")


@runtime_checkable
class Store(Protocol):
    """Where entries live, for :class:`send_once.Ledger`."""

    def claim(self, entry: Entry) -> bool:
        """Insert `entry` if its key is absent. True for exactly one of any racing callers.

        Durable before it returns True: a power cut afterwards does not undo it. When it raises,
        the entry may or may not be there; the ledger then asks `get` and knows its own claim by
        its id.
        """

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        """Replace the stored entry by `entry` only if it still is `came_from`.

        Compares at least the status, the attempt number and the claim id, in the same step as the
        write (under the same lock, or in the same statement); comparing the whole text is
        stricter and welcome. True if replaced, and then durable.
        """

    def get(self, key: str) -> Entry | None:
        """The current entry, as of now: never from a cache that another process may have outrun."""

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        """Entries of one status, or all, ordered by claim time as stored, ties in order of arrival."""


@runtime_checkable
class AsyncStore(Protocol):
    """Where entries live, for :class:`send_once.AsyncLedger`: :class:`Store` with `await`.

    A cancelled call may or may not have applied; it must not leave the store unusable.
    """

    async def claim(self, entry: Entry) -> bool: ...
    async def transition(self, came_from: Entry, entry: Entry) -> bool: ...
    async def get(self, key: str) -> Entry | None: ...
    async def list(self, status: Status | None = None) -> Sequence[Entry]: ...


Pair = tuple[Entry, Entry]
"""(came_from, entry) of one transition."""


@runtime_checkable
class AnsweringStore(Protocol):
    """A store that answers a refused claim with the entry in the way, in the same round trip."""

    def claim_or_get(self, entry: Entry) -> bool | Entry:
        """`claim`, but where it is refused, the stored entry, as of after the refusal; False where
        it could not be seen in the same step (the ledger then asks `get`)."""


@runtime_checkable
class BatchStore(Store, Protocol):
    """A store that does a batch in one durable step. Every entry of a batch has its own key."""

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        """`claim` for each, in order, durable together; all or nothing when it raises."""

    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        """`transition` for each, in order, durable together; all or nothing when it raises."""


@runtime_checkable
class HistoryStore(Store, Protocol):
    """A store that keeps what an entry was before."""

    def history(self, key: str) -> Sequence[Entry]:
        """Every state the key's entry has had, oldest first."""


def require_store(store: object) -> None:
    """Refuse, before anything is claimed, an object that lacks a method of a store."""
    missing = [name for name in REQUIRED_METHODS if not callable(getattr(store, name, None))]
    if missing:
        raise InvalidInputError(f"Ledger: the store is missing {', '.join(missing)}.", field="store")


def require_plain_store(store: object) -> None:
    """Refuse also a store whose methods only return coroutines: to a caller that does not await them
    each would look like a claim that was made."""
    require_store(store)
    if _is_async(store):
        raise InvalidInputError("Ledger: the store is async. Use AsyncLedger.", field="store")


def require_async_store(store: object) -> None:
    """Refuse also a plain store, whose claim would be made before anyone could await it."""
    require_store(store)
    if not _is_async(store):
        raise InvalidInputError(
            "AsyncLedger: the store's methods are not async functions. Wrap a plain store: threaded(store).",
            field="store",
        )


def _is_async(store: object) -> bool:
    return any(inspect.iscoroutinefunction(getattr(store, name)) for name in REQUIRED_METHODS)


def require_encodable_key(key: str, *, store_name: str) -> None:
    """Refuse a key a text column cannot hold apart from others: a lone surrogate or a NUL.

    Postgres drivers replace lone surrogates, so that two keys become one; a NUL ends the text.
    """
    if "\0" in key:
        raise InvalidInputError(f"{store_name} cannot keep a key with a NUL character: {key!r}.", field="key")
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"{store_name} cannot keep a key with a lone surrogate: {key!r}. Use send_key(), which gives plain hex.",
            field="key",
        ) from None
