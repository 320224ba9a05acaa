"""Looking at objects of other libraries, which may do anything when asked for a member."""

from __future__ import annotations


def attribute(thing: object, name: str) -> object:
    """The attribute, or None where there is none or asking for it raises.

    A message has gone out, or may have, when this is asked: a `__getattr__` that raises KeyError
    must not turn it into a failure, because a failed entry may be sent again.
    """
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001  # see above: whatever it raises, there is no such member
        return None


def is_awaitable(thing: object) -> bool:
    """Whether somebody still has to await it. Asks the class, as `await` does: an object that answers
    to any name (a dictionary with attributes) is no awaitable."""
    return hasattr(type(thing), "__await__")
