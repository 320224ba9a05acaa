"""The content of one part, in an encoding that every server carries: 7-bit, lines within the limits.

Python 3.11 writes quoted-printable lines as long as the policy's header limit (78, or 998), and
8-bit bodies where the policy allows long lines. Both are encoded anew here; what already conforms
is left as it is, so that nothing changes without need.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from send_once.errors import InvalidInputError
from send_once.mail.fields import Part
from send_once.mail.wire import crlf_line_ends

LINE_OCTETS_MAX: Final = 998
"""RFC 5322 2.1.1, without the CRLF."""
ENCODED_LINE_OCTETS_MAX: Final = 76
"""RFC 2045 6.7 and 6.8: quoted-printable and base64."""

_LIMITS: Final = {
    "7bit": LINE_OCTETS_MAX,
    "8bit": LINE_OCTETS_MAX,
    "quoted-printable": ENCODED_LINE_OCTETS_MAX,
    "base64": ENCODED_LINE_OCTETS_MAX,
}


@dataclass(frozen=True, slots=True)
class Content:
    """A part's octets, ready to send, and their Content-Transfer-Encoding (None: as the part says)."""

    octets: bytes
    encoding: str | None = None


def leaf_content(part: Part) -> Content:
    """The content of a part that is no multipart."""
    payload = _payload_octets(part)
    is_text = is_lines(part)
    if _conforms(payload, encoding_of(part), is_text=is_text):
        return Content(crlf_line_ends(payload))
    return encoded_anew(_decoded_octets(part), is_text=is_text)


def encoded_anew(octets: bytes, *, is_text: bool) -> Content:
    """Text as quoted-printable or base64, whichever is shorter; anything else as base64."""
    if not is_text:
        return Content(base64_lines(octets), "base64")
    text = crlf_line_ends(octets)
    return min(
        Content(quoted_printable(text), "quoted-printable"),
        Content(base64_lines(text), "base64"),
        key=lambda content: len(content.octets),
    )


def quoted_printable(text: bytes) -> bytes:
    """`text` (with CRLF line ends) as quoted-printable, lines of at most 76 characters (RFC 2045 6.7)."""
    lines = (binascii.b2a_qp(line, istext=True).replace(b"\n", b"\r\n") for line in text.split(b"\r\n"))
    return b"\r\n".join(lines)


def base64_lines(octets: bytes) -> bytes:
    size = ENCODED_LINE_OCTETS_MAX // 4 * 3
    lines = (base64.b64encode(octets[at : at + size]) for at in range(0, len(octets), size))
    return b"".join(line + b"\r\n" for line in lines)


def is_lines(part: Part) -> bool:
    """Whether the content is text whose CR and LF octets are line ends. UTF-16 and UTF-32 hold such
    octets inside characters."""
    charset = str(part.get_content_charset("us-ascii")).lower()
    return part.get_content_maintype() == "text" and not charset.startswith(("utf-16", "utf-32", "utf16", "utf32"))


def encoding_of(part: Part) -> str:
    return str(part.get("Content-Transfer-Encoding", "7bit")).strip().lower()


def _conforms(payload: bytes, encoding: str, *, is_text: bool) -> bool:
    limit = _LIMITS.get(encoding)
    if limit is None or not payload.isascii() or b"\0" in payload:
        return False
    is_binary = encoding in ("7bit", "8bit") and not is_text
    if is_binary and b"\r" in payload.replace(b"\r\n", b""):
        return False  # a lone CR in text is a line end; in anything else it is data
    return all(len(line) <= limit for line in crlf_line_ends(payload).split(b"\r\n"))


def _payload_octets(part: Part) -> bytes:
    payload = part.get_payload()
    if payload is None:
        return b""
    if not isinstance(payload, str):
        raise InvalidInputError(
            f"message: a part of type {part.get_content_type()} holds {type(payload).__name__} instead of text. "
            "Use set_content() or add_attachment().",
            field="message",
        )
    if payload.isascii():
        return payload.encode("ascii")
    octets = _decoded_octets(part)
    if encoding_of(part) not in ("7bit", "8bit", "binary") or _as_text(octets, part) != payload:
        raise InvalidInputError(
            "message: a body holds non-ASCII text that was never encoded. Use set_content(), which sets a charset; "
            "set_payload() does not.",
            field="message",
        )
    return octets


def _as_text(octets: bytes, part: Part) -> str:
    """As `get_payload()` shows octets that were stored; text that was stored shows itself."""
    try:
        return octets.decode(part.get_content_charset("ascii"), "replace")
    except LookupError:
        return octets.decode("ascii", "replace")


def _decoded_octets(part: Part) -> bytes:
    octets = part.get_payload(decode=True)
    return octets if isinstance(octets, bytes) else b""
