"""What the check of a message's bytes reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong with a message. `code` is stable; `header` names the field, or is None for the body."""

    severity: Severity
    code: str
    header: str | None
    message: str


def error(code: str, header: str | None, message: str) -> Finding:
    return Finding("error", code, header, message)


def warning(code: str, header: str | None, message: str) -> Finding:
    return Finding("warning", code, header, message)
