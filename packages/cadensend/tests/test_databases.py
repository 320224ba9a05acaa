"""Addresses of databases, and the settings they bring."""

from __future__ import annotations

import pytest

from cadensend.databases import AddressError, database_from


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("sqlite:engine.db", "engine.db"),
        ("sqlite:/var/engine.db", "/var/engine.db"),
        ("sqlite:///var/my%20engine.db", "/var/my engine.db"),
    ],
)
def test_a_file_is_opened_with_full_syncs_and_immediate_transactions(address: str, name: str) -> None:
    settings = database_from(address)
    assert settings["NAME"] == name
    assert settings["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "synchronous = FULL" in settings["OPTIONS"]["init_command"]


def test_a_server_is_reached_by_name_port_and_options() -> None:
    settings = database_from("postgresql://ana:s%40cret@db.example:6432/engine?sslmode=require")
    assert {name: settings[name] for name in ("USER", "PASSWORD", "HOST", "PORT", "NAME")} == {
        "USER": "ana", "PASSWORD": "s@cret", "HOST": "db.example", "PORT": "6432", "NAME": "engine",
    }  # fmt: skip
    assert settings["OPTIONS"] == {"sslmode": "require"}


@pytest.mark.parametrize("address", ["", "engine.db", "mysql://h/db", "sqlite:", "sqlite://host/x", "sqlite::memory:"])
def test_what_the_engine_cannot_use_is_refused(address: str) -> None:
    with pytest.raises(AddressError):
        database_from(address)
