"""Where a ledger is, as text: a file's path, or the address of a file or database.

| address | store |
|---|---|
| `sends.jsonl`, `./sends.jsonl`, `file:sends.jsonl`, `file:///var/lib/sends.jsonl` | FileStore |
| `sqlite:sends.db`, `sqlite:///var/lib/sends.db`, `sqlite:sends.db?table=sends` | SQLiteStore |
| `postgresql://user@host/db`, `postgres://…`, `postgresql://host/db?table=ops.sends` | PostgresStore |

`table` is ours; every other parameter of a Postgres address is the driver's.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote

from send_once.errors import InvalidInputError, StoreError
from send_once.stores.base import Store

Kind = Literal["file", "sqlite", "postgres"]

DEFAULT_TABLE: Final = "send_once"

_KINDS: Final[dict[str, Kind]] = {"file": "file", "sqlite": "sqlite", "postgresql": "postgres", "postgres": "postgres"}
_HIDDEN: Final = "***"
_CREDENTIALS: Final = re.compile(r"([^:]*://[^:@/?]*):(?:[^/]*|[^?]*)@")
"""Up to the last @ that may end a password, also one whose / or ? should have been escaped."""
_SECRET_PARAMETERS: Final = frozenset({"password", "sslpassword", "passfile"})


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed address. `target` is a path, or a connection URL without our parameters (it may hold a
    password). `shown` is what may be printed."""

    kind: Kind
    target: str = field(repr=False)
    table: str
    shown: str

    def exists(self) -> bool:
        """False for a file that is not there. A server is only known once it is asked."""
        return self.kind == "postgres" or os.path.exists(self.target)


def parse_address(address: str) -> Address:
    """Read an address; InvalidInputError, with the forms there are, for one of an unknown kind."""
    if not isinstance(address, str):
        raise InvalidInputError("A ledger's address must be text.", field="address")
    scheme, colon, rest = address.partition(":")
    kind = _KINDS.get(scheme.lower()) if colon else None
    if kind is None and "://" not in address:
        return Address("file", address, DEFAULT_TABLE, address)
    match kind:
        case "file":
            return Address("file", _path(rest, address), DEFAULT_TABLE, address)
        case "sqlite":
            path, _, query = rest.partition("?")
            return Address("sqlite", _path(path, address), _table_of(query, address), address)
        case "postgres":
            return _postgres(address)
        case None:
            raise InvalidInputError(
                f"No store for {_without_password(address)}: use a file path, file:, sqlite: or postgresql:.",
                field="address",
            )


def open_store(address: str, *, read_only: bool = False) -> Store:
    """The store at `address`. With `read_only` nothing is created and nothing can be written.

    Raises InvalidInputError for an address that cannot be read, StoreError where `read_only` is set
    and there is no such file, and what the store itself raises.
    """
    found = parse_address(address)
    if read_only and not found.exists():
        raise StoreError(f"No such ledger: {found.shown}")
    return open_address(found, read_only=read_only, create=not read_only)


def open_address(address: Address, *, read_only: bool, create: bool) -> Store:
    """The store at a parsed address. Drivers are loaded here, and only the one that is needed."""
    match address.kind:
        case "file":
            from send_once.stores.file import FileStore

            return FileStore(address.target, create=create)
        case "sqlite" if read_only:
            from send_once.stores.readonly import ReadOnlySQLite

            return ReadOnlySQLite(address.target, table=address.table)
        case "sqlite":
            from send_once.stores.sqlite import SQLiteStore

            return SQLiteStore(address.target, table=address.table, create=create)
        case "postgres":
            from send_once.stores.postgres import PostgresStore

            return PostgresStore(address.target, table=address.table, create=create)


def _path(text: str, address: str) -> str:
    """A path after `file:` or `sqlite:`. Three slashes start an absolute one (RFC 8089); with two, a
    host would follow, and there is none to go to."""
    if not text.startswith("//"):
        path = text
    elif text.startswith(("///", "//localhost/")):
        path = unquote(text[2:].removeprefix("localhost"))
    else:
        raise InvalidInputError(f"{address} names a host; an absolute path needs three slashes.", field="address")
    if not path:
        raise InvalidInputError(f"{address} names no file.", field="address")
    return path


def _table_of(query: str, address: str) -> str:
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    table = parameters.pop("table", DEFAULT_TABLE)
    if parameters:
        raise InvalidInputError(
            f"{address}: the only parameter of a sqlite: address is table, not {', '.join(sorted(parameters))}.",
            field="address",
        )
    return table


def _postgres(address: str) -> Address:
    place, query = _split(address)
    parameters = [pair.partition("=") for pair in query.split("&") if pair]
    tables = [unquote(value) for name, _, value in parameters if name == "table"]
    # The others as they stand: the driver has its own rules for escapes.
    rest = "&".join("".join(parameter) for parameter in parameters if parameter[0] != "table")
    target = f"postgresql:{place.partition(':')[2]}{rest and '?' + rest}"
    return Address("postgres", target, tables[-1] if tables else DEFAULT_TABLE, _without_password(address))


def _without_password(address: str) -> str:
    place, query = _split(address)
    shown = "&".join(_shown_parameter(pair) for pair in query.split("&")) if query else ""
    return _CREDENTIALS.sub(rf"\1:{_HIDDEN}@", place) + (shown and f"?{shown}")


def _split(address: str) -> tuple[str, str]:
    """What stands before the parameters, and the parameters. By hand, because urllib drops an empty host,
    and takes a `?` or `#` in a password for an end; libpq looks for the @ first."""
    credentials = _CREDENTIALS.match(address)
    start = credentials.end() if credentials else 0
    place, _, query = address[start:].partition("?")
    return address[:start] + place, query


def _shown_parameter(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}{equals}{_HIDDEN}" if unquote(name).lower() in _SECRET_PARAMETERS else pair
