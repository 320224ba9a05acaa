"""JSON text exactly as the reference's runtime reads and writes it.

What differs from Python's `json`: numbers are doubles in their shortest text, array-index keys
come first in numeric order, a lone surrogate is written as an escape, NaN is no JSON, and depth is
no danger. Values JSON cannot carry are refused, with the place in the message.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from json import JSONDecoder, JSONEncoder
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from send_once import deepjson
from send_once.errors import InvalidInputError
from send_once.instants import iso_from_ms, moment_ms
from send_once.jsnumbers import EXACT_INTEGER_MAX, is_exact, js_number, to_double

DEPTH_MAX: Final = 10_000
INDEX_KEY_MAX: Final = 4_294_967_294

_SURROGATES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_INDEX_LIKE_KEY: Final = re.compile(r'"(?:[0-9]|\\u003[0-9])+"[ \t\n\r]*:')
_LONG_INTEGER_DIGITS: Final = 15
_PLAIN_DEPTH_MAX: Final = 50
_PLACE_NAMES_MAX: Final = 12
_SHOWN_BITS_MAX: Final = 256
_PLAIN_ENCODER: Final = JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)

_REMEDIES: Final = {
    "bytes": "decode it, or write it as base64 text",
    "bytearray": "decode it, or write it as base64 text",
    "memoryview": "decode it, or write it as base64 text",
    "set": "make it a sorted list",
    "frozenset": "make it a sorted list",
    "Decimal": "write it as text",
    "Fraction": "write it as text",
    "complex": "write it as text",
    "date": "use its isoformat()",
    "time": "use its isoformat()",
    "timedelta": "write a number with its unit in the name",
    "UUID": "use str()",
    "coroutine": "await it first",
    "Future": "await it first",
    "generator": "make it a list",
}

KeyOrder = Callable[[Mapping[Any, Any]], list[Any]]
"""Keys may be anything here: the writer refuses those that are not text, and names the place."""


class Style(NamedTuple):
    """How a value is written."""

    key_order: KeyOrder
    refused_keys: frozenset[str] = frozenset()
    exact_integers: bool = False
    infinity_as_null: bool = False
    indent: int | None = None


def stringify(value: object, indent: int | None = None, *, where: str = "value", infinity_as_null: bool = False) -> str:
    """`JSON.stringify(value, null, indent)`.

    Takes what JSON can carry, tuples, and aware datetimes (as ISO text in UTC with milliseconds).
    Raises InvalidInputError, naming the place below `where`, for anything else: NaN and infinities
    (unless `infinity_as_null`, for text that was read so), keys that are not text, bytes, sets,
    Decimals, objects, a value that contains itself.
    """
    if indent is None and is_plain(value):
        return _escape_surrogates(_PLAIN_ENCODER.encode(value))
    return write(value, Style(runtime_order, infinity_as_null=infinity_as_null, indent=indent), where)


def stringify_text(text: str) -> str:
    """`JSON.stringify` of a text: in quotes, lone surrogates escaped."""
    return _escape_surrogates(encode_basestring(text))


def parse(text: str) -> Any:
    """`JSON.parse(text)`; ValueError for what it refuses.

    Every number is read as a double, and given as int where it is a whole number up to 2**53, else
    as float (infinite beyond all doubles). Of equal keys the last value stands in the first place;
    array-index keys come first, in numeric order.
    """
    hook = _runtime_object if _INDEX_LIKE_KEY.search(text) else None
    try:
        return (_DECODER if hook is None else _ORDERING_DECODER).decode(text)
    except RecursionError:
        return deepjson.parse(text, parse_int=_js_integer, parse_float=_js_float, object_hook=hook)


def write(value: object, style: Style, where: str) -> str:
    """The text of `value` in a style. Iterative: nesting costs no stack."""
    return _escape_surrogates(_Writer(style, where).text(value))


def runtime_order(members: Mapping[str, Any]) -> list[str]:
    """The order in which the reference's runtime walks an object: index keys, then as inserted."""
    keys = list(members)
    if not may_have_index_keys(members):
        return keys
    indexes = sorted((key for key in keys if is_index_key(key)), key=int)
    return indexes + [key for key in keys if not is_index_key(key)]


