"""Reading a command line, as the reference reads it (Node's `parseArgs`, strict)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from send_once.errors import InvalidInputError


class UsageError(Exception):
    """The command line cannot be understood. Shown with the usage; exit code 2."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `value` names its value in the help, empty for a flag; an `optional` value is one
    that looks like a number."""

    name: str
    help: str
    value: str = ""
    optional: bool = False
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """Positional arguments, and the options that were given (a flag as "")."""

    positionals: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.options

    def get(self, name: str) -> str | None:
        return self.options.get(name)

    def whole_number(self, name: str, default: int) -> int:
        text = self.options.get(name)
        if text is None:
            return default
        if not re.fullmatch(r"[0-9]{1,15}", text):
            raise InvalidInputError(f"--{name}: {text!r} is not a whole number.", field=name)
        return int(text)


_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?\Z")


def parse(argv: Sequence[str], options: Mapping[str, Option]) -> Parsed:
    """Options may stand anywhere, `--` ends them, the last one of a name counts."""
    positionals: list[str] = []
    given: dict[str, str] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            positionals += rest
            break
        if word.startswith("--"):
            name, value = _long(word, rest, options)
            given[name] = value
        elif word == "-h":
            given["help"] = ""
        elif word.startswith("-") and word != "-":
            raise _unknown(word[:2])
        else:
            positionals.append(word)
    return Parsed(positionals, given)


def _long(word: str, rest: list[str], options: Mapping[str, Option]) -> tuple[str, str]:
    name, equals, value = word[2:].partition("=")
    option = options.get(name)
    if option is None:
        raise _unknown(f"--{name}")
    if not option.value:
        if equals:
            raise UsageError(f"--{name} takes no value.")
        return name, ""
    if equals:
        return name, value
    if option.optional:
        return name, rest.pop(0) if rest and _NUMBER.match(rest[0]) else ""
    if not rest:
        raise UsageError(f"--{name} needs a value: --{name} {option.value}.")
    if rest[0].startswith("-") and rest[0] != "-":
        raise UsageError(
            f"--{name} needs a value, and {rest[0]} looks like an option. If it is the value, write --{name}={rest[0]}."
        )
    return name, rest.pop(0)


def _unknown(option: str) -> UsageError:
    return UsageError(
        f"Unknown option {option}. A key or file that begins with a dash goes after --, as in: "
        "send-once resolve -- LEDGER -KEY sent"
    )
