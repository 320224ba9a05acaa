"""Task functions that a queue may repeat: `guarded`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from send_once import Duplicate, Failed, InvalidInputError, Ledger, MemoryStore, RejectedSendError, Sent
from sending import entry_in


def test_a_guarded_task_runs_once_for_its_key_and_returns_the_outcome() -> None:
    store = MemoryStore()
    ran: list[tuple[str, int]] = []

    @Ledger(store).guarded(key=lambda order, copies=1: f"invoice:{order}", meta=lambda order, copies=1: {"n": copies})
    def send_invoice(order: str, copies: int = 1) -> str:
        """Send an invoice."""
        ran.append((order, copies))
        return f"m-{order}"

    first, again, other = send_invoice("1042"), send_invoice("1042", copies=3), send_invoice("1043", copies=2)
    assert isinstance(first, Sent)
    assert first.result == "m-1042"
    assert isinstance(again, Duplicate)
    assert other.outcome == "sent"
    assert ran == [("1042", 1), ("1043", 2)]
    assert entry_in(store, "invoice:1043").meta == {"n": 2}
    assert (send_invoice.__name__, send_invoice.__doc__) == ("send_invoice", "Send an invoice.")


def test_a_guarded_method_has_its_object_in_its_key() -> None:
    ledger = Ledger(MemoryStore())

    def key_of(self: Mailer, to: str) -> str:
        return f"{self.name}:{to}"

    class Mailer:
        def __init__(self, name: str) -> None:
            self.name = name

        @ledger.guarded(key=key_of)
        def welcome(self, to: str) -> str:
            return f"{self.name} to {to}"

    assert Mailer("a").welcome("ana").outcome == "sent"
    assert Mailer("a").welcome("ana").outcome == "duplicate"
    assert Mailer("b").welcome("ana").outcome == "sent"


def test_a_guarded_task_that_raises_is_an_outcome() -> None:
    @Ledger(MemoryStore()).guarded(key=lambda: "k")
    def task() -> None:
        raise RejectedSendError("no")

    assert isinstance(task(), Failed)


def test_a_key_function_that_raises_claims_nothing() -> None:
    store = MemoryStore()

    @Ledger(store).guarded(key=lambda order: str(order["id"]))
    def task(order: dict[str, str]) -> None:
        raise AssertionError("must not run")

    with pytest.raises(KeyError):
        task({})
    assert list(store.list()) == []


def test_a_task_that_would_not_run_is_refused_where_it_is_decorated() -> None:
    async def later() -> None: ...

    def lines() -> Iterator[int]:
        yield 1

    key: Any = lambda: "k"
    guarded: Callable[..., Any] = Ledger(MemoryStore()).guarded(key=key)
    for task, words in ((later, "guarded: send is an async function"), (functools.partial(lines), "generator")):
        with pytest.raises(InvalidInputError, match=words):
            guarded(task)
