"""Every error the library raises, and the three a send function may raise to say how it ended.

SendOnceError                      .code: stable, lower-case, the same in exceptions, CLI JSON and docs
├── InvalidInputError              invalid_input        also a TypeError and a ValueError; nothing was claimed
├── NotFoundError                  not_found            resolve() of a key the ledger does not hold
├── AlreadySentError               already_sent         `sent` never goes back
├── KeyReusedError                 key_reused           same key, other payload
├── ResultRefusedError             result_refused       send returned an error as its result; the entry stays pending
├── ContendedError                 contended            the entry kept changing underneath
└── StoreError                     store_error          what a store could not do
    ├── LockTimeoutError           lock_timeout
    ├── StoreInconsistentError     store_inconsistent
    ├── BadQueryResultError        bad_query_result
    ├── UnsafeStoreError           unsafe_store         a claim might not survive, or not be seen
    ├── LedgerDamagedError         ledger_damaged       a damaged line nobody has accepted yet
    ├── EntryTooLargeError         entry_too_large
    └── NotALedgerError            not_a_ledger

SendError                          raised by *your* send function
├── RejectedSendError              definitely not accepted: recorded `failed`, may be tried again
│   └── RetryLaterError            the same, and not before `after` seconds
└── UncertainSendError             may have gone out: recorded pending, never resent by itself
"""

from __future__ import annotations

from typing import ClassVar


class SendOnceError(Exception):
    """Base of every error of the ledger. `code` is stable and documented in the error table."""

    code: ClassVar[str] = "send_once_error"


class InvalidInputError(SendOnceError, TypeError, ValueError):
    """An argument cannot be used. Raised before anything is claimed or written.

    `field` names the argument or the place inside it (`payload.items[2].price`), or is None.
    """

    code = "invalid_input"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotFoundError(SendOnceError):
    """The ledger holds no entry for the key."""

    code = "not_found"


class AlreadySentError(SendOnceError):
    """The entry is `sent`; it cannot be marked failed, because a failed entry may be sent again."""

    code = "already_sent"


class KeyReusedError(SendOnceError):
    """The key was claimed with another payload, and that send went out or may have."""

    code = "key_reused"


class ResultRefusedError(SendOnceError):
    """`send` returned what does not say that the message was accepted: an HTTP response that is no
    success, a command that failed, another send's outcome. The entry stays pending; what was
    returned is in `result`."""

    code = "result_refused"

    def __init__(self, message: str, *, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class ContendedError(SendOnceError):
    """The entry changed underneath every one of the tries. Nothing was sent by this call."""

    code = "contended"


class StoreError(SendOnceError):
    """A store could not do what it was asked to."""

    code = "store_error"


class LockTimeoutError(StoreError):
    """The ledger's lock was held by someone else for the whole wait."""

    code = "lock_timeout"


class StoreInconsistentError(StoreError):
    """The store contradicts itself: it refused a claim yet holds no entry."""

    code = "store_inconsistent"


class BadQueryResultError(StoreError):
    """The caller's `query` returned something from which rows or a row count cannot be read."""

    code = "bad_query_result"


class UnsafeStoreError(StoreError):
    """The database, connection or file is in a state in which a claim might not survive, or might not be
    seen by others. Refused when it is opened, or when that becomes known."""

    code = "unsafe_store"


class LedgerDamagedError(StoreError):
    """The ledger has a damaged line that is no torn tail. Claims are refused until a person,
    having seen it in `send-once doctor`, accepts it."""

    code = "ledger_damaged"


class EntryTooLargeError(StoreError):
    """The entry's JSON text is larger than the store's cap. Nothing was written."""

    code = "entry_too_large"


class NotALedgerError(StoreError):
    """The file or table is not a ledger: nothing in it is an entry."""

    code = "not_a_ledger"


class SendError(Exception):
    """Base of the three errors with which a send function says how the send ended."""


class RejectedSendError(SendError):
    """The provider definitely did not accept the message. Recorded as `failed`; may be tried again."""


class RetryLaterError(RejectedSendError):
    """Definitely not accepted, and the provider asks to wait `after` seconds before the next try."""

    def __init__(self, message: str = "Not accepted; try again later.", *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class UncertainSendError(SendError):
    """The message may have been accepted. The entry stays pending (`unknown`) until evidence settles it.

    Takes a cause (an exception, or text) like the reference: the text becomes
    ``Delivery is unknown: <cause>`` unless `message` is given. A cause that is an exception is
    kept as ``__cause__``.
    """

    def __init__(self, cause: object = None, message: str | None = None) -> None:
        self.reason = cause
        super().__init__(message if message is not None else _uncertain_text(cause))
        if isinstance(cause, BaseException):
            self.__cause__ = cause


def _uncertain_text(cause: object) -> str:
    return "Delivery is unknown." if cause is None else f"Delivery is unknown: {cause}"
