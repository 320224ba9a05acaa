"""The help texts."""

from __future__ import annotations

import pytest

from cli_runs import process, run
from send_once.commands.registry import COMMANDS, Command
from send_once.commands.usage import EXIT_CODES, WORDS


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


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_is_a_command_too(command: Command) -> None:
    assert run("help", command.name) == run(command.name, "--help")


@pytest.mark.parametrize("args", [["help"], ["help", "help"], ["-h"]])
def test_help_without_a_command_is_the_overview(args: list[str]) -> None:
    assert run(*args) == run("--help")


def test_help_takes_one_command() -> None:
    ran = run("help", "list", "show")
    assert (ran.exit, ran.stdout) == (2, "")
    assert ran.stderr.startswith("help takes one command, or none.\n")


@pytest.mark.parametrize("args", [["--help"], *([command.name, "--help"] for command in COMMANDS)])
def test_every_help_says_the_same_about_exit_codes(args: list[str]) -> None:
    assert run(*args).stdout.count(EXIT_CODES) == 1


def test_pending_and_unknown_are_told_apart_once() -> None:
    assert run("--help").stdout.count(WORDS) == 1
