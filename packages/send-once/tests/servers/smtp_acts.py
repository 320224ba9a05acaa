"""What the SMTP server of the tests may do at one place of a dialogue, instead of what it should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Say:
    """Reply `text` (CRLF is added to each line; `raw` is sent as it is). `accept` takes the message."""

    text: str = ""
    raw: bytes = b""
    accept: bool = False


@dataclass(frozen=True)
class SayInPackets:
    """One reply, each piece in a packet of its own."""

    pieces: tuple[bytes, ...]
    accept: bool = False


@dataclass(frozen=True)
class Drop:
    """Close the connection; with `reset`, by RST."""

    reset: bool = False
    accept: bool = False


@dataclass(frozen=True)
class Silent:
    """Say nothing until released or until the client has gone."""

    accept: bool = False


@dataclass(frozen=True)
class SayLate:
    """Reply after `release()`; the message counts as accepted before that."""

    text: str
    accept: bool = False


@dataclass(frozen=True)
class Trickle:
    """A reply of so many lines, each `pause_seconds` after the one before."""

    lines: int
    pause_seconds: float
    accept: bool = False


@dataclass(frozen=True)
class DropAfter:
    """At "body": read this many octets of it, then close."""

    octets: int
    reset: bool = False


@dataclass(frozen=True)
class Interrupt:
    """At "body": read this many octets of it, then say `text` and close."""

    octets: int
    text: str
    close: bool = True


@dataclass(frozen=True)
class Call:
    """Do something, then say nothing more and read on until the client has closed."""

    what: Callable[[], None]
    accept: bool = False


Act = Call | Say | SayInPackets | Drop | Silent | SayLate | DropAfter | Interrupt | Trickle
