"""The command line `send-once`: see what is unknown, and record what happened.

Exit codes: 0 all well, 1 something is unresolved or was not done, 2 bad usage or the ledger cannot be
read, 130 interrupted, 141 nobody read the output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from send_once.audit import json_text
from send_once.clock import Clock, clock_reader
from send_once.commands.arguments import Parsed, UsageError, did_you_mean, parse
from send_once.commands.context import OK, UNUSABLE, Invocation, Refusal
from send_once.commands.registry import ALL_OPTIONS, BY_NAME, Command, check_options
from send_once.commands.usage import of_command, overview, usage_line
from send_once.errors import SendOnceError
from send_once.terminal import Console, OutputError, Stream, harmless
from send_once.version import __version__

INTERRUPTED: Final = 130
NOT_READ: Final = 141


def main(
    argv: Sequence[str] | None = None,
    *,
    clock: Clock | None = None,
    stdout: Stream | None = None,
    stderr: Stream | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Run one command and answer its exit code. `clock` and the streams are for programs that call
    this; the command line has the system's."""
    console = Console(stdout or sys.stdout, stderr or sys.stderr, os.environ if env is None else env)
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words, console, clock)
    except KeyboardInterrupt:
        if console.is_terminal:
            console.out("\n")
        return INTERRUPTED
    except BrokenPipeError:
        console.abandon_output()
        return NOT_READ
    except OutputError as error:
        console.abandon_output()
        console.err(f"Error: the output cannot be written: {error} [os_error]\n")
        return UNUSABLE


def _run(words: Sequence[str], console: Console, clock: Clock | None) -> int:
    report = _Report(console, as_json="--json" in words[: words.index("--") if "--" in words else None])
    command = _named(words)
    try:
        parsed = parse(words, ALL_OPTIONS)
        command = None  # by now it is known which word would name it
        if parsed.positionals[:1] == ["help"]:
            return _help(console, parsed.positionals[1:])
        command = _command(parsed)
        if parsed.has("help"):
            console.out(of_command(command) if command else overview())
            return OK
        if parsed.has("version"):
            console.out(f"{__version__}\n")
            return OK
        if command is None:
            console.err(overview())
            return UNUSABLE
        rest = Parsed(parsed.positionals[1:], parsed.options)
        return _run_command(command, Invocation(command.name, rest, console, clock_reader(clock)), report)
    except UsageError as error:
        return report.usage_error(error, command)


def _run_command(command: Command, call: Invocation, report: _Report) -> int:
    try:
        check_options(command, call.parsed.options)
        return command.run(call)
    except Refusal as refusal:
        return report.refused(refusal)
    except SendOnceError as error:
        return report.failed(error.code, str(error))
    except ImportError as error:
        return report.failed("missing_driver", str(error))
    except (BrokenPipeError, OutputError):
        raise
    except OSError as error:
        return report.failed("os_error", _in_words(error))


@dataclass(frozen=True, slots=True)
class _Report:
    """How a run that did not succeed is told: a sentence on standard error and, with --json, one object
    `{"error": {"code", "message"}}` on standard output."""

    console: Console
    as_json: bool

    def usage_error(self, error: UsageError, command: Command | None) -> int:
        """The message first; who wants the whole help is told where it is."""
        name = f"{command.name} " if command else ""
        lines = [
            harmless(str(error)),
            usage_line(command),
            *([error.hint] if error.hint else []),
            f"See `send-once {name}--help`.",
        ]
        self._tell("usage", str(error), "\n".join(lines))
        return UNUSABLE

    def refused(self, refusal: Refusal) -> int:
        self._tell(refusal.code, str(refusal), str(refusal), in_json=refusal.in_json)
        return refusal.exit_code

    def failed(self, code: str, message: str) -> int:
        self._tell(code, message, f"Error: {harmless(' '.join(message.split()))} [{code}]")
        return UNUSABLE

    def _tell(self, code: str, message: str, text: str, *, in_json: bool = True) -> None:
        if self.as_json and in_json:
            self.console.out(json_text({"error": {"code": code, "message": message}}))
        self.console.err(f"{text}\n")


def _in_words(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}." if error.filename and error.strerror else str(error)


def _help(console: Console, names: Sequence[str]) -> int:
    """`send-once help` and `send-once help COMMAND`."""
    if len(names) > 1:
        raise UsageError("help takes one command, or none.")
    command = _command(Parsed(names)) if names and names[0] != "help" else None
    console.out(of_command(command) if command else overview())
    return OK


def _command(parsed: Parsed) -> Command | None:
    """The command that the first word names; None where there is no word, or none is needed."""
    if not parsed.positionals:
        return None
    command = BY_NAME.get(parsed.positionals[0])
    if command is None and not (parsed.has("help") or parsed.has("version")):
        raise _unknown_command(parsed.positionals[0])
    return command


def _unknown_command(name: str) -> UsageError:
    hint = did_you_mean(name.lower(), [*BY_NAME, "help"], prefix="send-once ")
    if not hint and os.path.exists(name):
        hint = f"A command comes first: send-once audit {harmless(name)}"
    return UsageError(f"Unknown command: {name}", hint)


def _named(words: Sequence[str]) -> Command | None:
    return next((BY_NAME[word] for word in words if word in BY_NAME), None)


if __name__ == "__main__":
    sys.exit(main())
