"""All SQL text, in one place: the reference's table, and the few statements that are sent to it.

Every write is one statement that says what it expects to find. Beyond the reference's own
condition (key and status) an update names the whole text of the entry it replaces, so that an
attempt cannot be mistaken for a later one of the same key in the same status.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, get_args

from send_once.entry import Entry
from send_once.errors import InvalidInputError

Placeholder = Literal["question", "dollar", "format", "named"]
"""How a driver writes parameters: `?`, `$1`, `%s`, or `:key` with a mapping."""

PLACEHOLDERS: Final = get_args(Placeholder)

SCHEMA: Final = """CREATE TABLE IF NOT EXISTS {table} (
  key TEXT PRIMARY KEY,
  status TEXT NOT NULL,
  entry TEXT NOT NULL,
  claimed_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
)"""

INSERT: Final = (
    "INSERT INTO {table} (key, status, entry, claimed_at, updated_at) "
    "VALUES (:key, :status, :entry, :claimed_at, :updated_at) ON CONFLICT (key) DO NOTHING"
)
UPDATE: Final = (
    "UPDATE {table} SET status = :status, entry = :entry, claimed_at = :claimed_at, updated_at = :updated_at "
    "WHERE key = :key AND status = :from_status AND entry = :from_entry"
)
RETURNING: Final = " RETURNING key"
GET: Final = "SELECT entry FROM {table} WHERE key = :key"
LIST_ALL: Final = "SELECT entry FROM {table} ORDER BY claimed_at"
LIST_STATUS: Final = "SELECT entry FROM {table} WHERE status = :status ORDER BY claimed_at"

# The order in which the reference numbers the parameters of its UPDATE; what we add comes last.
_NUMBERED: Final = ("key", "from_status", "status", "entry", "claimed_at", "updated_at", "from_entry")

_PARAMETER: Final = re.compile(r"(?<!:):([a-z_]+)")
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


class Row(NamedTuple):
    """An entry as the table holds it: the whole of it as JSON text, and what is searched by."""

    key: str
    status: str
    entry: str
    claimed_at: str
    updated_at: str


class Statement(NamedTuple):
    """SQL text, and the names of its parameters in the order in which the driver wants them."""

    sql: str
    names: tuple[str, ...]
    placeholder: Placeholder

    def parameters(self, values: Mapping[str, str]) -> list[str] | dict[str, str]:
        if self.placeholder == "named":
            return {name: values[name] for name in self.names}
        return [values[name] for name in self.names]


def statement(template: str, table: str, placeholder: Placeholder) -> Statement:
    """One of the templates above, for `table`, as the driver wants it."""
    found = _PARAMETER.findall(template)
    names = tuple(sorted(found, key=_NUMBERED.index)) if placeholder == "dollar" and "from_status" in found else found
    marks: dict[Placeholder, Callable[[str], str]] = {
        "question": lambda _name: "?",
        "dollar": lambda name: f"${names.index(name) + 1}",
        "format": lambda _name: "%s",
        "named": lambda name: f":{name}",
    }
    sql = _PARAMETER.sub(lambda match: marks[placeholder](match[1]), template.format(table=table))
    return Statement(sql, tuple(names), placeholder)


def require_table(table: object, *, store_name: str, with_schema: bool = True) -> str:
    """A table's name that needs no quotes: letters, digits and underscores, at most one dot. The
    names the reference takes, by its own rule."""
    if not isinstance(table, str) or not _TABLE.fullmatch(table):
        raise InvalidInputError(
            f"{store_name}: not a safe table name: {table}. Use letters, digits and underscores, "
            "beginning with a letter or underscore, with at most one dot (schema.table).",
            field="table",
        )
    if not with_schema and "." in table:
        raise InvalidInputError(
            f"{store_name}: {table} names a schema; the table must be one of the database itself.", field="table"
        )
    return table


def row_of(entry: Entry) -> Row:
    return Row(entry.key, entry.status.value, entry.text, entry.claimed_at, _updated_at(entry))


def update_values(came_from: Entry, entry: Entry) -> tuple[str, ...]:
    """The parameters of UPDATE in order of appearance."""
    return (
        entry.status.value,
        entry.text,
        entry.claimed_at,
        _updated_at(entry),
        came_from.key,
        came_from.status.value,
        came_from.text,
    )


def _updated_at(entry: Entry) -> str:
    """As the entry says; the claim's time where a foreign entry does not say."""
    return entry.updated_at or entry.claimed_at
