"""`send-once export`: entries as JSON Lines or CSV, on standard output."""

from __future__ import annotations

from send_once.commands import ledgers
from send_once.commands.arguments import did_you_mean
from send_once.commands.context import OK, Invocation, wrong_value
from send_once.exports import as_csv, as_json_lines
from send_once.records import chosen
from send_once.terminal import harmless_json

FORMATS = {"jsonl": as_json_lines, "csv": as_csv}
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
    lines = list(FORMATS[wanted](entries))
    for start in range(0, len(lines), LINES_AT_ONCE):
        text = "".join(lines[start : start + LINES_AT_ONCE])
        # For a file or a pipe the text stays exact; JSON keeps its value either way.
        call.console.out(harmless_json(text) if call.console.is_terminal else text)
    return OK
