"""The key of an intended send, and the recipient inside it."""

from __future__ import annotations

import hashlib
import math
import re
from typing import Final

from send_once import jsontext
from send_once.errors import InvalidInputError
from send_once.jsnumbers import js_number, to_double
from send_once.jstext import JS_SPACES, js_lower, js_trim

_VERSION: Final = "send-once:v1"
_PHONE_PUNCTUATION: Final = str.maketrans("", "", JS_SPACES + "().-")
_PHONE: Final = re.compile(r"\+?[0-9]{7,}\Z")


def send_key(*, channel: str, to: str, intent: str, window: str | float | None = None) -> str:
    """The key of one intended send: 64 hex digits, the same in every process and language.

    `channel` ("email") is trimmed and lower-cased, `to` normalised (:func:`normalise_recipient`),
    `intent` ("invoice-reminder:inv_1042") trimmed. `window` ("2026-09-27", 7) says when the same
    send may happen again; without one it never may. Raises InvalidInputError naming the field.
    """
    parts = [
        _VERSION,
        js_lower(_required("channel", channel)),
        normalise_recipient(_required("to", to)),
        _required("intent", intent),
        None if window is None else _window(window),
    ]
    return hashlib.sha256(jsontext.stringify(parts, where="send_key").encode("utf-8")).hexdigest()


def normalise_recipient(to: str) -> str:
    """One spelling for what is certainly one recipient: trimmed; anything with an `@` lower-cased; seven
    or more digits freed of spaces, dots, dashes and brackets. Nothing else: what only looks the same
    (plus tags, dots, Unicode forms) stays apart. `describe_recipient` points at it."""
    if not isinstance(to, str):
        raise InvalidInputError(f"to must be text, not {type(to).__name__}.", field="to")
    trimmed = js_trim(to)
    if "@" in trimmed:
        return js_lower(trimmed)
    digits = trimmed.translate(_PHONE_PUNCTUATION)
    return digits if _PHONE.match(digits) else trimmed


def _required(field: str, value: object) -> str:
    trimmed = js_trim(value) if isinstance(value, str) else ""
    if not trimmed:
        raise InvalidInputError(f"sendKey: {field} must be a non-empty string.", field=field)
    return trimmed


def _window(window: object) -> str:
    if isinstance(window, int | float) and not isinstance(window, bool) and math.isfinite(to_double(window)):
        return js_number(window)
    if isinstance(window, str):
        return _required("window", window)
    hint = " Use date.isoformat()." if hasattr(window, "isoformat") else ""
    raise InvalidInputError(f"sendKey: window must be a non-empty string.{hint}", field="window")
