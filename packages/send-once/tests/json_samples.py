"""Random JSON values and texts, valid and damaged, with what is hard about them made frequent."""

from __future__ import annotations

import json
import random
import struct
from typing import Final

_KEYS: Final = (
    "a",
    "b",
    "",
    "0",
    "7",
    "10",
    "4294967294",
    "4294967295",
    "01",
    "-1",
    "é",
    "\ue000",
    "\uff01",
    "𝒳",
    "\ud800",
    "__proto__",
    "length",
)
_TEXTS: Final = (
    "",
    "x",
    '"\\/',
    "\b\t\n\f\r",
    "\x00\x1f\x7f\x85",
    "\u2028\u2029",
    "🎉",
    "\ud800",
    "\udc00x",
    "\ufeff",
    "7",
)
_NUMBERS: Final = (
    "0",
    "-0",
    "1.0",
    "1e2",
    "1E400",
    "9007199254740993",
    "-12345678901234567890",
    "0.1",
    "1e-7",
    "5e-324",
    "123456789.125",
)
_DAMAGE: Final = tuple('{}[]",:0123456789.eE+-\\u/ \n\t') + (
    "null",
    "NaN",
    "Infinity",
    "tru",
    "'",
    "\ufeff",
    "\u00a0",
    "\x0b",
    "\x00",
)


def random_double(rng: random.Random) -> float:
    """Any finite double: by its bits, near a power of ten, or a short decimal."""
    way = rng.randrange(4)
    if way == 0:
        number = struct.unpack("<d", rng.randbytes(8))[0]
        return number if number - number == 0 else 0.0
    if way == 1:
        return float(f"{rng.choice('123456789')}e{rng.randint(-30, 30)}") * rng.choice((1, 1 + 2**-52, 1 - 2**-53))
    if way == 2:
        return float(rng.randint(-(10**25), 10**25))
    return round(rng.uniform(-1000, 1000), rng.randint(0, 8))


def random_text(rng: random.Random, depth: int = 4) -> str:
    """A valid JSON text, with space, duplicate keys and several spellings of numbers and characters."""
    way = rng.randrange(8) if depth else rng.randrange(5)
    if way == 0:
        return rng.choice(("null", "true", "false"))
    if way in (1, 2):
        return rng.choice(_NUMBERS) if rng.random() < 0.5 else repr(random_double(rng))
    if way in (3, 4):
        return _quoted(rng, rng.choice(_TEXTS))
    members = range(rng.randrange(5))
    if way == 5:
        return "[" + ",".join(_spaced(rng, random_text(rng, depth - 1)) for _ in members) + "]"
    return "{" + ",".join(_member(rng, depth) for _ in members) + "}"


def damaged(rng: random.Random, text: str) -> str:
    """The text with one or two pieces put in, taken out or replaced: now and then still valid."""
    for _ in range(rng.randint(1, 2)):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice((*_DAMAGE, "")) + text[at + rng.randint(0, 1) :]
    return text


def _member(rng: random.Random, depth: int) -> str:
    return _spaced(rng, _quoted(rng, rng.choice(_KEYS))) + ":" + _spaced(rng, random_text(rng, depth - 1))


def _quoted(rng: random.Random, text: str) -> str:
    """Always in escapes where a lone surrogate needs it, else raw or escaped."""
    escaped = any("\ud800" <= char <= "\udfff" for char in text) or rng.random() < 0.5
    return json.dumps(text, ensure_ascii=escaped)


def _spaced(rng: random.Random, text: str) -> str:
    return rng.choice(("", "", "", " ", "\n", "\t ")) + text + rng.choice(("", "", "", " ", "\r\n"))
