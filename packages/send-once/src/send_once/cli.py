"""The command line `send-once`: see what is unknown, and record what happened.

Exit codes: 0 all well, 1 something is unresolved or was not done, 2 bad usage or the ledger cannot be
read, 130 interrupted, 141 nobody read the output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from send_once.audit import json_text
from send_once.clock import Clock, clock_reader
from send_once.commands.arguments import Parsed, UsageError, parse
from send_once.commands.context import OK, UNUSABLE, Invocation, Refusal
from send_once.commands.registry import ALL_OPTIONS, BY_NAME, Command, unused_option
from send_once.commands.usage import of_command, overview
from send_once.errors import SendOnceError
from send_once.terminal import Console, Stream, harmless
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


def _run(words: Sequence[str], console: Console, clock: Clock | None) -> int:
    try:
        parsed = parse(words, ALL_OPTIONS)
    except UsageError as error:
        return _usage_error(console, error, _named(words))
    command = BY_NAME.get(parsed.positionals[0]) if parsed.positionals else None
    if parsed.has("help"):
        console.out(of_command(command) if command else overview())
        return OK
    if parsed.has("version"):
        console.out(f"{__version__}\n")
        return OK
    if command is None:
        return _no_command(console, parsed)
    rest = Parsed(parsed.positionals[1:], parsed.options)
    return _run_command(command, Invocation(command.name, rest, console, clock_reader(clock)))


def _run_command(command: Command, call: Invocation) -> int:
    try:
        unused = unused_option(command, call.parsed.options)
        if unused is not None:
            raise UsageError(f"{command.name} does not take --{unused}.")
        return command.run(call)
    except UsageError as error:
        return _usage_error(call.console, error, command)
    except Refusal as refusal:
        call.console.err(f"{refusal}\n")
        return refusal.exit_code
    except SendOnceError as error:
        return _failed(call, error.code, str(error))
    except ImportError as error:
        return _failed(call, "missing_driver", str(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        return _failed(call, "os_error", str(error))


def _failed(call: Invocation, code: str, message: str) -> int:
    if call.json:
        call.console.out(json_text({"error": {"code": code, "message": message}}))
    call.console.err(f"Error: {harmless(' '.join(message.split()))} [{code}]\n")
    return UNUSABLE


def _usage_error(console: Console, error: UsageError, command: Command | None) -> int:
    console.err(f"{harmless(str(error))}\n{of_command(command) if command else overview()}")
    return UNUSABLE


def _no_command(console: Console, parsed: Parsed) -> int:
    if not parsed.positionals:
        console.err(overview())
        return UNUSABLE
    name = parsed.positionals[0]
    close = get_close_matches(name.lower(), BY_NAME, n=1)
    hint = f"\nDid you mean: send-once {close[0]}\n" if close else ""
    console.err(f"Unknown command: {harmless(name)}\n{overview()}{hint}")
    return UNUSABLE


def _named(words: Sequence[str]) -> Command | None:
    return next((BY_NAME[word] for word in words if word in BY_NAME), None)


if __name__ == "__main__":
    sys.exit(main())
