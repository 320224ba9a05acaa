"""Which send functions are taken and how they are called: refused, where refused, before anything is claimed."""

from __future__ import annotations

import asyncio
import functools
import types
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

import pytest

from send_once import (
    AsyncLedger,
    Failed,
    InvalidInputError,
    Ledger,
    MemoryStore,
    SendContext,
    Sent,
    UncertainSendError,
    Unknown,
    approve,
    threaded,
)

CONTEXT = SendContext("k", 1)


class Taking:
    """Callables and methods of every kind."""

    def nothing(self) -> object:
        return "called with nothing"

    def a_context(self, context: SendContext) -> object:
        return context

    def an_optional(self, copies: int = 2) -> object:
        return copies

    def anything(*args: object) -> object:  # noqa: N805  # a method without a named self is the point
        return args[1:]

    @classmethod
    def class_method(cls, context: SendContext) -> object:
        return context

    @staticmethod
    def static_method(context: SendContext) -> object:
        return context

    def __call__(self, context: SendContext) -> object:
        return context


class CalledWithNothing:
    def __call__(self) -> object:
        return "called with nothing"


class Made:
    """A class as a send function: the message is its instance."""

    def __init__(self, context: SendContext) -> None:
        self.id = f"made for {context.key}"


def a_function(context: SendContext) -> object:
    return context


def two(_first: object, context: object) -> object:
    return context


@functools.wraps(two)
def wrapper_of_two() -> object:
    return "the wrapper's own signature counts"


@functools.wraps(lambda: None)
def wrapper_of_nothing(context: SendContext) -> object:
    return context


TAKEN: dict[str, tuple[Any, object]] = {
    "a lambda with nothing": (lambda: 1, 1),
    "a lambda with a context": (lambda context: context, CONTEXT),
    "a default is left alone": (lambda copies=7: copies, 7),
    "one required, one with a default": (lambda context, copies=7: (context, copies), (CONTEXT, 7)),
    "star arguments get nothing": (lambda *args: args, ()),
    "one required before star arguments": (lambda context, *args: (context, args), (CONTEXT, ())),
    "double star gets nothing": (lambda **named: named, {}),
    "an optional keyword-only": (lambda *, copies=7: copies, 7),
    "positional only": (lambda context, /: context, CONTEXT),
    "a function": (a_function, CONTEXT),
    "a partial that fills everything": (functools.partial(two, "ana", "bob"), "bob"),
    "a partial that leaves one": (functools.partial(two, "ana"), CONTEXT),
    "a partial of a partial": (functools.partial(functools.partial(two, "ana")), CONTEXT),
    "a partial with a keyword": (functools.partial(two, context="ana"), "ana"),
    "a bound method with nothing": (Taking().nothing, "called with nothing"),
    "a bound method with a context": (Taking().a_context, CONTEXT),
    "a bound method with a default": (Taking().an_optional, 2),
    "a bound method with star arguments": (Taking().anything, ()),
    "a class method": (Taking.class_method, CONTEXT),
    "a static method": (Taking.static_method, CONTEXT),
    "an object that can be called": (Taking(), CONTEXT),
    "an object that is called with nothing": (CalledWithNothing(), "called with nothing"),
    "a built-in that takes nothing": (dict, {}),
    "a built-in that takes one": (id, id),
    "a bound built-in": ([3].copy, [3]),
    "a wrapper that takes less": (wrapper_of_two, "the wrapper's own signature counts"),
    "a wrapper that takes more": (wrapper_of_nothing, CONTEXT),
    "a class": (Made, Made),
}

