"""Django for tests, and databases of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_databases import alias_of, end_connections, migrated
from servers.postgres import postgres, postgres_dsn, postgres_server, postgres_url

__all__ = ["postgres", "postgres_dsn", "postgres_server", "postgres_url"]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a new database with the engine's tables, of each kind."""
    address = f"sqlite://{tmp_path}/engine.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    migrated(address)
    yield address
    end_connections(alias_of(address))
