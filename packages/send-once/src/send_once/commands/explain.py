"""`send-once explain`: what a code means, and what to do."""

from __future__ import annotations

from difflib import get_close_matches

from send_once.audit import json_text
from send_once.commands.arguments import UsageError
from send_once.commands.context import OK, UNUSABLE, Invocation, Refusal
from send_once.commands.usage import columns
from send_once.error_table import TABLE, Code, explained
from send_once.terminal import Paint, harmless, wrapped


def run(call: Invocation) -> int:
    if len(call.parsed.positionals) > 1:
        raise UsageError("explain takes one code, or none for all of them.")
    rows = [_row(code) for code in call.parsed.positionals] or list(TABLE)
    if call.json:
        call.console.out(json_text([row._asdict() for row in rows]))
    elif call.parsed.positionals:
        call.console.out("\n".join(_paragraphs(rows[0], call.paint)) + "\n")
    else:
        call.console.out(columns([(row.code, row.title) for row in TABLE]) + "\n")
    return OK


def _row(code: str) -> Code:
    row = explained(code.lower())
    if row is not None:
        return row
    close = get_close_matches(code.lower(), [row.code for row in TABLE], n=1)
    hint = f" Did you mean {close[0]}?" if close else " send-once explain lists them all."
    raise Refusal(f"No such code: {harmless(code)}.{hint}", UNUSABLE)


def _paragraphs(row: Code, paint: Paint) -> list[str]:
    return [
        f"{paint.bold(row.code)} ({row.kind})",
        *wrapped(row.title, "  "),
        "",
        *wrapped(f"Why: {row.cause}", "  "),
        *wrapped(f"What to do: {row.remedy}", "  "),
    ]
