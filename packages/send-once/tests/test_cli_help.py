"""The help texts."""

from __future__ import annotations

import pytest

from cli_runs import process, run
from send_once.commands.registry import COMMANDS, Command


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_each_command_explains_itself_and_gives_an_example(command: Command) -> None:
    ran = run(command.name, "--help")
    assert (ran.exit, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"Usage: send-once {command.name} {command.arguments}")
    assert command.example.startswith(f"send-once {command.name} ")
    assert all(f"--{option.name}" in ran.stdout for option in command.options)


@pytest.mark.parametrize("args", [["--help"], *([command.name, "--help"] for command in COMMANDS)])
def test_help_fits_a_terminal_of_80_columns(args: list[str]) -> None:
    assert max(len(text) for text in run(*args).stdout.splitlines()) < 80


def test_the_installed_command_is_this_program() -> None:
    assert process("--help").stdout == run("--help").stdout
