"""Writes the pages whose text stands in the program: `python docs/generate.py`. A test keeps them current."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from send_once.commands.registry import COMMANDS
from send_once.commands.usage import of_command, overview
from send_once.error_table import as_markdown

DOCS = Path(__file__).parent


def command_line() -> str:
    parts = ["# Command line\n", "What `send-once --help` prints.\n", _printed(overview())]
    for command in COMMANDS:
        parts += [f"## `send-once {command.name}`\n", _printed(of_command(command))]
    return "\n".join(parts)


def _printed(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"


def pages() -> Mapping[Path, str]:
    """The text of each page, by its path."""
    return {
        DOCS / "reference" / "error-codes.md": as_markdown(),
        DOCS / "reference" / "cli.md": command_line(),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
