"""Programs a type checker must refuse, because they would send twice, lose an outcome or read what is not there.

mypy runs once over all of them; each marked line must have exactly the error it names, and no other line one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import send_once

ROOT = Path(__file__).parents[3]

PROGRAM = """
from typing import assert_never

from send_once import (
    Absent, AsyncLedger, CannotTell, Claimed, ClaimOutcome, DispatchOutcome, Duplicate, Entry, Evidence, Expired,
    Failed, Found, Ledger, MemoryStore, Outcome, PayloadChanged, Report, SendContext, Sent, StaleFacts, Unknown, threaded,
)

ledger = Ledger(MemoryStore())
async_ledger = AsyncLedger(threaded(MemoryStore()))


def a_forgotten_unknown(outcome: Outcome[str]) -> str:
    match outcome:
        case Sent() | Duplicate() | Failed():
            return outcome.key
        case other:
            assert_never(other)  # E: arg-type


def a_forgotten_refusal(outcome: DispatchOutcome[str]) -> str:
    match outcome:
        case Sent() | Duplicate() | Unknown() | Failed() | Expired() | StaleFacts():
            return outcome.key
        case other:
            assert_never(other)  # E: arg-type


def a_forgotten_claim(outcome: ClaimOutcome) -> str:
    match outcome:
        case Claimed() | Duplicate():
            return outcome.key
        case other:
            assert_never(other)  # E: arg-type


def a_forgotten_evidence(evidence: Evidence) -> str:
    match evidence:
        case Found() | Absent():
            return str(evidence.note)
        case other:
            assert_never(other)  # E: arg-type


def nothing_forgotten(outcome: DispatchOutcome[str], evidence: Evidence) -> str:
    match outcome:
        case Sent() | Duplicate() | Unknown() | Failed() | Expired() | StaleFacts() | PayloadChanged():
            pass
        case other:
            assert_never(other)
    match evidence:
        case Found() | Absent() | CannotTell():
            return outcome.key
        case another:
            assert_never(another)


def the_kinds_of_stores() -> None:
    Ledger(threaded(MemoryStore()))  # E: arg-type
    AsyncLedger(MemoryStore())  # E: arg-type
    threaded(threaded(MemoryStore()))  # E: arg-type
    Ledger("ledger.jsonl")  # E: arg-type


def the_kinds_of_sends(key: str) -> None:
    def of_two(context: SendContext, to: str) -> str:
        return to

    ledger.once(key, "send")  # E: arg-type
    ledger.once(key, of_two)  # E: arg-type
    ledger.once(7, lambda: "m")  # E: arg-type
    ledger.once(key, lambda: "m")


def a_result_that_may_not_be_there() -> str:
    return ledger.once("k", lambda: "m").result  # E: union-attr


def settling_what_was_not_claimed() -> None:
    claim = ledger.claim("k")
    ledger.settle(claim, "m")  # E: arg-type
    if isinstance(claim, Claimed):
        ledger.settle(claim)  # E: call-overload
        ledger.settle(claim, "m", error=TimeoutError())  # E: call-overload
        ledger.settle(claim, error=KeyboardInterrupt())  # E: call-overload
        ledger.settle(claim, error=TimeoutError())
    for one in ledger.claim_many(["a"]):
        Report(one, "m")  # E: arg-type


def what_is_final(sent: Sent[str], entry: Entry, claimed: Claimed) -> None:
    sent.key = "other"  # E: misc
    entry.key = "other"  # E: misc
    claimed.entry = entry  # E: misc


def evidence_that_is_none(entry: Entry) -> bool:
    ledger.reconcile(evidence_that_is_none, older_than="1h")  # E: arg-type
    return True


def settings() -> None:
    Ledger(MemoryStore(), unclassified="perhaps")  # E: arg-type
    Ledger(MemoryStore(), certainty={"app.QuotaError": "perhaps"})  # E: dict-item
    Ledger(MemoryStore(), certainty={"app.QuotaError": "failed"})


def key_of(order: int) -> str:
    return f"order:{order}"


@ledger.guarded(key=key_of)
def confirm(order: int) -> str:
    return str(order)


async def forgetting_to_await() -> None:
    async_ledger.once("k", forgetting_to_await).outcome  # E: attr-defined
    confirm("7")  # E: arg-type
    confirm(7).outcome
"""


def test_a_type_checker_refuses_what_would_go_wrong_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    marks = {
        (number, mark.group(1))
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if (mark := re.search(r"# E: ([\w-]+)$", line))
    }
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}", str(program)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"MYPYPATH": str(Path(send_once.__file__).parent.parent)},
        check=False,
    )
    found = re.findall(r"program\.py:(\d+): error: .*\[([\w-]+)\]$", run.stdout, re.MULTILINE)
    assert {(int(number), code) for number, code in found} == marks, run.stdout + run.stderr
    assert len(marks) == PROGRAM.count("# E: ") > 20
