"""What a command is given, and how it refuses."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from send_once.commands.arguments import Parsed, UsageError, did_you_mean
from send_once.durations import parse_duration
from send_once.entry import Status
from send_once.errors import InvalidInputError
from send_once.terminal import Console, Paint, harmless

OK, UNRESOLVED, UNUSABLE = 0, 1, 2
"""Exit codes: all well; something is unresolved or was not done; bad usage, or cannot be read."""

COUNT_MAX: Final = 1_000_000_000
CENTURY_MS: Final = 36_525 * 86_400_000.0
"""More is a slip of the hand, and would hide everything."""


class Refusal(Exception):  # noqa: N818  # no error: the command understood, looked, and says no
    """An answer that is no success: its text goes to standard error as it is, with --json beside the
    object every error is. Without `in_json` that is left out: the reference prints none there."""

    def __init__(self, text: str, exit_code: int, code: str = "usage", *, in_json: bool = True) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.code = code
        self.in_json = in_json


def wrong_value(option: str, expected: str, given: str, hint: str = "") -> Refusal:
    """A value that an option cannot have, with what it can."""
    got = harmless(given) or "nothing"
    return Refusal(f"--{option} must be {expected}, got {got}.{f' {hint}' if hint else ''}", UNUSABLE)


def no_entry(key: str, *, in_json: bool = True) -> Refusal:
    return Refusal(f"No entry for {harmless(key)}.", UNRESOLVED, "not_found", in_json=in_json)


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of a command."""

    command: str
    parsed: Parsed
    console: Console
    now_ms: Callable[[], float]

    @property
    def json(self) -> bool:
        return self.parsed.has("json")

    @property
    def even_if_running(self) -> bool:
        return self.parsed.has("even-if-running")

    @property
    def paint(self) -> Paint:
        return self.console.paint(no_colour=self.parsed.has("no-colour") or self.parsed.has("no-color"))

    def positionals(self, count: int, what: str) -> Sequence[str]:
        """Exactly `count` positional arguments, or the sentence that says what the command takes."""
        if len(self.parsed.positionals) != count:
            raise UsageError(f"{self.command} takes {what}.")
        return self.parsed.positionals

    def count(self, name: str) -> int | None:
        """The number an option gives, 1 or more; None where it was not given."""
        text = self.parsed.get(name)
        if text is None:
            return None
        if not re.fullmatch(r"[0-9]{1,10}", text) or not 1 <= int(text) <= COUNT_MAX:
            raise wrong_value(name, f"a whole number from 1 to {COUNT_MAX}", text)
        return int(text)

    def text(self, name: str) -> str | None:
        """What an option gives, which must not be empty; None where it was not given."""
        text = self.parsed.get(name)
        if text is not None and not text.strip():
            raise wrong_value(name, "a text that is not empty", text.strip())
        return text

    def duration_ms(self, name: str, default: str = "0s") -> float:
        text = self.parsed.get(name)
        try:
            # Twice: text first, then the number, because digits without end make an infinite one.
            duration_ms = parse_duration(parse_duration(default if text is None else text))
        except InvalidInputError as error:
            raise Refusal(f"--{name}: {error}", UNUSABLE) from None
        if duration_ms > CENTURY_MS:
            raise wrong_value(name, "at most 100 years (36525d)", text or default)
        return duration_ms

    def status(self) -> Status | None:
        """What --status names, if it was given."""
        text = self.parsed.get("status")
        if text is None or text in tuple(Status):
            return None if text is None else Status(text)
        raise wrong_value("status", "pending, sent or failed", text, _status_hint(text))

    def by(self) -> str:
        """Who acts: --by, or the user the process runs as."""
        given = self.parsed.get("by")
        return user_name() if given is None else given


def _status_hint(text: str) -> str:
    if text.lower() == "unknown":
        return "What a call reports as unknown is stored as pending: --status pending."
    return did_you_mean(text.lower(), tuple(Status))


def user_name() -> str:
    """The name of the user this process runs as, from the user database, not from variables anyone can set."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
