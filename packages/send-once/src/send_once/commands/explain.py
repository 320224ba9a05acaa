"""`send-once explain`: what a code means, and what to do."""

from __future__ import annotations

from difflib import get_close_matches

from send_once.audit import json_text
from send_once.commands.codes import Code
from send_once.commands.context import OK, UNUSABLE, Invocation, Refusal
from send_once.commands.usage import columns
from send_once.error_table import HEADINGS, NAMES, TABLE, explained
from send_once.terminal import Paint, harmless, wrapped


def run(call: Invocation) -> int:
    # Several words are one: the audit prints `process gone`.
    wanted = " ".join(call.parsed.positionals)
    rows = [_row(wanted)] if wanted else list(TABLE)
    if call.json:
        call.console.out(json_text([row._asdict() for row in rows]))
    elif wanted:
        call.console.out("\n".join(_paragraphs(rows[0], call.paint)) + "\n")
    else:
        call.console.out("\n".join(_section(kind, heading) for kind, heading in HEADINGS.items()))
    return OK


def _section(kind: str, heading: str) -> str:
    return f"{heading}\n{columns([(row.code, row.title) for row in TABLE if row.kind == kind])}\n"


def _row(code: str) -> Code:
    row = explained(code)
    if row is not None:
        return row
    spelt = {name.lower(): name for name in (*NAMES, *(row.code for row in TABLE))}
    close = get_close_matches(code.lower(), spelt, n=1)
    hint = f"Did you mean {spelt[close[0]]}?" if close else "send-once explain lists them all."
    raise Refusal(f"No such code: {harmless(code)}. {hint}", UNUSABLE)


def _paragraphs(row: Code, paint: Paint) -> list[str]:
    return [
        f"{paint.bold(row.code)} ({row.kind})",
        *wrapped(row.title, "  "),
        "",
        *wrapped(f"Why: {row.cause}", "  "),
        *wrapped(f"What to do: {row.remedy}", "  "),
    ]
