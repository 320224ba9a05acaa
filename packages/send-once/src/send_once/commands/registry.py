"""The table of commands: their arguments, options, help and code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final, cast

from send_once.commands.arguments import Option, UsageError, did_you_mean
from send_once.commands.context import Invocation
from send_once.commands.rules import Excludes, Needs, Rule, broken


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
    rules: tuple[Rule, ...] = ()
    unused: tuple[str, ...] = ()
    """Options it takes without a use for them, because the reference does."""

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

FOR_EXPORTS: Final = ("key-column", "status-column", "sent-when", "failed-when", "provider-id-column", "dry-run")
"""Options of `resolve` that are about a provider's export."""

EVERYWHERE: Final = (
    Option("no-colour", "no colours (nor with NO_COLOR set, nor into a pipe)"),
    Option("no-color", "the same", hidden=True),
    Option("help", "this text"),
    Option("version", "the version"),
)
"""Options of every command."""

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
            Option("watch", "look again every SECONDS (2), until Ctrl-C", "SECONDS", number=True, optional=True),
            Option("watch-count", "with --watch: end after N looks", "N", number=True),
        ),
        "send-once audit sends.jsonl --older-than 10m",
        rules=(Excludes("json", "metrics", "each is a form of the whole report"), Needs("watch-count", "watch")),
        unused=("by", "note"),
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
        'send-once resolve sends.jsonl welcome:ana sent --by ana --note "seen in log"',
        rules=(
            *(Needs(name, "from-export") for name in FOR_EXPORTS),
            Excludes("provider-id", "from-export", "an export names its ids with --provider-id-column"),
        ),
        unused=("older-than",),
    ),
    Command(
        "show",
        "LEDGER KEY",
        "everything about one key",
        "Exit code 1: there is no such key.",
        (JSON,),
        "send-once show sends.jsonl welcome:ana",
    ),
    Command(
        "history",
        "LEDGER KEY",
        "what one key was, and when",
        "A file keeps every state; a database keeps the last one and a short record of earlier attempts.",
        (JSON,),
        "send-once history sends.jsonl welcome:ana",
    ),
    Command(
        "list",
        "LEDGER",
        "entries, one line each, by claim time",
        "Each with its status, when it was claimed, its attempt, whom it is for, and its key. Whom it is for is the "
        "meta's `to`, or else its first text. There is no status unknown: what a call reports as unknown is stored as "
        "pending.",
        (
            STATUS,
            OLDER_THAN,
            Option("grep", "only with TEXT in key, meta, provider id or error; letter case is ignored", "TEXT"),
            Option("limit", "at most N", "N", number=True),
            JSON,
        ),
        "send-once list sends.jsonl --grep ana@example.com",
        module="listing",
    ),
    Command("stats", "LEDGER", "counts", "", (JSON,), "send-once stats sends.jsonl"),
    Command(
        "export",
        "LEDGER",
        "entries as JSON Lines or CSV, to standard output",
        "JSON Lines are the entries as they are stored, and a ledger file themselves. CSV is for spreadsheets: a text "
        "they would take for a formula gets an apostrophe before it.",
        (Option("format", "jsonl (the default) or csv", "FORMAT"), STATUS, OLDER_THAN),
        "send-once export sends.jsonl --format csv --status pending > pending.csv",
    ),
    Command(
        "import",
        "LEDGER SOURCE",
        "copy entries from another ledger; never overwrites",
        "SOURCE is an exported file or any ledger. Only keys that LEDGER does not hold are inserted, as they are; it "
        "is made if it is missing. Exit code 1: a key is sent there and not here, so that a call here may send it "
        "again.",
        (DRY_RUN, JSON),
        "send-once import sqlite:sends.db sends.jsonl --dry-run",
        module="importing",
    ),
    Command(
        "compact",
        "LEDGER",
        "make a ledger file small; no key is forgotten",
        "What was sent shrinks to a line that still refuses a second send. Pending and failed entries stay whole. The "
        "old file is kept beside the new one.",
        (YES, Option("older-than", "shrink only what was settled at least so long ago", "DURATION"), JSON),
        "send-once compact sends.jsonl --older-than 90d --yes",
    ),
    Command(
        "doctor",
        "LEDGER",
        "is the ledger sound: damage, locks, settings",
        "Exit code 0: sound. 1: something needs a person. New claims are refused over damaged lines until someone, "
        "having looked at them here, accepts them.",
        (
            Option("accept-damage", "record that --by has seen every damaged line; claims go on"),
            Option("by", "who has looked", "NAME"),
            NOTE,
            JSON,
        ),
        "send-once doctor sends.jsonl",
        rules=(Needs("by", "accept-damage"), Needs("note", "accept-damage")),
    ),
    Command(
        "explain",
        "[CODE]",
        "what a code, a status or an exception means, and what to do",
        "CODE is what stands in an error, an outcome, a status or a finding about a message, or the name of an "
        "exception. Without one: all of them.",
        (JSON,),
        "send-once explain lock_timeout",
    ),
)

BY_NAME: Final[Mapping[str, Command]] = {command.name: command for command in COMMANDS}

ALL_OPTIONS: Final[Mapping[str, Option]] = {
    option.name: option for option in (*(one for command in COMMANDS for one in command.options), *EVERYWHERE)
}
"""One table for parsing, because options may stand before the command's name."""


def check_options(command: Command, given: Mapping[str, str]) -> None:
    """UsageError for options that the command does not take, or that do not go together."""
    taken = {option.name for option in (*command.options, *EVERYWHERE)} | set(command.unused)
    for name in given:
        if name not in taken:
            raise UsageError(f"{command.name} does not take --{name}.", _meant(command, name))
    wrong = broken(command.rules, given)
    if wrong is not None:
        raise UsageError(wrong)


def _meant(command: Command, name: str) -> str:
    if command.name == "export" and name == "json":
        return "--format jsonl, the default, prints JSON Lines."
    return did_you_mean(name, [option.name for option in command.options], prefix="--")
