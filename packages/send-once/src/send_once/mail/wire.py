"""From message bytes to what is written after DATA. One place, so that no line end slips through.

A bare CR or LF around a dot ends the message on some servers and not on others, which lets a body
carry a second message past the first (SMTP smuggling). RFC 5321 2.3.8 forbids both; every one is
made CRLF here, before the dots are doubled.
"""

from __future__ import annotations

import re
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_DOT_AT_LINE_START: Final = re.compile(rb"^\.", re.MULTILINE)
END_OF_DATA: Final = b".\r\n"


def crlf_line_ends(raw: bytes) -> bytes:
    """`raw` with every line end as CRLF: a lone CR and a lone LF are line ends too."""
    return _LINE_END.sub(b"\r\n", raw)


def with_crlf(raw: bytes) -> bytes:
    """The same, and the last line ended too."""
    text = crlf_line_ends(raw)
    return text if not text or text.endswith(b"\r\n") else text + b"\r\n"


def dot_stuffed(raw: bytes) -> bytes:
    """What goes between the 354 and the final dot (RFC 5321 4.5.2); the dot itself is END_OF_DATA."""
    return _DOT_AT_LINE_START.sub(b"..", with_crlf(raw))
