"""The table of commands: their arguments, options, help and code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final, cast

from send_once.commands.arguments import Option
from send_once.commands.context import Invocation


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Its code is `send_once.commands.<module>.run`, loaded when it is needed."""

    name: str
    arguments: str
    summary: str
    details: str
    options: tuple[Option, ...]
    example: str
    module: str = ""

    def run(self, call: Invocation) -> int:
        module = import_module(f"send_once.commands.{self.module or self.name}")
        return cast("Callable[[Invocation], int]", module.run)(call)


JSON = Option("json", "print JSON")
OLDER_THAN = Option("older-than", "only what is at least this old: 30s, 15m, 12h, 2d", "DURATION")
BY = Option("by", "who says so; without it the user running this", "NAME")
NOTE = Option("note", "why, or where it was looked up", "TEXT")
STATUS = Option("status", "only this status: pending, sent or failed", "STATUS")
DRY_RUN = Option("dry-run", "say what would be done, and change nothing")
YES = Option("yes", "do it")

EVERYWHERE: Final = (
    Option("no-colour", "no colours (nor with NO_COLOR set, nor into a pipe)"),
    Option("no-color", "the same", hidden=True),
    Option("help", "this text"),
    Option("version", "the version"),
)
"""Options of every command. The reference also takes these four of its own anywhere, unused or not."""
REFERENCE_OPTIONS: Final = (JSON, OLDER_THAN, BY, NOTE)

COMMANDS: Final = (
    Command(
        "audit",
        "LEDGER",
        "what is unknown: claimed, and never confirmed",
        "Exit code 0: nothing unresolved. 1: something is. With --metrics always 0 if the ledger could be read.",
        (
            OLDER_THAN,
            JSON,
            Option("metrics", "print Prometheus metrics"),
            Option("watch", "look again every SECONDS (2), until Ctrl-C", "SECONDS", optional=True),
            Option("watch-count", "with --watch: end after N looks", "N"),
        ),
        "send-once audit sends.jsonl --older-than 10m",
    ),
    Command(
        "resolve",
        "LEDGER KEY sent|failed",
        "record what happened to a send, once you know",
        "Sent is final. Failed means that it did not go out: the next call for the key sends it. Failed is refused "
        "while the process that claimed it still runs here. With --from-export many are settled from a provider's CSV "
        "or JSON Lines; only the words you name count, sent wins over failed. Exit code 1: not settled.",
        (
            BY,
            NOTE,
            Option("provider-id", "the provider's id of the message", "ID"),
            JSON,
            Option("even-if-running", "mark failed although the claiming process still runs here"),
            Option("from-export", "settle many: send-once resolve LEDGER --from-export FILE", "FILE"),
            Option("key-column", "the column with our key (key)", "COLUMN"),
            Option("status-column", "the column with the provider's status (status)", "COLUMN"),
            Option("sent-when", "words that mean it went out (sent)", "WORD,WORD"),
            Option("failed-when", "words that mean it was never accepted (failed)", "WORD,WORD"),
            Option("provider-id-column", "the column with the provider's id", "COLUMN"),
            DRY_RUN,
        ),
        'send-once resolve sends.jsonl welcome:ana sent --by ana --note "provider log, 14:02"',
    ),
)

BY_NAME: Final[Mapping[str, Command]] = {command.name: command for command in COMMANDS}

ALL_OPTIONS: Final[Mapping[str, Option]] = {
    option.name: option
    for option in (*(one for command in COMMANDS for one in command.options), *REFERENCE_OPTIONS, *EVERYWHERE)
}
"""One table for parsing, because options may stand before the command's name."""


def unused_option(command: Command, given: Mapping[str, str]) -> str | None:
    """An option that was given and that the command does not take."""
    taken = {option.name for option in (*command.options, *REFERENCE_OPTIONS, *EVERYWHERE)}
    return next((name for name in given if name not in taken), None)
