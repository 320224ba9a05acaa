"""What is said about one code."""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """One code. `kind`: `status` (stored), `outcome` (returned), `error` (raised, or printed by the command
    line), `send error` (raised by a send function), `mail` (a finding about a message), `stage` (of an
    SMTP dialogue), `process`."""

    code: str
    kind: str
    title: str
    cause: str
    remedy: str


def code_of_outcome(code: str, title: str, cause: str, remedy: str) -> Code:
    return Code(code, "outcome", title, cause, remedy)


def code_of_error(code: str, title: str, cause: str, remedy: str) -> Code:
    return Code(code, "error", title, cause, remedy)
