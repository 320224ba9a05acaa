"""The ledger of what was sent to whom."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from django.db import models

from cadensend.accounts.models import Workspace
from cadensend.ids import uuid7


class NeverDeletedError(TypeError):
    """A delivery that is gone would be sent again."""


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def delete(self) -> NoReturn:
        raise NeverDeletedError("Deliveries are never deleted: what is not remembered is sent again.")


class Delivery(models.Model):
    """One intended send. `entry` is the ledger's record as text, and decides; the other columns are taken from
    it in the same statement, to be searched by. A correction is another version, and so another delivery."""

    pk = models.CompositePrimaryKey("workspace_id", "key")
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, db_index=False)
    key = models.TextField()
    id = models.UUIDField(default=uuid7, editable=False)
    issue = models.UUIDField(null=True)
    reader = models.UUIDField(null=True)
    version = models.PositiveIntegerField(null=True)
    status = models.TextField()
    attempts = models.BigIntegerField(default=1)
    claim_id = models.TextField(default="")
    claimed_at = models.TextField()
    updated_at = models.TextField()
    provider_id = models.TextField(default="")
    entry = models.TextField()

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        db_table = "cadensend_delivery"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "issue", "reader", "version"], name="one_delivery_of_a_version"
            ),
            models.UniqueConstraint(fields=["workspace", "id"], name="delivery_id"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["workspace", "claimed_at"], name="delivery_open", condition=models.Q(status="pending")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.key} ({self.status})"

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NeverDeletedError("Deliveries are never deleted: what is not remembered is sent again.")
