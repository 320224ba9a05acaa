"""Reading an SMTP reply (RFC 5321 section 4.2): pure functions over the bytes received so far."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

REPLY_LINE_BYTES_MAX: Final = 4096
"""RFC 5321 4.5.3.1.5 says 512; servers go beyond it, but not this far."""
REPLY_LINES_MAX: Final = 128

_LINE: Final = re.compile(rb"([2-5][0-9]{2})(?:([ -])(.*))?", re.DOTALL)
_ENHANCED: Final = re.compile(r"([245]\.\d{1,3}\.\d{1,3})(?:\s|$)")


class MalformedReplyError(Exception):
    """The server said something that is no SMTP reply. `shown` holds its beginning."""

    def __init__(self, why: str, raw: bytes) -> None:
        self.shown = shown(raw[:200])
        super().__init__(f"{why}: {self.shown!r}")


@dataclass(frozen=True, slots=True)
class Reply:
    """One complete reply: its code and the text of its lines without code and separator."""

    code: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def kind(self) -> int:
        """The first digit, by which a client acts on codes it does not know (RFC 5321 4.3.2)."""
        return self.code // 100

    @property
    def enhanced_code(self) -> str | None:
        """The enhanced status code (RFC 2034, RFC 3463), such as `4.7.0`, if the reply begins with one."""
        match = _ENHANCED.match(self.lines[0])
        return match.group(1) if match else None

    def __str__(self) -> str:
        return f"{self.code} {' '.join(self.lines)}".rstrip()


def take_reply(buffer: bytes) -> tuple[Reply, bytes] | None:
    """The first complete reply in `buffer` and the bytes behind it; None while it is incomplete.

    Raises MalformedReplyError for what can never become a reply: a line without a code, lines of
    one reply with different codes, a line or a reply beyond the limits.
    """
    lines: list[str] = []
    code: bytes | None = None
    rest = buffer
    while True:
        line, found, rest = rest.partition(b"\n")
        if len(line) > REPLY_LINE_BYTES_MAX:
            raise MalformedReplyError(f"reply line longer than {REPLY_LINE_BYTES_MAX} bytes", buffer)
        if not found:
            return None
        line_code, more, text = _parts(line.removesuffix(b"\r"), buffer)
        if code is not None and line_code != code:
            raise MalformedReplyError("lines of one reply carry different codes", buffer)
        code = line_code
        lines.append(text)
        if not more:
            return Reply(int(code), tuple(lines)), rest
        if len(lines) >= REPLY_LINES_MAX:
            raise MalformedReplyError(f"reply of more than {REPLY_LINES_MAX} lines", buffer)


def shown(raw: bytes) -> str:
    return raw.decode("utf-8", errors="backslashreplace")


def _parts(line: bytes, buffer: bytes) -> tuple[bytes, bool, str]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise MalformedReplyError("not an SMTP reply", buffer)
    code, separator, text = match.groups()
    return code, separator == b"-", shown(text or b"")
