"""What send functions return although nothing went out, or in a shape that bites when it is looked at."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing.pool
import subprocess
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from send_once import (
    AsyncLedger,
    Claimed,
    Ledger,
    MemoryStore,
    RejectedSendError,
    Report,
    ResultRefusedError,
    Sent,
    UncertainSendError,
    approve,
    threaded,
)


def refuse() -> None:
    raise RejectedSendError("no such mailbox")


def be_cut_off() -> None:
    raise UncertainSendError("cut off")


@dataclass
class Response:
    status_code: int
    headers: Mapping[str, str] = field(default_factory=dict)


def run(script: str) -> object:
    return subprocess.run(["sh", "-c", script])  # noqa: S603, S607, PLW1510  # our own text; without check on purpose


def still_running() -> object:
    command = subprocess.Popen(["sh", "-c", "read line"], stdin=subprocess.PIPE)  # noqa: S607  # any command that waits

    def end() -> None:
        command.communicate(b"\n")

    ENDING.append(end)
    return command


ENDING: list[Callable[[], None]] = []

NOT_SENT: dict[str, Callable[[], Any]] = {
    "a command that failed": lambda: run("exit 75"),
    "a command that was killed": lambda: run("kill -9 $$"),
    "a command that has not ended": still_running,
    "a redirect nobody followed": lambda: Response(308),
    "a redirect to elsewhere": lambda: Response(302),
    "a refused send of another ledger": lambda: Ledger(MemoryStore()).once("inner", refuse),
    "an unknown send of another ledger": lambda: Ledger(MemoryStore()).once("inner", be_cut_off),
    "a claim that nobody followed": lambda: Ledger(MemoryStore()).claim("inner"),
    "a dispatch that was not allowed": lambda: Ledger(MemoryStore()).dispatch(
        approve(payload=1), key="inner", payload=2, send=lambda payload: payload
    ),
}


@pytest.fixture(autouse=True)
def nothing_left_running() -> Any:
    yield
    while ENDING:
        ENDING.pop()()


@pytest.mark.parametrize("name", NOT_SENT)
def test_what_does_not_say_that_it_went_out_is_not_recorded_as_sent(name: str) -> None:
    ledger = Ledger(MemoryStore())
    with pytest.raises(ResultRefusedError, match="The entry stays pending") as refused:
        ledger.once("key", NOT_SENT[name])
    assert refused.value.result is not None
    assert ledger.once("key", refuse).outcome == "unknown"


def test_the_halves_and_a_batch_refuse_the_same_results() -> None:
    ledger = Ledger(MemoryStore())
    one, two, three = (ledger.claim(key) for key in ("one", "two", "three"))
    assert isinstance(one, Claimed)
    assert isinstance(two, Claimed)
    assert isinstance(three, Claimed)
    with pytest.raises(ResultRefusedError):
        ledger.settle(one, run("exit 1"))
    outcomes = ledger.settle_many([Report(two, run("exit 1")), Report(three, run("exit 0"))])
    assert [outcome.outcome for outcome in outcomes] == ["unknown", "sent"]


SENT: dict[str, Callable[[], Any]] = {
    "a command that succeeded": lambda: run("exit 0"),
    "a response": lambda: Response(202),
    "a sent message of another ledger": lambda: Ledger(MemoryStore()).once("inner", lambda: "id"),
    "a mapping with a status": lambda: {"status": 500, "headers": {}},
}


@pytest.mark.parametrize("name", SENT)
def test_what_says_that_it_went_out_is_recorded_as_sent(name: str) -> None:
    assert isinstance(Ledger(MemoryStore()).once("key", SENT[name]), Sent)


def test_a_job_handed_to_a_pool_is_not_a_sent_message() -> None:
    ledger = Ledger(MemoryStore())
    calls: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert ledger.once("future", lambda: pool.submit(refuse)).outcome == "unknown"
    with multiprocessing.pool.ThreadPool(1) as threads:
        assert ledger.once("result", lambda: threads.apply_async(calls.append, ("sent",))).outcome == "unknown"
        assert asyncio.run(_once_async(lambda: threads.apply_async(calls.append, ("sent",)))) == "unknown"


async def _once_async(send: Callable[[], Any]) -> str:
    return (await AsyncLedger(threaded(MemoryStore())).once("key", send)).outcome


class Lazy:
    """Stands for an object that is not there now, as web frameworks have them."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("working outside of the request")

    @__class__.setter
    def __class__(self, _cls: Any) -> None:
        raise RuntimeError("working outside of the request")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("working outside of the request")


@dataclass
class WithLazyId:
    id: object = field(default_factory=Lazy)
    headers: object = field(default_factory=Lazy)
    status: object = field(default_factory=Lazy)


def dead_reference() -> object:
    return weakref.proxy(Response(200))


BITING: dict[str, Callable[[], Any]] = {"a lazy object": Lazy, "a dead reference": dead_reference, "inside": WithLazyId}


@pytest.mark.parametrize("name", BITING)
def test_a_result_that_cannot_be_looked_at_does_not_send_the_message_again(name: str) -> None:
    ledger = Ledger(MemoryStore())
    calls: list[str] = []

    def send() -> object:
        calls.append("sent")
        return BITING[name]()

    assert [ledger.once("key", send).outcome for _ in range(2)] == ["sent", "duplicate"]
    assert calls == ["sent"]
    assert asyncio.run(_once_async(BITING[name])) == "sent"


def test_a_clock_that_stops_after_the_send_leaves_it_pending_and_says_what_went_out() -> None:
    times = [1_790_000_000_000.0]
    ledger = Ledger(MemoryStore(), clock=lambda: times.pop())
    with pytest.raises(IndexError) as stopped:
        ledger.once("key", lambda: "msg_1")
    assert "was sent (provider id 'msg_1')" in str(stopped.value.__notes__)
    assert Ledger(ledger.store).once("key", refuse).outcome == "unknown"
