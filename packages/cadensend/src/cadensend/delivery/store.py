"""The delivery table as a store of the send-once library: nothing of the protocol is written a second time here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from cadensend.ids import uuid7
from send_once import Entry, InvalidInputError, Status
from send_once.errors import StoreError, UnsafeStoreError

TABLE: Final = "cadensend_delivery"
BATCH_MAX: Final = 100
"""Rows in one statement."""

_TAKEN_FROM_THE_ENTRY: Final = ("status", "attempts", "claim_id", "claimed_at", "updated_at", "provider_id", "entry")
_ABOUT: Final = ("issue", "reader", "version")
_COLUMNS: Final = ("workspace_id", "key", "id", *_ABOUT, *_TAKEN_FROM_THE_ENTRY)
_ROW: Final = f"({', '.join(['%s'] * len(_COLUMNS))})"
_INSERT: Final = f"INSERT INTO {TABLE} ({', '.join(_COLUMNS)}) VALUES "  # noqa: S608  # constants
_OR_NOT: Final = " ON CONFLICT DO NOTHING RETURNING key"
_UPDATE: Final = (
    f"UPDATE {TABLE} SET {', '.join(f'{name} = %s' for name in _TAKEN_FROM_THE_ENTRY)} "  # noqa: S608  # constants
    "WHERE workspace_id = %s AND key = %s AND entry = %s"
)
_GET: Final = f"SELECT entry FROM {TABLE} WHERE workspace_id = %s AND key = %s"  # noqa: S608  # constants
_LIST: Final = f"SELECT entry FROM {TABLE} WHERE workspace_id = %s"  # noqa: S608  # constants
_IN_ORDER: Final = " ORDER BY claimed_at, id"
_ATTEMPTS_MAX: Final = 2**63 - 1


class DeliveryStore:
    """The deliveries of one workspace.

    Outside a transaction each call is one statement and one commit. Inside one of the caller's, a claim is as
    durable as his commit: the worker claims its job and the delivery in one transaction, and sends after the
    commit was acknowledged. Meta may name `issue`, `reader` (UUIDs as text) and `version` (a number).
    Safe between threads, each of which has a connection of its own; not in a child that was forked.
    """

    def __init__(self, workspace: UUID, *, using: str = "default") -> None:
        self._workspace, self._using, self._pid = workspace, using, os.getpid()

    def claim(self, entry: Entry) -> bool:
        _require_plain(entry.key)
        return bool(self._run(_INSERT + _ROW + _OR_NOT, self._row(entry)))

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        return self._count(_UPDATE, self._change(came_from, entry)) == 1

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        """All in one transaction: durable together, or none was made."""
        for entry in entries:
            _require_plain(entry.key)
        batches = [entries[start : start + BATCH_MAX] for start in range(0, len(entries), BATCH_MAX)]
        with self._together():
            won = {key for batch in batches for key in self._claim_batch(batch)}
        return [entry.key in won for entry in entries]

    def transition_many(self, pairs: Sequence[tuple[Entry, Entry]]) -> Sequence[bool]:
        """All in one transaction, as `claim_many`."""
        with self._together():
            return [self.transition(came_from, entry) for came_from, entry in pairs]

    def get(self, key: str) -> Entry | None:
        _require_plain(key)
        rows = self._run(_GET, (self._workspace_value, key))
        return _parsed(rows[0][0]) if rows else None

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        """By claim time as stored, ties in order of arrival."""
        wanted, values = ("", ()) if status is None else (" AND status = %s", (status.value,))
        rows = self._run(_LIST + wanted + _IN_ORDER, (self._workspace_value, *values))
        return [_parsed(text) for (text,) in rows]

    @property
    def _connection(self) -> BaseDatabaseWrapper:
        if self._pid != os.getpid():
            raise UnsafeStoreError(
                "This store was made before the process forked; two processes on one connection mix up each other's "
                "answers. Make it after the fork."
            )
        return connections[self._using]

    @property
    def _workspace_value(self) -> Any:
        return self._adapted(self._workspace)

    def _adapted(self, value: UUID) -> Any:
        """As the column holds it: SQLite has no type for it."""
        return value if self._connection.features.has_native_uuid_field else value.hex

    def _claim_batch(self, batch: Sequence[Entry]) -> Iterator[str]:
        values = [value for entry in batch for value in self._row(entry)]
        sql = _INSERT + ", ".join([_ROW] * len(batch)) + _OR_NOT
        return (key for (key,) in self._run(sql, values))

    def _row(self, entry: Entry) -> tuple[Any, ...]:
        issue, reader, version = _about(entry)
        identity = (self._workspace_value, entry.key, self._adapted(uuid7()))
        about = (issue and self._adapted(issue), reader and self._adapted(reader), version)
        return (*identity, *about, *_members(entry))

    def _change(self, came_from: Entry, entry: Entry) -> tuple[Any, ...]:
        return (*_members(entry), self._workspace_value, came_from.key, came_from.text)

    def _run(self, sql: str, values: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        with self._cursor() as cursor:
            cursor.execute(sql, values)
            return tuple(cursor.fetchall())

    def _count(self, sql: str, values: Sequence[Any]) -> int:
        with self._cursor() as cursor:
            cursor.execute(sql, values)
            return int(cursor.rowcount)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        connection = self._connection
        with _told(connection), connection.cursor() as cursor:
            yield cursor

    @contextmanager
    def _together(self) -> Iterator[None]:
        with _told(self._connection), transaction.atomic(using=self._using):
            yield


@contextmanager
def _told(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """The driver's error as the library's. A connection that is of no more use is given up, outside a transaction,
    so that the next call opens another and can look what became of this one."""
    try:
        yield
    except DatabaseError as error:
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        raise StoreError(f"The database could not do this: {error}") from error


def _members(entry: Entry) -> tuple[Any, ...]:
    attempts = entry.attempts
    whole = attempts if abs(attempts) <= _ATTEMPTS_MAX else _ATTEMPTS_MAX
    return (
        entry.status.value,
        whole,
        entry.claim_id or "",
        entry.claimed_at,
        entry.updated_at or "",
        entry.provider_id or "",
        entry.text,
    )


def _about(entry: Entry) -> tuple[UUID | None, UUID | None, int | None]:
    """What of meta has columns of its own: issue, reader, version."""
    meta = entry.meta if isinstance(entry.meta, dict) else {}
    version = meta.get("version")
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 1):
        raise InvalidInputError(f"meta.version must be a whole number from 1, not {version!r}.", field="meta.version")
    return _uuid(meta, "issue"), _uuid(meta, "reader"), version


def _uuid(meta: dict[str, Any], name: str) -> UUID | None:
    value = meta.get(name)
    if value is None:
        return None
    try:
        return UUID(value)
    except (AttributeError, TypeError, ValueError):
        raise InvalidInputError(f"meta.{name} must be a UUID as text, not {value!r}.", field=f"meta.{name}") from None


def _parsed(text: str) -> Entry:
    entry = Entry.from_text(text)
    if entry is None:
        raise StoreError(
            f"A delivery holds no entry but {text[:100]!r}. It was not written by the engine; correct it by hand."
        )
    return entry


def _require_plain(key: str) -> None:
    try:
        key.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"A delivery's key cannot hold half a character: {key!r}.", field="key") from None
    if "\0" in key:
        raise InvalidInputError(f"A delivery's key cannot hold a NUL: {key!r}.", field="key")
