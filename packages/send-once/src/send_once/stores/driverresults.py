"""What a caller's `query` returned: rows, or how many rows were written, in the shapes drivers have.

Taken: a list of rows; a DB-API cursor or an ORM's result (rows where it has some, else `rowcount`);
an object or mapping with `rows` or a count. A row is a mapping, or a sequence with the wanted
column first. Anything else is refused: an answer that cannot be read must not pass for "no".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from send_once.entry import Entry, is_entry
from send_once.errors import BadQueryResultError, StoreError

COUNT_NAMES: Final = ("rowcount", "rowCount", "changes", "affectedRows", "affected_rows")

_HINT: Final = "Return the driver's result, or a list of rows."
_MISSING: Final = object()


def wrote_a_row(result: object) -> bool:
    """Whether the INSERT or UPDATE applied: a count above zero, or at least one returned row."""
    rows = _cursor_rows(result)
    if rows is not None:
        return len(rows) > 0
    count = _count(result)
    if count is not None:
        return count > 0
    rows = _plain_rows(result)
    if rows is None:
        raise BadQueryResultError(f"SQLStore: query() returned no row count and no rows ({_shown(result)}). {_HINT}")
    return len(rows) > 0


def entries_in(result: object) -> list[Entry]:
    """The entries a SELECT returned. A NULL in place of an entry is none."""
    rows = _cursor_rows(result)
    if rows is None:
        rows = _plain_rows(result)
    if rows is None:
        raise BadQueryResultError(f"SQLStore: query() returned no rows for a SELECT ({_shown(result)}). {_HINT}")
    entries = (_entry(_column(row)) for row in rows)
    return [entry for entry in entries if entry is not None]


def _cursor_rows(result: object) -> Sequence[Any] | None:
    """The rows of a cursor; None for what is no cursor, and for one whose statement returns none."""
    fetch = getattr(result, "fetchall", None)
    if not callable(fetch):
        return None
    returns_rows = getattr(result, "returns_rows", getattr(result, "description", None))
    if not returns_rows:
        if getattr(result, "rowcount", -1) == -1:
            raise BadQueryResultError(
                f"SQLStore: the cursor has no rows and does not know how many it wrote ({_shown(result)}). {_HINT}"
            )
        return None
    rows: Sequence[Any] = fetch()
    return rows


def _plain_rows(result: object) -> Sequence[Any] | None:
    if isinstance(result, list | tuple):
        return result
    rows = _member(result, "rows")
    return rows if isinstance(rows, list | tuple) else None


def _count(result: object) -> float | None:
    """The first count that is a number. None lets the rows decide."""
    if isinstance(result, list | tuple):
        return None
    for name in COUNT_NAMES:
        value = _member(result, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return 0 if math.isnan(value) else value
    return None


def _member(result: object, name: str) -> object:
    return result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)


def _column(row: Any) -> object:
    """The entry in a row: by name, or the first (and only) column."""
    if isinstance(row, Mapping):
        value = row.get("entry", _MISSING)
    elif isinstance(row, Sequence) and not isinstance(row, str | bytes):
        value = row[0] if row else _MISSING
    else:
        value = _first_or_named(row)
    if value is _MISSING:
        raise BadQueryResultError(f"SQLStore: a row has no column entry ({_shown(row)}). {_HINT}")
    return value


def _first_or_named(row: Any) -> object:
    try:
        return row["entry"]
    except (TypeError, LookupError):
        return getattr(row, "entry", _MISSING)


def _entry(value: object) -> Entry | None:
    """From JSON text, or from what a driver already made of a JSON column."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value).decode("utf-8", "replace")
    if isinstance(value, str):
        entry = Entry.from_text(value)
    else:
        entry = Entry(value) if isinstance(value, Mapping) and is_entry(value) else None
    if entry is None:
        raise StoreError(f"A row holds no entry but {str(value)[:100]!r}. Correct it by hand; no ledger wrote it.")
    return entry


def _shown(value: object) -> str:
    return f"{type(value).__name__}: {str(value)[:80]}"
