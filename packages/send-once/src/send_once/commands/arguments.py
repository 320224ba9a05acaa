"""Reading a command line, as the reference reads it (Node's `parseArgs`, strict)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final


class UsageError(Exception):
    """The command line cannot be understood; exit code 2. `hint` is shown below the usage line."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `value` names its value in the help, empty for a flag. The value of a `number` may
    begin with a minus, so that it is refused as a number and not taken for an option; an `optional`
    value is a number or not there at all."""

    name: str
    help: str
    value: str = ""
    number: bool = False
    optional: bool = False
    hidden: bool = False


def did_you_mean(word: str, words: Iterable[str], *, prefix: str = "") -> str:
    """The question that names the nearest of `words`, or nothing where none is near."""
    close = get_close_matches(word, list(words), n=1)
    return f"Did you mean {prefix}{close[0]}?" if close else ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """Positional arguments, and the options that were given (a flag as "")."""

    positionals: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.options

    def get(self, name: str) -> str | None:
        return self.options.get(name)


_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?\Z")


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
            raise _unknown(word[:2], word[1:] if word[1:] in options else "", options)
        else:
            positionals.append(word)
    return Parsed(positionals, given)


def _long(word: str, rest: list[str], options: Mapping[str, Option]) -> tuple[str, str]:
    name, equals, value = word[2:].partition("=")
    option = options.get(name)
    if option is None:
        raise _unknown(f"--{name}", name, options)
    if not option.value:
        if equals:
            raise UsageError(f"--{name} takes no value.")
        return name, ""
    if equals:
        return name, value
    if option.number and rest and _NUMBER.match(rest[0]):
        return name, rest.pop(0)
    if option.optional:
        return name, ""
    if not rest:
        raise UsageError(f"--{name} needs a value: --{name} {option.value}.")
    if rest[0].startswith("-") and rest[0] != "-":
        raise UsageError(
            f"--{name} needs a value, and {rest[0]} looks like an option. If it is the value, write --{name}={rest[0]}."
        )
    return name, rest.pop(0)


def _unknown(option: str, name: str, options: Mapping[str, Option]) -> UsageError:
    names = [one.name for one in options.values() if not one.hidden]
    return UsageError(
        f"Unknown option {option}. A key or file that begins with a dash goes after --, as in: "
        "send-once resolve -- LEDGER -KEY sent",
        did_you_mean(name, names, prefix="--"),
    )
