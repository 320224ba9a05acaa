"""A database by its address, with the settings under which a commit is a commit."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

BUSY_SECONDS: Final = 60

SQLITE_AT_EACH_CONNECTION: Final = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON"


class AddressError(ValueError):
    """Not the address of a database that the engine can use."""


def database_from(address: str) -> dict[str, Any]:
    """Django's settings for `sqlite:///path`, or `postgresql://user:password@host:port/name?option=…`."""
    scheme, _, rest = address.partition(":")
    match scheme.lower():
        case "sqlite":
            return _sqlite(rest, address)
        case "postgresql" | "postgres":
            return _postgres(address)
    raise AddressError(f"No database for {scheme}: use sqlite:///path or postgresql://user@host/name.")


def _sqlite(rest: str, address: str) -> dict[str, Any]:
    path = unquote(rest[2:] if rest.startswith("///") else rest)
    if not path or path.startswith("//") or path == ":memory:":
        raise AddressError(
            f"{address} names no file: use sqlite:///var/lib/cadensend.db (three slashes) or sqlite:name.db."
        )
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        # Immediate: a transaction that reads first and writes later would otherwise fail instead of wait.
        "OPTIONS": {
            "timeout": BUSY_SECONDS,
            "transaction_mode": "IMMEDIATE",
            "init_command": SQLITE_AT_EACH_CONNECTION,
        },
    }


def _postgres(address: str) -> dict[str, Any]:
    parts = urlsplit(address)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "OPTIONS": dict(parse_qsl(parts.query)),
    }
