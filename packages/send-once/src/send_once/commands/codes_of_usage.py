"""What the command line itself says no to."""

from __future__ import annotations

from typing import Final

from send_once.commands.codes import code_of_error

USAGE: Final = (
    code_of_error(
        "usage",
        "The command line cannot be understood, or asks for what cannot be. Nothing was done.",
        "A word or value is wrong, or options do not go together; the message names them.",
        "Correct it. `send-once COMMAND --help` lists what the command takes.",
    ),
    code_of_error(
        "no_such_ledger",
        "There is no ledger at this path.",
        "A slip in the path, another folder, or nothing has been claimed yet.",
        "Check the path. A ledger is made by the first claim, never by looking at it.",
    ),
    code_of_error(
        "still_running",
        "The send may be happening at this moment; it is not marked failed.",
        "The process that claimed it runs on this machine and has not said how the send ended.",
        "Wait for the process or end it, then resolve; `--even-if-running` overrules it.",
    ),
    code_of_error(
        "not_confirmed",
        "This changes the ledger for good, and nobody has confirmed it. Nothing was changed.",
        "`compact` was called without `--yes`.",
        "Read what it says, then call it with `--yes`.",
    ),
    code_of_error(
        "not_supported",
        "This kind of ledger has no such thing.",
        "`compact` and `--accept-damage` are for ledger files; a database does the like by itself.",
        "Nothing. `send-once doctor` looks at any ledger.",
    ),
    code_of_error(
        "missing_driver",
        "A database driver is not installed (command line only).",
        "The address names a database, and the library itself depends on nothing.",
        "Install the extra that the message names.",
    ),
    code_of_error(
        "os_error",
        "The operating system refused something (command line only).",
        "The message is the system's.",
        "Check rights, paths and space on the disk.",
    ),
)
