"""What a command is given, and how it refuses."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from send_once.commands.arguments import Parsed, UsageError
from send_once.durations import parse_duration
from send_once.entry import Status
from send_once.errors import InvalidInputError
from send_once.terminal import Console, Paint, harmless

OK, UNRESOLVED, UNUSABLE = 0, 1, 2
"""Exit codes: all well; something is unresolved or was not done; bad usage, or cannot be read."""


class Refusal(Exception):  # noqa: N818  # no error: the command understood, looked, and says no
    """An answer that is no success: its text goes to standard error as it is."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


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

    def duration_ms(self, name: str, default: str = "0s") -> float:
        text = self.parsed.get(name)
        try:
            # Twice: text first, then the number, because digits without end make an infinite one.
            return parse_duration(parse_duration(default if text is None else text))
        except InvalidInputError as error:
            raise Refusal(f"--{name}: {error}", UNUSABLE) from None

    def status(self) -> Status | None:
        """What --status names, if it was given."""
        text = self.parsed.get("status")
        if text is None or text in tuple(Status):
            return None if text is None else Status(text)
        raise Refusal(f"--status must be pending, sent or failed, got {harmless(text)}.", UNUSABLE)

    def by(self) -> str:
        """Who acts: --by, or the user the process runs as."""
        given = self.parsed.get("by")
        return user_name() if given is None else given


def user_name() -> str:
    """The name of the user this process runs as, from the user database, not from variables anyone can set."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
