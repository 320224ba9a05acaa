"""JSON that is nested deeper than Python's own parser can go. Slow, and hardly ever needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from json import decoder
from typing import Any, Final

_scanstring: Final[Callable[[str, int, bool], tuple[str, int]]] = decoder.scanstring  # type: ignore[attr-defined]  # py_scanstring or its C twin; not in the stubs
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS: Final = {"null": None, "true": True, "false": False}


ObjectHook = Callable[[dict[str, Any]], dict[str, Any]]


def parse(
    text: str,
    *,
    parse_int: Callable[[str], float],
    parse_float: Callable[[str], float],
    object_hook: ObjectHook | None = None,
) -> Any:
    """The value of a JSON text, without recursion; parameters as `json.loads` takes them. ValueError
    for what is not JSON."""
    return _Reader(text, parse_int, parse_float, object_hook).read()


class _Reader:
    """Reads with an explicit stack of open arrays and objects, and the key each is waiting with."""

    def __init__(
        self,
        text: str,
        parse_int: Callable[[str], float],
        parse_float: Callable[[str], float],
        object_hook: ObjectHook | None,
    ) -> None:
        self._text = text
        self._at = 0
        self._parse_int = parse_int
        self._parse_float = parse_float
        self._object_hook = object_hook
        self._open: list[tuple[Any, str | None]] = []

    def read(self) -> Any:
        while True:
            complete, value = self._begin_value()
            while complete:
                if not self._open:
                    return self._end(value)
                complete, value = self._add(value)

    def _begin_value(self) -> tuple[bool, Any]:
        """Read one value. Not complete when it is an array or object that has members."""
        mark = self._skip_space()
        if mark == "[":
            self._at += 1
            return self._begin_container([], "]")
        if mark == "{":
            self._at += 1
            return self._begin_container({}, "}")
        return True, self._scalar(mark)

    def _begin_container(self, container: Any, closing: str) -> tuple[bool, Any]:
        if self._skip_space() == closing:
            self._at += 1
            return True, container
        self._open.append((container, self._key() if closing == "}" else None))
        return False, None

    def _add(self, value: Any) -> tuple[bool, Any]:
        """Put a value into the innermost open container. Complete when that closes after it."""
        container, key = self._open.pop()
        if key is None:
            container.append(value)
        else:
            container[key] = value
        mark = self._skip_space()
        self._at += 1
        if mark == ("]" if key is None else "}"):
            return True, container if key is None or self._object_hook is None else self._object_hook(container)
        if mark != ",":
            raise self._bad()
        self._open.append((container, None if key is None else self._key()))
        return False, None

    def _key(self) -> str:
        if self._skip_space() != '"':
            raise self._bad()
        key, self._at = _scanstring(self._text, self._at + 1, True)
        if self._skip_space() != ":":
            raise self._bad()
        self._at += 1
        return key

    def _scalar(self, mark: str) -> Any:
        if mark == '"':
            value, self._at = _scanstring(self._text, self._at + 1, True)
            return value
        for word, meaning in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return meaning
        number = _NUMBER.match(self._text, self._at)
        if number is None:
            raise self._bad()
        self._at = number.end()
        whole = number[2] is None and number[3] is None
        return self._parse_int(number[0]) if whole else self._parse_float(number[0])

    def _skip_space(self) -> str:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at
        return self._text[self._at : self._at + 1]

    def _end(self, value: Any) -> Any:
        if self._skip_space():
            raise self._bad()
        return value

    def _bad(self) -> ValueError:
        return ValueError(f"not JSON at character {self._at}")