def may_have_index_keys(members: Mapping[str, Any]) -> bool:
    """A quick no: if the smallest key starts beyond the digits, no key starts with one."""
    return any(isinstance(key, str) and "0" <= key[:1] <= "9" for key in members)


def is_index_key(key: object) -> bool:
    """Whether `key` is an array index in its canonical text: "0" … "4294967294"."""
    if not isinstance(key, str) or not key.isascii() or not key.isdigit():
        return False
    return (key == "0" or key[0] != "0") and len(key) <= len(str(INDEX_KEY_MAX)) and int(key) <= INDEX_KEY_MAX


def is_plain(value: object, depth_max: int = _PLAIN_DEPTH_MAX) -> bool:
    """Whether Python's own encoder prints `value` as the reference's runtime does: an object or array
    with text keys that are no indexes, and text, null, booleans, small integers, lists and dicts of those."""
    if depth_max == 0:
        return False
    if type(value) is dict:
        if not all([type(key) is str and not "0" <= key < ":" for key in value]):  # noqa: C419  # a list is faster here
            return False
        members: Iterable[object] = value.values()
    elif type(value) is list:
        members = value
    else:
        return False
    for member in members:
        kind = type(member)
        if kind is str or member is None or kind is bool:
            continue
        if type(member) is int:
            if not -EXACT_INTEGER_MAX <= member <= EXACT_INTEGER_MAX:
                return False
        elif not is_plain(member, depth_max - 1):
            return False
    return True


class _Frame(NamedTuple):
    """An object or array that is being written."""

    members: Iterator[tuple[str | int, object]]
    closing: str
    identity: int


