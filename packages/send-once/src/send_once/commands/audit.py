"""`send-once audit`: what is unknown, for people, programs and Prometheus."""

from __future__ import annotations

import time

from send_once.audit import Audit, as_json, as_text, audit
from send_once.commands import ledgers
from send_once.commands.context import OK, UNRESOLVED, Invocation, wrong_value
from send_once.entry import Status
from send_once.instants import iso_from_ms
from send_once.metrics import as_metrics
from send_once.stores.addresses import Address

WATCH_SECONDS = 2.0
WATCH_SECONDS_MIN = 0.05


def run(call: Invocation) -> int:
    (name,) = call.positionals(1, "one ledger file")
    address = ledgers.existing(name)
    older_than_ms = call.duration_ms("older-than")
    if call.parsed.has("watch"):
        return _watch(call, address, older_than_ms)
    report = _look(call, address, older_than_ms)
    call.console.out(_render(call, report))
    return _exit_code(call, report)


def _look(call: Invocation, address: Address, older_than_ms: float) -> Audit:
    # Each time anew: a file that was taken away while it was watched would read as an empty ledger.
    ledgers.require(address)
    reading = ledgers.read(address, only=Status.PENDING, refuse_in_json=False)
    return audit(reading, older_than_ms=older_than_ms, now_ms=call.now_ms())


def _render(call: Invocation, report: Audit) -> str:
    if call.parsed.has("metrics"):
        return as_metrics(report)
    return as_json(report) if call.json else as_text(report, call.paint)


def _exit_code(call: Invocation, report: Audit) -> int:
    # A collector takes a failing exit code for a failed measurement; the number is in the text.
    return UNRESOLVED if report.unknown and not call.parsed.has("metrics") else OK


def _watch(call: Invocation, address: Address, older_than_ms: float) -> int:
    """Look again and again, until interrupted or `--watch-count` times."""
    seconds = _watch_seconds(call)
    looks_left = call.count("watch-count")
    while True:
        report = _look(call, address, older_than_ms)
        call.console.out(_screen(call, report, seconds))
        if looks_left == 1:
            return _exit_code(call, report)
        looks_left = looks_left and looks_left - 1
        time.sleep(seconds)


def _screen(call: Invocation, report: Audit, seconds: float) -> str:
    text = _render(call, report)
    if not call.console.is_terminal or call.json or call.parsed.has("metrics"):
        return text
    # One write, so that no half-drawn screen is seen: home, clear to the end, clear what was scrolled.
    head = f"{iso_from_ms(report.checked_at_ms)}  every {seconds:g} s, Ctrl-C ends\n"
    return "\x1b[H\x1b[2J\x1b[3J" + call.paint.dim(head) + text


def _watch_seconds(call: Invocation) -> float:
    text = call.parsed.get("watch") or str(WATCH_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not WATCH_SECONDS_MIN <= seconds <= 86_400:  # noqa: PLR2004  # a day
        raise wrong_value("watch", f"a number of seconds from {WATCH_SECONDS_MIN} to 86400", text)
    return seconds