REFUSED: dict[str, tuple[object, str]] = {
    "None": (None, "must be a function"),
    "a string": ("send", "must be a function"),
    "a result instead of a function": ({"id": "m"}, "must be a function"),
    "two required": (lambda context, other: None, "takes 2 required arguments"),
    "three required": (lambda a, b, c: None, "takes 3 required arguments"),
    "an unbound method": (Taking.a_context, "takes 2 required arguments"),
    "a partial that leaves two": (functools.partial(lambda a, b, c: None, 1), "takes 2 required arguments"),
    "a required keyword-only": (lambda *, to: None, "required keyword-only"),
    "a required keyword-only beside one with a default": (lambda *, to, copies=1: None, "required keyword-only"),
    "a class of two": (type("Two", (), {"__init__": lambda self, a, b: None}), "takes 2 required arguments"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_send_function_is_called_with_what_it_requires(name: str) -> None:
    send, expected = TAKEN[name]
    outcome = Ledger(MemoryStore()).once("k", send)
    assert isinstance(outcome, Sent), outcome
    if expected is id:
        assert isinstance(outcome.result, int)
    elif isinstance(expected, type):
        assert isinstance(outcome.result, expected)
        assert outcome.entry.provider_id == "made for k"
    else:
        assert outcome.result == expected


@pytest.mark.parametrize("name", TAKEN)
def test_an_async_ledger_calls_plain_functions_alike(name: str) -> None:
    send, expected = TAKEN[name]
    outcome = asyncio.run(AsyncLedger(threaded(MemoryStore())).once("k", send))
    assert isinstance(outcome, Sent), outcome
    if not isinstance(expected, type) and expected is not id:
        assert outcome.result == expected


@pytest.mark.parametrize("name", REFUSED)
def test_a_send_function_that_cannot_be_called_is_refused_before_anything_is_claimed(name: str) -> None:
    send, words = REFUSED[name]
    _is_refused(lambda ledger: ledger.once("k", send), words)  # type: ignore[arg-type]  # wrong on purpose
    _is_refused_async(send, words)


def test_a_refusal_names_the_remedy() -> None:
    with pytest.raises(InvalidInputError, match=r"Wrap it in a lambda\.") as refused:
        Ledger(MemoryStore()).once("k", lambda context, other: None)  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.field == "send"
    assert refused.value.code == "invalid_input"


def test_a_built_in_without_a_signature_is_called_with_nothing_and_its_complaint_is_a_failure() -> None:
    builtin: Any = max
    outcome = Ledger(MemoryStore()).once("k", builtin)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, TypeError)


# What runs nothing when it is called


async def a_coroutine_function() -> str:
    return "sent"


def a_generator_function() -> Iterator[int]:
    yield 1


async def an_async_generator_function() -> AsyncIterator[int]:
    yield 1


@types.coroutine
def an_old_coroutine_function() -> Generator[Any, Any, str]:
    yield
    return "sent"


class AsyncCallable:
    async def __call__(self) -> str:
        return "sent"

    async def method(self) -> str:
        return "sent"


class GeneratorCallable:
    def __call__(self) -> Iterator[int]:
        yield 1

    def method(self) -> Iterator[int]:
        yield 1


ASYNC: dict[str, Any] = {
    "a coroutine function": a_coroutine_function,
    "a partial of one": functools.partial(a_coroutine_function),
    "an object with an async call": AsyncCallable(),
    "an async method": AsyncCallable().method,
    "a partial of an async method": functools.partial(AsyncCallable().method),
    "a coroutine function of the old kind": an_old_coroutine_function,
}

GENERATORS: dict[str, Any] = {
    "a generator function": a_generator_function,
    "a partial of one": functools.partial(a_generator_function),
    "an object whose call is one": GeneratorCallable(),
    "a method that is one": GeneratorCallable().method,
    "an async generator function": an_async_generator_function,
    "a partial of an async one": functools.partial(an_async_generator_function),
}


@pytest.mark.parametrize("name", ASYNC)
def test_an_async_function_is_refused_by_a_plain_ledger_and_awaited_by_an_async_one(name: str) -> None:
    _is_refused(lambda ledger: ledger.once("k", ASYNC[name]), "async function")
    outcome = asyncio.run(AsyncLedger(threaded(MemoryStore())).once("k", ASYNC[name]))
    assert isinstance(outcome, Sent)
    assert outcome.result == "sent"


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_function_is_refused_because_calling_it_sends_nothing(name: str) -> None:
    _is_refused(lambda ledger: ledger.once("k", GENERATORS[name]), "generator function")
    _is_refused_async(GENERATORS[name], "generator function")


def test_a_dispatch_refuses_the_same_functions() -> None:
    approval = approve(payload={"a": 1})
    for send, words in [*REFUSED.values(), *((send, "async function") for send in ASYNC.values())]:
        if words in ("must be a function", "async function", "required keyword-only"):
            needs = "needs a send function" if words == "must be a function" else words
            _is_refused(_dispatching(approval, send), needs)
    for send in GENERATORS.values():
        _is_refused(_dispatching(approval, send), "generator function")
    _is_refused(_dispatching(approval, lambda a, b, c: None), "takes 3 required arguments")
    for nothing in (lambda: None, lambda *, copies=1: None, CalledWithNothing(), Taking().nothing):
        _is_refused(_dispatching(approval, nothing), "takes no argument")
    for something in (lambda payload=None: payload, lambda *args: args[0], functools.partial(two, "ana"), id):
        outcome = Ledger(MemoryStore()).dispatch(approval, key="k", payload={"a": 1}, send=something)
        assert outcome.outcome == "sent"


def test_a_dispatch_hands_over_the_payload_and_to_who_wants_it_the_context() -> None:
    approval = approve(payload={"a": 1})
    ledger = Ledger(MemoryStore())
    one = ledger.dispatch(approval, key="one", payload={"a": 1}, send=lambda payload: payload)
    two_of_them = ledger.dispatch(approval, key="two", payload={"a": 1}, send=lambda payload, context: context)
    assert isinstance(one, Sent)
    assert one.result == {"a": 1}
    assert isinstance(two_of_them, Sent)
    assert two_of_them.result == SendContext("two", 1)


# What was returned without having run


def test_a_coroutine_returned_to_a_plain_ledger_is_no_sent_message() -> None:
    """And it is closed: warnings are errors here, and none says that it was never awaited."""
    outcome = Ledger(MemoryStore()).once("k", lambda: a_coroutine_function())
    assert isinstance(outcome, Failed)
    assert str(outcome.error) == "send returned a coroutine that never ran. Use AsyncLedger."


def test_a_forgotten_await_inside_an_async_send_is_no_sent_message() -> None:
    async def send() -> Awaitable[str]:
        return a_coroutine_function()

    outcome = asyncio.run(AsyncLedger(threaded(MemoryStore())).once("k", send))
    assert isinstance(outcome, Failed)
    assert str(outcome.error) == "send returned a coroutine that never ran. Await it in send."


def test_a_task_nobody_waits_for_leaves_the_send_unknown() -> None:
    async def body() -> None:
        tasks: list[asyncio.Task[str]] = []

        async def send() -> asyncio.Task[str]:
            tasks.append(asyncio.create_task(a_coroutine_function()))
            return tasks[0]

        outcome = await AsyncLedger(threaded(MemoryStore())).once("k", send)
        assert isinstance(outcome, Unknown)
        assert isinstance(outcome.error, UncertainSendError)
        await tasks[0]

    asyncio.run(body())


def test_a_future_returned_to_a_plain_ledger_leaves_the_send_unknown() -> None:
    loop = asyncio.new_event_loop()
    outcome = Ledger(MemoryStore()).once("k", loop.create_future)
    loop.close()
    assert isinstance(outcome, Unknown)


@pytest.mark.parametrize("make", [a_generator_function, an_async_generator_function])
def test_a_generator_that_has_not_run_leaves_the_send_unknown(make: Callable[[], object]) -> None:
    """Whether the send is inside it, or it only reads the answer to a send that was made, cannot be told."""
    outcome = Ledger(MemoryStore()).once("k", lambda: make())
    assert isinstance(outcome, Unknown)
    assert asyncio.run(AsyncLedger(threaded(MemoryStore())).once("k", lambda: make())).outcome == "unknown"  # type: ignore[arg-type]  # not awaitable, on purpose


def test_a_generator_that_has_begun_is_a_result_like_any_other() -> None:
    def send() -> Iterator[int]:
        lines = a_generator_function()
        next(lines)
        return lines

    assert Ledger(MemoryStore()).once("k", send).outcome == "sent"


class AnswersToAnyName(dict[str, Any]):
    """As in many a client: members are attributes, and one that is missing is a KeyError."""

    __getattr__ = dict.__getitem__


class AnswersNone(dict[str, Any]):
    __getattr__ = dict.get


class ObjectWithKeyErrors:
    def __init__(self, **members: Any) -> None:
        self.__dict__["members"] = members

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["members"][name]


@pytest.mark.parametrize("make", [AnswersToAnyName, AnswersNone, ObjectWithKeyErrors])
def test_a_result_that_raises_for_a_missing_member_does_not_turn_a_sent_message_into_a_failure(
    make: Callable[..., object],
) -> None:
    store, sends = MemoryStore(), []

    def send() -> object:
        sends.append(1)
        return make(id="m1")

    first, second = Ledger(store).once("k", send), Ledger(store).once("k", send)
    assert (first.outcome, second.outcome, len(sends)) == ("sent", "duplicate", 1)
    assert second.entry.provider_id == "m1"
    plain: Any = send
    assert asyncio.run(AsyncLedger(threaded(MemoryStore())).once("k", plain)).outcome == "sent"


# Stores of the other kind


def test_an_async_store_is_refused_by_a_plain_ledger_before_every_call_looks_like_a_claim() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInputError, match="Use AsyncLedger") as refused:
            Ledger(threaded(MemoryStore()))  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.field == "store"
    with pytest.raises(InvalidInputError, match="Use AsyncLedger"):
        threaded(threaded(MemoryStore()))  # type: ignore[arg-type]  # wrong on purpose


def test_a_plain_store_is_refused_by_an_async_ledger_before_it_claims_for_nobody() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match=r"threaded\(store\)") as refused:
        AsyncLedger(store)  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.field == "store"
    assert list(store.list()) == []


def _is_refused(call: Callable[[Ledger], object], words: str) -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match=words) as refused:
        call(Ledger(store))
    assert refused.value.field == "send"
    assert list(store.list()) == []


def _is_refused_async(send: Any, words: str) -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match=words):
        asyncio.run(AsyncLedger(threaded(store)).once("k", send))
    assert list(store.list()) == []


def _dispatching(approval: dict[str, Any], send: Any) -> Callable[[Ledger], object]:
    return lambda ledger: ledger.dispatch(approval, key="k", payload={"a": 1}, send=send)