class _Writer:
    """Writes one value. `_place` names what is being written, for refusals."""

    def __init__(self, style: Style, where: str) -> None:
        self._style = style
        self._parts: list[str] = []
        self._place: list[str | int] = [where]
        self._frames: list[_Frame] = []
        self._open: set[int] = set()

    def text(self, value: object) -> str:
        self._begin(value)
        while self._frames:
            if not self._write_until_nested(self._frames[-1].members):
                self._end()
        return "".join(self._parts)

    def _write_until_nested(self, members: Iterator[tuple[str | int, object]]) -> bool:
        """Write members up to and including the opening of the first that nests; False at the end."""
        for name, member in members:
            self._place[-1] = name
            if self._begin(member):
                return True
        return False

    def _begin(self, value: object) -> bool:
        """Write a value. True when it is an object or array, which is then open."""
        if type(value) is str:
            self._parts.append(encode_basestring(value))
        elif value is None:
            self._parts.append("null")
        elif isinstance(value, Mapping | list | tuple):
            self._begin_container(value)
            return True
        else:
            self._parts.append(self._scalar(value))
        return False

    def _begin_container(self, value: Mapping[str, Any] | list[Any] | tuple[Any, ...]) -> None:
        if id(value) in self._open:
            raise self._refused("contains itself; JSON has no way to say so")
        if len(self._frames) >= DEPTH_MAX:
            raise self._refused(f"is nested more than {DEPTH_MAX:,} levels deep; flatten it")
        outer, inner = self._margins() if value else ("", "")
        if isinstance(value, Mapping):
            opening, closing, members = "{", outer + "}", self._object_members(value, inner)
        else:
            opening, closing, members = "[", outer + "]", self._array_members(value, inner)
        self._parts.append(opening)
        self._open.add(id(value))
        self._frames.append(_Frame(members, closing, id(value)))
        self._place.append("")

    def _end(self) -> None:
        frame = self._frames.pop()
        self._parts.append(frame.closing)
        self._open.discard(frame.identity)
        self._place.pop()

    def _margins(self) -> tuple[str, str]:
        """What goes before the closing mark, and before each member."""
        if self._style.indent is None:
            return "", ""
        outer = "\n" + " " * (self._style.indent * len(self._frames))
        return outer, outer + " " * self._style.indent

    def _object_members(self, value: Mapping[str, Any], inner: str) -> Iterator[tuple[str | int, object]]:
        separator, colon = inner, ":" if self._style.indent is None else ": "
        for key in self._style.key_order(value):
            if not isinstance(key, str):
                self._place[-1] = ""
                raise self._refused(f"has a key that is not text: {key!r}; make it a str")
            if key in self._style.refused_keys:
                self._place[-1] = key
                raise self._refused("cannot be part of the hash, because the reference drops it; rename the member")
            self._parts.append(f"{separator}{encode_basestring(key)}{colon}")
            separator = "," + inner
            yield key, value[key]

    def _array_members(self, value: list[Any] | tuple[Any, ...], inner: str) -> Iterator[tuple[str | int, object]]:
        separator = inner
        for index, member in enumerate(value):
            self._parts.append(separator)
            separator = "," + inner
            yield index, member

    def _scalar(self, value: object) -> str:
        if value is True:
            return "true"
        if value is False:
            return "false"
        if isinstance(value, str):
            return encode_basestring(value)
        if isinstance(value, int):
            return self._integer(int(value))
        if isinstance(value, float):
            return self._float(value)
        if isinstance(value, datetime):
            return encode_basestring(self._instant(value))
        raise self._refused(f"is not JSON: {type(value).__name__}; {_remedy(value)}")

    def _integer(self, value: int) -> str:
        if -EXACT_INTEGER_MAX <= value <= EXACT_INTEGER_MAX:
            return str(value)
        if self._style.exact_integers and not is_exact(value):
            raise self._refused(f"is an integer that a double cannot hold exactly: {_shown(value)}; write it as text")
        return self._float(to_double(value))

    def _float(self, value: float) -> str:
        if math.isfinite(value):
            return js_number(value)
        if self._style.infinity_as_null:
            return "null"
        raise self._refused(f"is not JSON: {js_number(value)}; leave it out or use None")

    def _instant(self, value: datetime) -> str:
        if value.tzinfo is None:
            raise self._refused("is a datetime without a zone, which is no instant; give it a tzinfo")
        return iso_from_ms(moment_ms(value))

    def _refused(self, why: str) -> InvalidInputError:
        place = self._place if len(self._place) <= _PLACE_NAMES_MAX else [*self._place[:_PLACE_NAMES_MAX], "…"]
        field = str(place[0]) + "".join(
            f"[{name}]" if isinstance(name, int) else f".{name}" for name in place[1:] if name != ""
        )
        return InvalidInputError(f"{field} {why}.", field=field)


def _remedy(value: object) -> str:
    for kind in type(value).__mro__:
        if kind.__name__ in _REMEDIES:
            return _REMEDIES[kind.__name__]
    if hasattr(value, "__dataclass_fields__"):
        return "use dataclasses.asdict()"
    return "pass text, numbers, booleans, None, and lists and dicts of those"


def _shown(value: int) -> str:
    # Python refuses to print an integer of more than 4,300 digits.
    return str(value) if value.bit_length() < _SHOWN_BITS_MAX else f"one of {value.bit_length():,} bits"


def _escape_surrogates(text: str) -> str:
    return text if text.isascii() else _SURROGATES.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    """A surrogate alone as its escape; two that belong together as the character they mean."""
    if len(match[0]) == 1:
        return f"\\u{ord(match[0]):04x}"
    return match[0].encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def _js_integer(text: str) -> float:
    """An integer literal as a double holds it. Long ones go through float at once: Python limits
    how many digits int() reads."""
    return int(text) if len(text) <= _LONG_INTEGER_DIGITS else _js_float(text)


def _js_float(text: str) -> float:
    number = float(text)
    return int(number) if abs(number) <= EXACT_INTEGER_MAX and number.is_integer() else number


def _runtime_object(members: dict[str, Any]) -> dict[str, Any]:
    return {key: members[key] for key in runtime_order(members)}


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_DECODER: Final = JSONDecoder(parse_int=_js_integer, parse_float=_js_float, parse_constant=_no_constant)
_ORDERING_DECODER: Final = JSONDecoder(
    object_hook=_runtime_object, parse_int=_js_integer, parse_float=_js_float, parse_constant=_no_constant
)
