"""Text operations that must agree with the reference's runtime, not with Python's."""

from __future__ import annotations

from typing import Final

JS_SPACES: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What `trim` and `\\s` mean there (ECMA-262, WhiteSpace and LineTerminator). Python's own set has
U+001C to U+001F and U+0085, and lacks U+FEFF."""

# Pairs of upper and lower case that Unicode got after version 14, which Python 3.11 knows.
_NEWER_CASES: Final = {
    0x1C89: 0x1C8A,
    0xA7CB: 0x0264,
    0xA7CC: 0xA7CD,
    0xA7CE: 0xA7CF,
    0xA7D2: 0xA7D3,
    0xA7D4: 0xA7D5,
    0xA7DA: 0xA7DB,
    0xA7DC: 0x019B,
    **{code: code + 0x20 for code in range(0x10D50, 0x10D66)},
    **{code: code + 0x1B for code in range(0x16EA0, 0x16EB9)},
}


def js_trim(text: str) -> str:
    return text.strip(JS_SPACES)


def js_lower(text: str) -> str:
    """`toLowerCase`: like `str.lower`, with the pairs newer than this Python's Unicode version."""
    lowered = text.lower()
    return lowered if lowered.isascii() else lowered.translate(_NEWER_CASES)
