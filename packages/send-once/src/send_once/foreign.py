"""Looking at objects of other libraries, which may do anything when asked for a member."""

from __future__ import annotations

from typing import TypeGuard, TypeVar, overload

T = TypeVar("T")


def attribute(thing: object, name: str) -> object:
    """The attribute, or None where there is none or asking for it raises.

    A message has gone out, or may have, when this is asked: a `__getattr__` that raises KeyError
    must not turn it into a failure, because a failed entry may be sent again.
    """
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001  # see above: whatever it raises, there is no such member
        return None


@overload
def is_a(thing: object, kinds: type[T]) -> TypeGuard[T]: ...


@overload
def is_a(thing: object, kinds: tuple[type, ...]) -> bool: ...


def is_a(thing: object, kinds: type | tuple[type, ...]) -> bool:
    """`isinstance`, or False where asking raises: it asks for `__class__`, which a proxy answers as it
    likes (a weak reference whose object is gone, a lazy object outside its context)."""
    try:
        return isinstance(thing, kinds)
    except Exception:  # noqa: BLE001  # as in `attribute`
        return False


def is_named(thing: object, names: frozenset[str]) -> bool:
    """Whether the object's class, or one that it derives from, is one of `names` (module.Class): for
    kinds whose modules are too dear to import for a look."""
    return any(f"{cls.__module__}.{cls.__qualname__}" in names for cls in type(thing).__mro__)


def is_awaitable(thing: object) -> bool:
    """Whether somebody still has to await it. Asks the class, as `await` does: an object that answers
    to any name (a dictionary with attributes) is no awaitable."""
    return hasattr(type(thing), "__await__")
