"""What the contract runs in child processes; at module level, so that it can be spawned."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from send_once.ledger import Ledger
from send_once.stores.base import Store
from send_once.testing.entries import entry_of


def claim_all(open_store: Callable[[], Store], keys: Sequence[str], name: str, barrier: Any, answers: Any) -> None:
    """Claim every key, together with the other processes; answers (name, keys won, error)."""
    won: list[str] = []
    error = ""
    try:
        store = open_store()
        barrier.wait()
        won = [key for key in keys if store.claim(entry_of(key, claim_id=name))]
    except threading.BrokenBarrierError:
        pass  # another process could not open the store, and says so
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
        barrier.abort()
    answers.put((name, won, error))


def die_in_send(open_store: Callable[[], Store], key: str) -> None:
    """Be killed while the send runs."""
    Ledger(open_store()).once(key, lambda: os.kill(os.getpid(), signal.SIGKILL))


def once_noting(store: Store, *, key: str, notes: str) -> None:
    """Send, and note it in a file that outlives this process."""
    Ledger(store).once(key, lambda: _note(notes))


def noted(notes: str) -> int:
    """How often something was noted."""
    return os.path.getsize(notes) if os.path.exists(notes) else 0


def _note(notes: str) -> None:
    with open(notes, "ab", buffering=0) as file:
        file.write(b".")
