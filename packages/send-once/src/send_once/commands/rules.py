"""Which options go together. What would be ignored is refused: who writes `--dry-run` must not be
surprised by a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Needs:
    """An option without a use where another is not given."""

    option: str
    other: str


@dataclass(frozen=True, slots=True)
class Excludes:
    """Two options that contradict each other, and why."""

    option: str
    other: str
    why: str


Rule = Needs | Excludes


def broken(rules: Sequence[Rule], given: Mapping[str, str]) -> str | None:
    """What is wrong with the options that were given, naming both; None where nothing is."""
    return next((text for rule in rules if rule.option in given and (text := _wrong(rule, given))), None)


def _wrong(rule: Rule, given: Mapping[str, str]) -> str | None:
    match rule:
        case Needs(option, other):
            return None if other in given else f"--{option} goes only with --{other}."
        case Excludes(option, other, why):
            return f"--{option} and --{other} exclude each other: {why}." if other in given else None
