"""Settling exactly the entry that was judged: what changes in between is judged anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from send_once import protocol
from send_once.entry import Entry, Status
from send_once.errors import ContendedError, NotFoundError
from send_once.owner import liveness
from send_once.settings import Settlement, check_by, checked_settlement
from send_once.stores.base import Store

ROUNDS_MAX: Final = 20


class Settled(NamedTuple):
    """An entry, as it was and as it is now; the same where nothing had to change."""

    before: Entry
    after: Entry


def settle(
    store: Store, wanted: Settlement, *, by: str, now_ms: Callable[[], float], even_if_running: bool = False
) -> Settled | str:
    """Settle `wanted`, or answer why it must not be: its send may be happening right now.

    Raises what `Ledger.resolve` raises.
    """
    check_by(by)
    checked_settlement(wanted.key, wanted.status, wanted.note, wanted.provider_id)
    for _ in range(ROUNDS_MAX):
        current = store.get(wanted.key)
        if current is None:
            raise NotFoundError(f"No entry for {wanted.key}.")
        if may_be_sending(current, wanted.status) and not even_if_running:
            return running_text(current)
        script = protocol.resolve_entry(current, wanted.status, by=by, note=wanted.note, provider_id=wanted.provider_id)
        settled = _perform(script, store, now_ms)
        if settled is not None:
            return Settled(current, settled)
    raise ContendedError(f"Gave up settling {wanted.key}: it kept changing underneath.")


def may_be_sending(entry: Entry, wanted: Status) -> bool:
    """Whether marking the entry failed could put a second send beside the first: its process still
    runs here, and has not reported how the send ended."""
    if wanted is not Status.FAILED or entry.status is not Status.PENDING:
        return False
    return not entry.uncertain and liveness(entry.claim) == "running here"


def running_text(entry: Entry) -> str:
    pid = entry.claim.pid if entry.claim is not None else 0
    return (
        f"{entry.key} was claimed by process {pid}, which is still running here and may be sending it now. "
        "Marked failed, it could be sent a second time. Wait for the process or end it, then resolve; "
        "or say --even-if-running."
    )


def _perform(script: protocol.Script[Entry | None], store: Store, now_ms: Callable[[], float]) -> Entry | None:
    answer: Any = None
    while True:
        try:
            step = script.send(answer)
        except StopIteration as end:
            settled: Entry | None = end.value
            return settled
        answer = store.transition(*step) if isinstance(step, protocol.Transition) else now_ms()
