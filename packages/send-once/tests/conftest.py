"""Fixtures that any test may ask for: real servers, started when the first test needs them."""

from __future__ import annotations

from servers.postgres import postgres, postgres_dsn, postgres_server, postgres_url

__all__ = ["postgres", "postgres_dsn", "postgres_server", "postgres_url"]
