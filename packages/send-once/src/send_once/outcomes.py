"""What one call learned, as values. `match` over them with `assert_never` type-checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeVar

from send_once.entry import Entry, Json
from send_once.errors import RetryLaterError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class SendContext:
    """What a send function may ask for: the key (hand it to the provider) and the attempt's number."""

    key: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """This caller, and nobody else, may send `key` now. Durable. Hand it to `settle`."""

    key: str
    entry: Entry
    outcome: ClassVar[Literal["claimed"]] = "claimed"

    @property
    def attempt(self) -> int:
        return self.entry.attempts

    @property
    def context(self) -> SendContext:
        return SendContext(self.key, self.entry.attempts)


@dataclass(frozen=True, slots=True)
class Sent(Generic[T_co]):
    """The send ran now and the ledger says `sent`. `result` is what `send` returned."""

    key: str
    entry: Entry
    result: T_co
    outcome: ClassVar[Literal["sent"]] = "sent"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """It had been sent before; nothing was sent now."""

    key: str
    entry: Entry
    outcome: ClassVar[Literal["duplicate"]] = "duplicate"


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have gone out; nothing will be sent until evidence settles it.

    `error` is what the send raised, when this very call ran it; None when an earlier or parallel
    attempt holds the key.
    """

    key: str
    entry: Entry
    error: BaseException | None = None
    outcome: ClassVar[Literal["unknown"]] = "unknown"


@dataclass(frozen=True, slots=True)
class Failed:
    """This attempt did not go out: the table of certainty says so, or does not know the error and
    `unclassified` is "failed". The next call for the key may send, unless `entry`,
    what the ledger says now, tells of someone who recorded otherwise meanwhile."""

    key: str
    entry: Entry
    error: BaseException
    outcome: ClassVar[Literal["failed"]] = "failed"

    @property
    def retry_after_seconds(self) -> float | None:
        """How long the provider asked to wait, if it did (:class:`RetryLaterError`)."""
        return self.error.after if isinstance(self.error, RetryLaterError) else None


@dataclass(frozen=True, slots=True)
class Expired:
    """The approval is older than its time limit; nothing was sent."""

    key: str
    approved_at: str
    expires_at: str
    age_hours: float
    outcome: ClassVar[Literal["expired"]] = "expired"


@dataclass(frozen=True, slots=True)
class PayloadChanged:
    """The payload is not the one that was approved; nothing was sent."""

    key: str
    approved_hash: str
    current_hash: str
    outcome: ClassVar[Literal["payload_changed"]] = "payload_changed"


@dataclass(frozen=True, slots=True)
class ChangedFact:
    """One fact that no longer holds: its name, what the approver saw, what holds now."""

    fact: str
    before: Json
    after: Json


@dataclass(frozen=True, slots=True)
class StaleFacts:
    """Facts the approver saw no longer hold; nothing was sent."""

    key: str
    changed: tuple[ChangedFact, ...]
    outcome: ClassVar[Literal["stale_facts"]] = "stale_facts"


Outcome = Sent[T] | Duplicate | Unknown | Failed
"""What `once` and `settle` return."""

ClaimOutcome = Claimed | Duplicate | Unknown
"""What `claim` returns."""

Refusal = Expired | PayloadChanged | StaleFacts
"""Why `dispatch` did not send."""

DispatchOutcome = Sent[T] | Duplicate | Unknown | Failed | Expired | PayloadChanged | StaleFacts
"""What `dispatch` returns."""


@dataclass(frozen=True, slots=True)
class Found:
    """Evidence that the message was accepted: the provider knows it by our key."""

    provider_id: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """Evidence that it was not accepted: the look-up covers the whole time since the claim, its index
    is current, and the key is not there. `note` says which look-up, over which window."""

    note: str


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The look-up neither found it nor rules it out."""

    reason: str


Evidence = Found | Absent | CannotTell
"""What a look-up for `reconcile` answers."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What `reconcile` settled and what it left, oldest first."""

    sent: tuple[Entry, ...]
    failed: tuple[Entry, ...]
    left: tuple[tuple[Entry, str], ...]
    """Entries still pending, each with the reason."""

    def counts(self) -> Mapping[str, int]:
        return {"sent": len(self.sent), "failed": len(self.failed), "left": len(self.left)}
