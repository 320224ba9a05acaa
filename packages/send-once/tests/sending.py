"""What the tests of the ledger share: an outbox that counts, and short ways to an entry."""

from __future__ import annotations

from collections.abc import Callable

from send_once import Claimed, Entry, Ledger, SendContext, Store


class Outbox:
    """Counts what went out."""

    def __init__(self) -> None:
        self.sent: list[SendContext] = []

    def __call__(self, context: SendContext) -> str:
        self.sent.append(context)
        return f"m{len(self.sent)}"


def raising(error: BaseException) -> Callable[[], object]:
    def send() -> object:
        raise error

    return send


def entry_in(store: Store, key: str = "k") -> Entry:
    entry = store.get(key)
    assert entry is not None
    return entry


def claimed_in(ledger: Ledger, key: str = "k") -> Claimed:
    claimed = ledger.claim(key)
    assert isinstance(claimed, Claimed)
    return claimed
