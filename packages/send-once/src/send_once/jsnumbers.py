"""Numbers as the reference's runtime prints them: every number is a double, in its shortest text."""

from __future__ import annotations

import math
from typing import Final

EXACT_INTEGER_MAX: Final = 2**53
"""Up to here every integer is a double, and Python prints it as JavaScript does."""

_POSITIONAL_DIGITS_MAX: Final = 21
_LEADING_ZEROS_MAX: Final = 6


def js_number(value: float) -> str:
    """`String(value)` of the reference (ECMA-262, Number::toString): `1`, `0.00001`, `1e-7`,
    `1e+21`, `NaN`, `Infinity`. Integers beyond 2**53 are rounded to a double first."""
    if isinstance(value, int) and -EXACT_INTEGER_MAX <= value <= EXACT_INTEGER_MAX:
        return str(int(value))
    number = to_double(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    return ("-" if number < 0 else "") + _positive(abs(number))


def to_double(value: float) -> float:
    """The double nearest to `value`; infinite where an integer is beyond all doubles."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def is_exact(value: int) -> bool:
    """Whether a double holds exactly this integer."""
    number = to_double(value)
    return math.isfinite(number) and int(number) == value


def _positive(number: float) -> str:
    digits, point = _shortest_digits(number)
    count = len(digits)
    if count <= point <= _POSITIONAL_DIGITS_MAX:
        return digits + "0" * (point - count)
    if 0 < point <= _POSITIONAL_DIGITS_MAX:
        return f"{digits[:point]}.{digits[point:]}"
    if -_LEADING_ZEROS_MAX < point <= 0:
        return "0." + "0" * -point + digits
    exponent = point - 1
    mantissa = digits[0] + (f".{digits[1:]}" if count > 1 else "")
    return f"{mantissa}e{'+' if exponent > 0 else '-'}{abs(exponent)}"


def _shortest_digits(number: float) -> tuple[str, int]:
    """The shortest digits that round-trip, and where the decimal point stands before them."""
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    point = len(whole) - leading + int(exponent or 0)
    return digits.lstrip("0").rstrip("0"), point
