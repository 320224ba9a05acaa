"""`send-once stats`: counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from send_once.audit import describe_age, json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, Invocation
from send_once.entry import Json
from send_once.records import stats
from send_once.terminal import Paint, harmless


def run(call: Invocation) -> int:
    (name,) = call.positionals(1, "one ledger")
    counts = stats(ledgers.read(ledgers.existing(name)), now_ms=call.now_ms())
    call.console.out(json_text(counts) if call.json else _text(counts, call.paint))
    return OK


def _text(counts: Mapping[str, Json], paint: Paint) -> str:
    lines = "".join(f"{number:>8}  {words}\n" for number, words in _rows(counts, paint))
    errors = "".join(f"{number:>8}  {harmless(error)}\n" for error, number in counts["errors"].items())
    return lines + (f"\nMost frequent last errors of what is failed or pending:\n{errors}" if errors else "")


def _rows(counts: Mapping[str, Json], paint: Paint) -> Iterator[tuple[int, str]]:
    """Words that are right after one and after many."""
    oldest = counts["oldestPendingAgeMs"]
    pending = "pending" if oldest is None else f"pending, the oldest claimed {describe_age(oldest)}"
    yield counts["entries"], f"in {harmless(counts['ledger'])}"
    yield counts["sent"], paint.green("sent")
    yield counts["failed"], f"{paint.yellow('failed')}, may be retried"
    yield counts["pending"], paint.red(pending) if counts["pending"] else pending
    yield counts["retried"], "took more than one attempt"
    yield counts["resolvedByHand"], "settled by a person or by evidence"
    for span, number in counts["claimedInTheLast"].items():
        yield number, f"claimed in the last {span}"
    if counts["skippedLines"]:
        yield counts["skippedLines"], "skipped, of the file's lines"
    if counts["damagedLines"]:
        yield counts["damagedLines"], "damaged, of the file's lines: see send-once doctor"
