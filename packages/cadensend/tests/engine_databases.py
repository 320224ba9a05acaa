"""Databases by their addresses, in this process or in one that was spawned."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cadensend.settings")
os.environ.setdefault("CADENSEND_DATABASE", f"sqlite:{Path(tempfile.gettempdir()) / 'no-test-uses-the-default.db'}")

import django
from django.core.management import call_command
from django.db import connections
from django.db.backends.signals import connection_created
from django.dispatch import receiver

from cadensend.databases import database_from

django.setup()

_opened: dict[str, list[Any]] = {}


@receiver(connection_created)
def _remember(connection: Any, **_: object) -> None:
    _opened.setdefault(connection.alias, []).append(connection.connection)


def alias_of(address: str) -> str:
    """The name under which Django knows the database at `address` in this process."""
    if address not in connections.settings:
        asked: dict[str, Any] = {"default": {}, address: database_from(address)}
        connections.settings[address] = connections.configure_settings(asked)[address]
    return address


def migrated(address: str) -> None:
    call_command("migrate", database=alias_of(address), verbosity=0)


def end_connections(alias: str) -> None:
    """Close those of every thread: a thread that has ended leaves Django's connection open."""
    connections[alias].close()
    while _opened.get(alias):
        _opened[alias].pop().close()


def delivery_store(address: str, workspace: str) -> Any:
    """Opened in whichever process this is called."""
    from cadensend.delivery.store import DeliveryStore

    return DeliveryStore(UUID(workspace), using=alias_of(address))


def new_workspace(address: str) -> str:
    from cadensend.accounts.models import Workspace

    return Workspace.objects.using(alias_of(address)).create(name="Kitchen").id.hex
