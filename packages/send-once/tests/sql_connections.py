"""Connections with a table for SQLStore; importable, so that a spawned process can open its own."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg

from send_once import SQLStore
from send_once.stores.statements import SCHEMA


def sqlite_connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(SCHEMA.format(table="send_once"))
    connection.commit()
    return connection


def open_on_sqlite(path: Path) -> SQLStore:
    return SQLStore.for_connection(sqlite_connection(path))


def open_on_postgres(url: str) -> SQLStore:
    return SQLStore.for_connection(psycopg.connect(url, autocommit=True))
