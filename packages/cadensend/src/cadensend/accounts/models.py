"""Who works here. Every other table leads with the workspace."""

from __future__ import annotations

from django.db import models

from cadensend.ids import uuid7


class Workspace(models.Model):
    """A tenant: nothing is read across two of them."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name
