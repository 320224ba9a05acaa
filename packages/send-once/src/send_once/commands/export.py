"""`send-once export`: entries as JSON Lines or CSV, on standard output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from send_once.commands import ledgers
from send_once.commands.arguments import did_you_mean
from send_once.commands.context import OK, Invocation, wrong_value
from send_once.entry import Entry
from send_once.exports import as_csv, as_json_lines
from send_once.records import chosen
from send_once.terminal import harmless, harmless_json

LINES_AT_ONCE = 1_000


def run(call: Invocation) -> int:
    (name,) = call.positionals(1, "one ledger")
    address = ledgers.existing(name)
    given = call.parsed.get("format")
    wanted = "jsonl" if given is None else given
    if wanted not in FORMATS:
        raise wrong_value("format", "jsonl or csv", wanted, did_you_mean(wanted.lower(), FORMATS))
    status, older_than_ms = call.status(), call.duration_ms("older-than")
    entries = chosen(
        ledgers.read(address, only=status).entries, status=status, older_than_ms=older_than_ms, now_ms=call.now_ms()
    )
    lines = list((ON_A_TERMINAL if call.console.is_terminal else FORMATS)[wanted](entries))
    for start in range(0, len(lines), LINES_AT_ONCE):
        text = "".join(lines[start : start + LINES_AT_ONCE])
        call.console.out(text)
    return OK


def _csv_on_a_terminal(entries: Iterable[Entry]) -> Iterator[str]:
    return (harmless(row.removesuffix("\r\n")) + "\n" for row in as_csv(entries))


def _json_lines_on_a_terminal(entries: Iterable[Entry]) -> Iterator[str]:
    """JSON keeps its value."""
    return map(harmless_json, as_json_lines(entries))


FORMATS = {"jsonl": as_json_lines, "csv": as_csv}
"""For a file or a pipe, where the text stays exact."""
ON_A_TERMINAL = {"jsonl": _json_lines_on_a_terminal, "csv": _csv_on_a_terminal}
