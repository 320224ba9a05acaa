"""Words that follow a number, and commands that someone may paste into a shell."""

from __future__ import annotations

import shlex

from send_once.terminal import harmless


def counted(number: int, one: str, many: str) -> str:
    """`1 entry`, `2 entries`."""
    return f"{number} {one if number == 1 else many}"


def as_command(command: str, *words: str) -> str:
    """The command line that gives `command` these words, whatever stands in them."""
    dashes = ["--"] if any(word.startswith("-") for word in words) else []
    return " ".join(["send-once", command, *dashes, *(harmless(shlex.quote(word)) for word in words)])
