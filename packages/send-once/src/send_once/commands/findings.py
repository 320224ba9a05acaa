"""What `doctor` found, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from send_once.entry import Json
from send_once.terminal import Paint, wrapped

Level = Literal["ok", "note", "bad"]


class Finding(NamedTuple):
    """One thing that was looked at. `bad` needs a person; `details` are lines shown below it."""

    level: Level
    about: str
    text: str
    details: Sequence[str] = ()


def as_text(findings: Sequence[Finding], paint: Paint) -> str:
    """One paragraph a finding."""
    words = {"ok": paint.green("ok  "), "note": paint.yellow("note"), "bad": paint.red("BAD ")}
    lines: list[str] = []
    for finding in findings:
        first, *rest = wrapped(f"{finding.about}: {finding.text}", " " * 6)
        lines += [f"{words[finding.level]}  {first.lstrip()}", *rest]
        lines += [line for detail in finding.details for line in wrapped(detail, " " * 8)]
    return "".join(f"{line}\n" for line in lines)


def as_json(findings: Sequence[Finding]) -> list[Json]:
    return [
        {"level": one.level, "about": one.about, "text": one.text, "details": list(one.details)} for one in findings
    ]
