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

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONG_INTEGER_DIGITS: Final = 15
_PLAIN_DEPTH_MAX: Final = 50
_PLAIN_ENCODER: Final = JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)

KeyOrder = Callable[[Mapping[str, Any]], list[str]]


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
    if indent is None and _is_plain(value, _PLAIN_DEPTH_MAX):
        return _escape_surrogates(_PLAIN_ENCODER.encode(value))
    return write(value, Style(runtime_order, infinity_as_null=infinity_as_null, indent=indent), where)


def stringify_text(text: str) -> str:
    """`JSON.stringify` of a text: in quotes, lone surrogates escaped."""
    return _escape_surrogates(encode_basestring(text))


def parse(text: str) -> Any:
    """`JSON.parse(text)`; ValueError for what it refuses. Integers come as int up to 2**53, all
    other numbers as float; a number beyond all doubles is infinite."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        return deepjson.parse(text, parse_int=_js_integer)


def write(value: object, style: Style, where: str) -> str:
    """The text of `value`. Iterative: nesting costs no stack."""
    parts: list[str] = []
    place: list[str | int] = [where]
    frames = [_Frame(iter((("", value),)), "")]
    while frames:
        frame = _write_until_nested(frames[-1].members, parts, place, style, len(frames))
        if frame is not None:
            frames.append(frame)
            place.append("")
        else:
            parts.append(frames.pop().closing)
            place.pop()
    return _escape_surrogates("".join(parts))


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


class _Frame(NamedTuple):
    members: Iterator[tuple[str | int, object]]
    closing: str


def _write_until_nested(
    members: Iterator[tuple[str | int, object]],
    parts: list[str],
    place: list[str | int],
    style: Style,
    depth: int,
) -> _Frame | None:
    """Write members up to and including the opening of the first that nests; its frame, or None at
    the end."""
    for name, value in members:
        place[-1] = name if depth > 1 else place[-1]
        if type(value) is str:
            parts.append(encode_basestring(value))
        elif value is None:
            parts.append("null")
        elif isinstance(value, Mapping | list | tuple):
            return _opened(value, parts, place, style, depth)
        else:
            parts.append(_scalar(value, style, place))
    return None


def _opened(
    value: Mapping[str, Any] | list[Any] | tuple[Any, ...],
    parts: list[str],
    place: list[str | int],
    style: Style,
    depth: int,
) -> _Frame:
    if depth > DEPTH_MAX:
        raise _refused(place[:6], f"is nested more than {DEPTH_MAX:,} levels deep, or contains itself")
    opening, closing = ("{", "}") if isinstance(value, Mapping) else ("[", "]")
    parts.append(opening)
    if not value:
        return _Frame(iter(()), closing)
    outer = "" if style.indent is None else "\n" + " " * (style.indent * (depth - 1))
    inner = "" if style.indent is None else "\n" + " " * (style.indent * depth)
    if isinstance(value, Mapping):
        return _Frame(_object_members(value, parts, place, style, inner), outer + closing)
    return _Frame(_array_members(value, parts, inner), outer + closing)


def _object_members(
    value: Mapping[str, Any], parts: list[str], place: list[str | int], style: Style, inner: str
) -> Iterator[tuple[str | int, object]]:
    separator, colon = inner, ":" if style.indent is None else ": "
    for key in style.key_order(value):
        if not isinstance(key, str):
            raise _refused(place, f"has a key that is not text: {key!r}")
        if key in style.refused_keys:
            raise _refused([*place[:-1], key], "cannot be part of the hash: the reference drops it")
        parts.append(f"{separator}{encode_basestring(key)}{colon}")
        separator = "," + inner
        yield key, value[key]


def _array_members(
    value: list[Any] | tuple[Any, ...], parts: list[str], inner: str
) -> Iterator[tuple[str | int, object]]:
    separator = inner
    for index, member in enumerate(value):
        parts.append(separator)
        separator = "," + inner
        yield index, member


def _scalar(value: object, style: Style, place: list[str | int]) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return encode_basestring(str(value))
    if isinstance(value, int):
        return _integer(int(value), style, place)
    if isinstance(value, float):
        return _float(value, style, place)
    if isinstance(value, datetime):
        return encode_basestring(_instant(value, place))
    raise _refused(place, f"is not JSON: {type(value).__name__}")


def _integer(value: int, style: Style, place: list[str | int]) -> str:
    if -EXACT_INTEGER_MAX <= value <= EXACT_INTEGER_MAX:
        return str(value)
    if style.exact_integers and not is_exact(value):
        raise _refused(place, f"is an integer that a double cannot hold exactly: {value}; write it as text")
    return _float(to_double(value), style, place)


def _float(value: float, style: Style, place: list[str | int]) -> str:
    if math.isfinite(value):
        return js_number(value)
    if style.infinity_as_null:
        return "null"
    raise _refused(place, f"is not JSON: {js_number(value)}")


def _instant(value: datetime, place: list[str | int]) -> str:
    if value.tzinfo is None:
        raise _refused(place, "is a datetime without a zone, which is no instant; give it a tzinfo")
    return iso_from_ms(moment_ms(value))


def _refused(place: list[str | int], why: str) -> InvalidInputError:
    field = str(place[0]) + "".join(
        f"[{name}]" if isinstance(name, int) else f".{name}" for name in place[1:] if name != ""
    )
    return InvalidInputError(f"{field} {why}.", field=field)


def _is_plain(value: object, depth: int) -> bool:
    """Whether Python's own encoder prints `value` as the reference's runtime does: text keys that
    are no indexes, and text, null, booleans, small integers, lists and dicts of those."""
    if depth == 0:
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
        elif not _is_plain(member, depth - 1):
            return False
    return True


def _escape_surrogates(text: str) -> str:
    return text if text.isascii() else _SURROGATE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _js_integer(text: str) -> float:
    """An integer literal as a double holds it. Long ones go through float at once: Python limits
    how many digits int() reads."""
    if len(text) <= _LONG_INTEGER_DIGITS:
        return int(text)
    number = float(text)
    return int(number) if abs(number) <= EXACT_INTEGER_MAX else number


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_DECODER: Final = JSONDecoder(parse_int=_js_integer, parse_constant=_no_constant)
