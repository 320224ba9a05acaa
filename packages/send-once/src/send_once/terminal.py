"""Text for a terminal: colour, wrapping, and stored text that must not drive the terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from send_once.jstext import JS_SPACES

COLUMNS: Final = 76
"""Where reports wrap, indentation included."""

# C0 and C1 controls and DEL (ECMA-48 sections 5.2 and 5.3); line and paragraph separators; marks that
# reorder what is shown (UAX #9); tag characters, which show nothing at all.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_SPACES: Final = re.compile(f"[{re.escape(JS_SPACES)}]+")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SHORT_ESCAPES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\b": r"\b", "\f": r"\f", "\v": r"\v"}


def harmless(text: str) -> str:
    """The text on one line, with everything that could move the cursor, colour, retitle or reorder
    written as an escape (`\\x1b`, `\\u202e`). Nothing is dropped."""
    return text if text.isalnum() else _UNSAFE.sub(_escape, text)


def harmless_json(text: str) -> str:
    """The same for JSON text: such characters stand inside strings only (newlines of the layout
    apart), and become `\\u` escapes, so that the value does not change."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else _json_escape(found[0]), text)


def printable(text: str) -> str:
    """Lone surrogates as U+FFFD: they have no UTF-8."""
    return _SURROGATE.sub("\ufffd", text)


def utf16_length(text: str) -> int:
    """UTF-16 units: what the reference counts, and for most emoji the columns they take."""
    return len(text) + sum(1 for char in text if char > "\uffff")


def wrapped(text: str, indent: str) -> list[str]:
    """Lines of at most COLUMNS units. Runs of white space become one space; a long word is never cut."""
    width = COLUMNS - len(indent)
    lines: list[str] = []
    line = ""
    for word in map(harmless, _SPACES.split(text)):
        if line and utf16_length(line) + 1 + utf16_length(word) > width:
            lines.append(indent + line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, indent + line]


@dataclass(frozen=True, slots=True)
class Paint:
    """Colours (ECMA-48 SGR), or none."""

    on: bool = False

    def red(self, text: str) -> str:
        return self._paint("31", text)

    def green(self, text: str) -> str:
        return self._paint("32", text)

    def yellow(self, text: str) -> str:
        return self._paint("33", text)

    def bold(self, text: str) -> str:
        return self._paint("1", text)

    def dim(self, text: str) -> str:
        return self._paint("2", text)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text


class Stream(Protocol):
    """What is written to: the text streams of `sys`, or any that collect text."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


class OutputError(OSError):
    """Standard output takes no more, for instance on a full disk."""


class Console:
    """Standard output and error. UTF-8 in any locale."""

    def __init__(self, stdout: Stream | None, stderr: Stream | None, env: Mapping[str, str]) -> None:
        """A stream that is None (closed by whoever started the program) swallows what is written."""
        self._stdout, self._stderr = stdout, stderr
        self.env = env

    @property
    def is_terminal(self) -> bool:
        return _is_terminal(self._stdout)

    def paint(self, *, no_colour: bool) -> Paint:
        """Colours on a terminal only, and not with --no-colour, a non-empty NO_COLOR, or TERM=dumb."""
        refused = no_colour or bool(self.env.get("NO_COLOR")) or self.env.get("TERM") == "dumb"
        return Paint(self.is_terminal and not refused)

    def out(self, text: str) -> None:
        """OutputError where it cannot be written, BrokenPipeError where nobody reads."""
        try:
            _write(self._stdout, text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.strerror or str(error)) from error

    def err(self, text: str) -> None:
        """On a terminal, lines that do not fit are wrapped; elsewhere they stay whole. Where it cannot be
        written there is nobody to tell, and the exit code still says what happened."""
        if _is_terminal(self._stderr):
            text = "\n".join(line for one in text.split("\n") for line in _fitted(one))
        try:
            _write(self._stderr, text)
        except OSError:
            _abandon(self._stderr)

    def abandon_output(self) -> None:
        """Nobody reads any more: what is still buffered must not raise when the interpreter ends."""
        _abandon(self._stdout)


def _abandon(stream: Stream | None) -> None:
    fileno = getattr(stream, "fileno", None)
    if fileno is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, fileno())
        os.close(nowhere)


def _is_terminal(stream: Stream | None) -> bool:
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty())


def _fitted(line: str) -> list[str]:
    return [line] if utf16_length(line) <= COLUMNS + 3 else wrapped(line, "")


def _write(stream: Stream | None, text: str) -> None:
    if stream is None:
        return
    raw = getattr(stream, "buffer", None)
    if raw is None:
        stream.write(printable(text))
    else:
        stream.flush()
        raw.write(printable(text).encode())
    stream.flush()


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    code = ord(char)
    if code <= 0xFF:  # noqa: PLR2004  # two hex digits hold it
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004  # four hex digits hold it


def _json_escape(char: str) -> str:
    """RFC 8259 section 7: a character outside the first plane is written as its surrogate pair."""
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[place] << 8 | units[place + 1]:04x}" for place in range(0, len(units), 2))
