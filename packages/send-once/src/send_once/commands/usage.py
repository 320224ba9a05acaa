"""Help texts, from the table of commands."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from send_once.commands.arguments import Option
from send_once.commands.registry import COMMANDS, EVERYWHERE, Command
from send_once.terminal import COLUMNS

LEDGERS: Final = """\
A LEDGER is a file (sends.jsonl) or an address: file:sends.jsonl,
sqlite:sends.db, postgresql://user@host/db. ?table=NAME at the end of a
database's address names another table than send_once."""

EXIT_CODES: Final = """\
Exit codes: 0 all well, 1 something is unresolved or was not done, 2 bad usage
or the ledger cannot be read, 130 interrupted, 141 nobody read the output."""

IN_JSON: Final = """\
With --json an error is also an object on standard output:
{"error": {"code": ..., "message": ...}}"""


WORDS: Final = """\
pending is what is stored: claimed, and no end recorded. unknown is what a call
learns from it, and what an audit counts: it may have gone out, or be on its
way."""


def usage_line(command: Command | None) -> str:
    """What is written where."""
    if command is None:
        return "Usage: send-once COMMAND LEDGER ..."
    return f"Usage: send-once {command.name} {command.arguments} [options]"


def overview() -> str:
    """The help of `send-once` itself."""
    parts = [
        usage_line(None),
        columns([(command.name, command.summary) for command in COMMANDS]),
        "send-once help COMMAND, or send-once COMMAND --help, says more about one.",
        *(WORDS, LEDGERS, EXIT_CODES, IN_JSON),
    ]
    return "\n\n".join(parts) + "\n"


def of_command(command: Command) -> str:
    """The help of one command."""
    parts = [
        usage_line(command),
        _filled(f"{command.summary[0].upper()}{command.summary[1:]}. {command.details}".strip()),
        columns([(_shown(option), option.help) for option in _visible((*command.options, *EVERYWHERE))]),
        f"Example:\n  {command.example}",
        *([LEDGERS] if command.arguments.startswith("LEDGER") else []),
        EXIT_CODES,
    ]
    return "\n\n".join(parts) + "\n"


def _visible(options: Iterable[Option]) -> Iterable[Option]:
    return (option for option in options if not option.hidden)


def _shown(option: Option) -> str:
    value = f"[={option.value}]" if option.optional else f" {option.value}" if option.value else ""
    return f"--{option.name}{value}"


def columns(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns, the right one wrapped beside the left."""
    width = max(len(left) for left, _ in rows)
    return "\n".join(
        textwrap.fill(
            right,
            COLUMNS,
            initial_indent=f"  {left:<{width}}  ",
            subsequent_indent=" " * (width + 4),
            break_on_hyphens=False,
        )
        for left, right in rows
    )


def _filled(text: str) -> str:
    return textwrap.fill(text, COLUMNS, break_on_hyphens=False)
