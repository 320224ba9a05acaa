"""Whether a text is the beginning of a JSON text, cut off somewhere: what a crash in mid-write leaves."""

from __future__ import annotations

import re
from typing import Final

_CHARS: Final = r'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+'
_TOKEN: Final = re.compile(
    rf'[ \t\r\n]*+(?:(?P<string>"{_CHARS}")|(?P<scalar>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?'
    r"|true|false|null)|(?P<mark>[{}\[\],:]))"
)
_CUT_STRING: Final = re.compile(rf'"{_CHARS}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z')
_CUT_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?\Z")
_WORDS: Final = ("true", "false", "null")

# What may come next. Each set names kinds of token: a string, any other scalar, or a mark.
_VALUE: Final = frozenset({"string", "scalar", "{", "["})
_FIRST_NAME: Final = frozenset({"string", "}"})
_NAME: Final = frozenset({"string"})
_COLON: Final = frozenset({":"})
_FIRST_ITEM: Final = _VALUE | {"]"}
_AFTER: Final = {"{": frozenset({",", "}"}), "[": frozenset({",", "]"})}


def is_cut_json(text: str) -> bool:
    """Whether `text` is a proper prefix of some JSON object or array: right as far as it goes, and not whole."""
    open_marks: list[str] = []
    expected = _VALUE
    position = 0
    while (token := _TOKEN.match(text, position)) is not None:
        kind = token["mark"] or ("string" if token["string"] is not None else "scalar")
        if kind not in expected:
            return False
        position = token.end()
        following = _next(kind, expected, open_marks)
        if following is None:
            return False
        expected = following
    return _is_cut_token(text[position:].lstrip(" \t\r\n"), expected, previous=text[:position])


def _next(kind: str, expected: frozenset[str], open_marks: list[str]) -> frozenset[str] | None:
    """What may follow a token; None once the outermost value is whole."""
    if kind in "{[":
        open_marks.append(kind)
        return _FIRST_NAME if kind == "{" else _FIRST_ITEM
    if kind == ":":
        return _VALUE
    if kind == ",":
        return _NAME if open_marks[-1] == "{" else _VALUE
    if kind in "}]":
        open_marks.pop()
    elif kind == "string" and expected in (_NAME, _FIRST_NAME):
        return _COLON
    return _AFTER[open_marks[-1]] if open_marks else None


def _is_cut_token(rest: str, expected: frozenset[str], *, previous: str) -> bool:
    """Whether what is left after the last whole token is nothing, or the beginning of an expected one."""
    if not rest:
        return True
    if rest[0] == '"':
        return "string" in expected and _CUT_STRING.match(rest) is not None
    if "scalar" in expected:
        return any(word.startswith(rest) for word in _WORDS) or _CUT_NUMBER.match(rest) is not None
    # A number cut after its point or exponent was read as a whole one, and this is its end.
    return previous[-1:].isdigit() and re.match(r"(?:\.|[eE][+-]?)\Z", rest) is not None
