"""Calling a send function: with no argument, or with one context. Anything else is refused at once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from types import AsyncGeneratorType, CodeType, FunctionType, GeneratorType, MethodType
from typing import Any, Final, TypeVar, cast

from send_once import jsontext
from send_once.errors import InvalidInputError, UncertainSendError
from send_once.foreign import is_a, is_awaitable, is_named
from send_once.outcomes import SendContext

T = TypeVar("T")

Send = Callable[[], T] | Callable[[SendContext], T]
"""A send function: takes nothing, or one :class:`SendContext`."""

_COROUTINE_FLAGS: Final = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE
_FUTURES: Final = frozenset({"concurrent.futures._base.Future", "multiprocessing.pool.ApplyResult"})
"""What stands for an answer that is still to come, though it cannot be awaited."""
_GENERATOR_FLAGS: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def prepare_send(send: object, *, what: str = "once", sync: bool) -> Callable[[SendContext], Any]:
    """The send function as one that takes the context. Refused before anything is claimed: what
    cannot be called, needs other arguments, or runs nothing when it is called (a generator function,
    and for a sync ledger an async one).

    A parameter with a default is left alone: only a required one is given the context.
    """
    if not callable(send):
        raise InvalidInputError(f"{what}: send must be a function.", field="send")
    refuse_what_does_not_run(send, what=what, sync=sync)
    required = required_positional_count(send, what=what)
    if required == 0:
        return lambda _context: send()
    if required == 1:
        return send
    raise _wrong_signature(what, f"takes {required} required arguments")


def prepare_dispatch_send(send: object, payload_text: str, *, sync: bool) -> Callable[[SendContext], Any]:
    """The send function of a dispatch, which takes the payload, or the payload and the context. It is
    handed its own copy of the payload, made from the text that was approved."""
    if not callable(send):
        raise InvalidInputError("dispatch needs a send function.", field="send")
    refuse_what_does_not_run(send, what="dispatch", sync=sync)
    required = required_positional_count(send, what="dispatch")
    if required > 2:  # noqa: PLR2004  # payload and context
        raise _wrong_signature("dispatch", f"takes {required} required arguments")
    if required == 0 and not _takes_an_argument(send):
        raise _wrong_signature("dispatch", "takes no argument")
    if required == 2:  # noqa: PLR2004  # payload and context
        return lambda context: send(jsontext.parse(payload_text), context)
    return lambda _context: send(jsontext.parse(payload_text))


def require_result(result: T, *, remedy: str = "Use AsyncLedger.") -> T:
    """Refuse a result that somebody still has to await, or a generator nobody has begun: it is not
    known whether the send is in it (then nothing went out) or only reads the answer."""
    if is_awaitable(result):
        if inspect.iscoroutine(result):
            result.close()
            raise InvalidInputError(f"send returned a coroutine that never ran. {remedy}", field="send")
        raise UncertainSendError(f"send returned an awaitable that nobody waited for. {remedy}")
    if is_a(result, AsyncGeneratorType) or _is_generator_not_begun(result):
        raise UncertainSendError("send returned a generator that has not run. Return what was sent, not a generator.")
    if is_named(result, _FUTURES):
        raise UncertainSendError("send returned a future that nobody waited for. Return its result().")
    return result


async def awaited(result: Awaitable[T] | T) -> T:
    if is_awaitable(result) or _is_old_coroutine(result):
        return await cast("Awaitable[T]", result)
    return cast("T", result)


def _is_generator_not_begun(result: object) -> bool:
    return is_a(result, GeneratorType) and inspect.getgeneratorstate(cast("Any", result)) == inspect.GEN_CREATED


def _is_old_coroutine(result: object) -> bool:
    """A generator of `types.coroutine`, which can be awaited though its class does not say so."""
    return is_a(result, GeneratorType) and bool(cast("Any", result).gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE)


def required_positional_count(function: Callable[..., Any], *, what: str) -> int:
    """How many positional arguments `function` insists on. Refuses required keyword-only ones."""
    if isinstance(function, FunctionType):
        return _of_function(function, bound=0, what=what)
    if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
        return _of_function(function.__func__, bound=1, what=what)
    return _of_anything(function, what=what)


def _of_function(function: FunctionType, *, bound: int, what: str) -> int:
    # Reading the code object is twenty times faster than inspect.signature, and this is the hot path.
    if hasattr(function, "__wrapped__"):
        return _of_anything(function, what=what)
    code = function.__code__
    if code.co_kwonlyargcount > len(function.__kwdefaults__ or ()):
        raise _wrong_signature(what, "has required keyword-only arguments")
    return max(0, code.co_argcount - len(function.__defaults__ or ()) - bound)


def _of_anything(function: Callable[..., Any], *, what: str) -> int:
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return 0  # built-in callables without a signature: called with nothing
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        raise _wrong_signature(what, "has required keyword-only arguments")
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)


def _takes_an_argument(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return True  # not known: a built-in callable without a signature
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)


def refuse_what_does_not_run(send: Callable[..., Any], *, what: str, sync: bool) -> None:
    """Refuse a function whose call only makes a generator, or in a sync ledger a coroutine."""
    flags = _code_flags(send)
    if flags & _COROUTINE_FLAGS:
        if sync:
            raise InvalidInputError(
                f"{what}: send is an async function, which a Ledger cannot await. Use AsyncLedger.", field="send"
            )
    elif flags & _GENERATOR_FLAGS:
        raise InvalidInputError(
            f"{what}: send is a generator function; calling it runs nothing. Use return instead of yield.", field="send"
        )


def _code_flags(send: Callable[..., Any]) -> int:
    """The flags of the code a call would run: of a function, or what a method or partial leads to, or
    of a class's `__call__`; 0 for built-ins."""
    if isinstance(send, functools.partial):
        return _code_flags(send.func)
    if isinstance(send, MethodType):
        return _code_flags(send.__func__)
    code = send.__code__ if isinstance(send, FunctionType) else getattr(type(send).__call__, "__code__", None)
    if isinstance(code, CodeType):
        return code.co_flags
    return inspect.CO_COROUTINE if inspect.iscoroutinefunction(send) else 0


def _wrong_signature(what: str, why: str) -> InvalidInputError:
    wanted = "the payload, or the payload and a SendContext" if what == "dispatch" else "no argument or one SendContext"
    return InvalidInputError(f"{what}: send must take {wanted}; this one {why}. Wrap it in a lambda.", field="send")
