"""send-once: a message is sent at most once, and only while the approval behind it is still true."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from send_once.approvals import ApprovalRecord, approve
from send_once.batches import Report
from send_once.canonical import canonical_json, hash_payload
from send_once.certainty import TABLE as CERTAINTY_TABLE
from send_once.certainty import certainty_of
from send_once.durations import format_duration, parse_duration
from send_once.entry import ClaimMark, Entry, Status
from send_once.errors import (
    AlreadySentError,
    BadQueryResultError,
    ContendedError,
    EntryTooLargeError,
    InvalidInputError,
    KeyReusedError,
    LedgerDamagedError,
    LockTimeoutError,
    NotALedgerError,
    NotFoundError,
    RejectedSendError,
    ResultRefusedError,
    RetryLaterError,
    SendError,
    SendOnceError,
    StoreError,
    StoreInconsistentError,
    UncertainSendError,
    UnsafeStoreError,
)
from send_once.keys import normalise_recipient, send_key
from send_once.ledger import Ledger
from send_once.outcomes import (
    Absent,
    CannotTell,
    ChangedFact,
    Claimed,
    ClaimOutcome,
    DispatchOutcome,
    Duplicate,
    Evidence,
    Expired,
    Failed,
    Found,
    Outcome,
    PayloadChanged,
    Reconciled,
    Refusal,
    SendContext,
    Sent,
    StaleFacts,
    Unknown,
)
from send_once.owner import liveness
from send_once.settings import Settlement, claim_request
from send_once.stores.base import AsyncStore, Store
from send_once.version import __version__

if TYPE_CHECKING:
    from send_once.async_ledger import AsyncLedger
    from send_once.recipients import describe_recipient
    from send_once.stores import (
        AsyncPostgresStore,
        FileStore,
        MemoryStore,
        PostgresStore,
        SQLiteStore,
        SQLStore,
        open_store,
        threaded,
    )

_LOADED_WHEN_NAMED: Final = {
    "AsyncLedger": "send_once.async_ledger",
    "describe_recipient": "send_once.recipients",
    **dict.fromkeys(
        (
            "AsyncPostgresStore",
            "FileStore",
            "MemoryStore",
            "PostgresStore",
            "SQLStore",
            "SQLiteStore",
            "open_store",
            "threaded",
        ),
        "send_once.stores",
    ),
}
"""asyncio, sqlite3 and the drivers cost more to import than everything else together."""

__all__ = [
    "CERTAINTY_TABLE",
    "Absent",
    "AlreadySentError",
    "ApprovalRecord",
    "AsyncLedger",
    "AsyncPostgresStore",
    "AsyncStore",
    "BadQueryResultError",
    "CannotTell",
    "ChangedFact",
    "ClaimMark",
    "ClaimOutcome",
    "Claimed",
    "ContendedError",
    "DispatchOutcome",
    "Duplicate",
    "Entry",
    "EntryTooLargeError",
    "Evidence",
    "Expired",
    "Failed",
    "FileStore",
    "Found",
    "InvalidInputError",
    "KeyReusedError",
    "Ledger",
    "LedgerDamagedError",
    "LockTimeoutError",
    "MemoryStore",
    "NotALedgerError",
    "NotFoundError",
    "Outcome",
    "PayloadChanged",
    "PostgresStore",
    "Reconciled",
    "Refusal",
    "RejectedSendError",
    "Report",
    "ResultRefusedError",
    "RetryLaterError",
    "SQLStore",
    "SQLiteStore",
    "SendContext",
    "SendError",
    "SendOnceError",
    "Sent",
    "Settlement",
    "StaleFacts",
    "Status",
    "Store",
    "StoreError",
    "StoreInconsistentError",
    "UncertainSendError",
    "Unknown",
    "UnsafeStoreError",
    "__version__",
    "approve",
    "canonical_json",
    "certainty_of",
    "claim_request",
    "describe_recipient",
    "format_duration",
    "hash_payload",
    "liveness",
    "normalise_recipient",
    "open_store",
    "parse_duration",
    "send_key",
    "threaded",
]


def __getattr__(name: str) -> Any:
    home = _LOADED_WHEN_NAMED.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
