"""Canonical JSON and the payload hash: equal for equal payloads, in both implementations.

Not RFC 8785: keys are ordered as the reference orders them (array-index keys first, in numeric
order, then by UTF-16 code units). Where the reference hashes lossily, this refuses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from json import JSONEncoder
from typing import Any, Final

from send_once import jsontext

_DROPPED_KEY: Final = "__proto__"
_SURROGATES_BEGIN: Final = "\ud800"
_SORTING_ENCODER: Final = JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, sort_keys=True)


def canonical_json(value: object, *, where: str = "payload") -> str:
    """The one text of a JSON value. Text is kept as it is: no Unicode normalisation.

    Raises InvalidInputError, naming the place below `where`, for what the reference would drop or flatten: a
    `__proto__` member, NaN, infinities, integers a double cannot hold, and values that are not JSON.
    """
    return _quickly(value) or jsontext.write(value, _STYLE, where)


def hash_payload(value: object) -> str:
    """sha256, in hex, of the canonical text in UTF-8."""
    return hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()


def _quickly(value: object) -> str | None:
    """The same text from Python's encoder, where that is sure: it sorts by code points, which is the
    order of UTF-16 units up to the surrogates."""
    if not jsontext.is_plain(value):
        return None
    text = _SORTING_ENCODER.encode(value)
    ordered = text.isascii() or max(text) < _SURROGATES_BEGIN
    return text if ordered and _DROPPED_KEY not in text else None


def _canonical_order(members: Mapping[str, Any]) -> list[str]:
    return sorted(members, key=_rank)


def _rank(key: object) -> tuple[int, int, bytes]:
    if not isinstance(key, str):
        return (1, 0, b"")  # refused by the writer, which names the place
    if jsontext.is_index_key(key):
        return (0, int(key), b"")
    return (1, 0, key.encode("utf-16-be", "surrogatepass"))


_STYLE: Final = jsontext.Style(_canonical_order, frozenset({_DROPPED_KEY}), exact_integers=True)
