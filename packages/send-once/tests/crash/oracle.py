"""The judgement over one crash: pure, from what was there before and what a fresh process found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from crash.scenarios import Run

STATES_AFTER_TOLD: Final[Mapping[str, frozenset[str]]] = {
    "sent": frozenset({"sent"}),
    "duplicate": frozenset({"sent"}),
    "unknown": frozenset({"pending", "sent"}),
    "failed": frozenset({"failed"}),
    "resolved sent": frozenset({"sent"}),
    "resolved failed": frozenset({"failed"}),
}
"""What the caller was told, and the states in which the entry may then be found."""

NEXT_BY_STATE: Final[Mapping[str | None, str]] = {
    None: "sent",
    "failed": "sent",
    "pending": "unknown",
    "sent": "duplicate",
}
"""The state a fresh process finds, and what its own `once` must answer."""

States = Mapping[str, Sequence[Any]]
"""{key: [status, attempts]}"""


def violations(
    before: States, found: Mapping[str, Any], told: Mapping[str, str] | None, *, may_refuse: bool = False
) -> list[str]:
    """Every way in which the promise was broken; empty if it held.

    `before` is the ledger as prepared, `found` what `scenarios.look` answered, `told` what the
    victim reported if it lived. With `may_refuse` (a disk that lied about what it wrote) the ledger
    may refuse to claim; it still may not send twice or forget.
    """
    runs = [Run(*run) for run in found["runs"]]
    judged = [
        *_runs_wrong(runs),
        *_attempts_wrong(before, found["first"], runs),
        *_forgotten(found, runs),
        *_went_back(before, found),
        *_told_wrong(found["first"], told or {}, runs),
    ]
    if not may_refuse:
        judged += [*(f"a later reader trips: {trip}" for trip in found["trips"]), *_next_wrong(found)]
    return judged


def _runs_wrong(runs: Sequence[Run]) -> Iterator[str]:
    for (key, attempt), count in Counter((run.key, run.attempt) for run in runs).items():
        if count > 1:
            yield f"{key}: send ran {count} times in attempt {attempt}"
    for key, count in Counter(run.key for run in runs if run.kind == "landed").items():
        if count > 1:
            yield f"{key}: {count} messages went out"


def _attempts_wrong(before: States, first: States, runs: Sequence[Run]) -> Iterator[str]:
    """Attempt n+1 may run only after attempt n was settled as failed."""
    rejected = {(run.key, run.attempt) for run in runs if run.kind == "rejected"}
    for run in runs:
        earlier = (run.key, run.attempt - 1)
        settled = {
            (key, state[1]) for states in (before, first) for key, state in states.items() if state[0] == "failed"
        }
        if run.attempt > 1 and run.actor != "prepare" and earlier not in settled | rejected:
            yield f"{run.key}: attempt {run.attempt} ran although attempt {run.attempt - 1} was never settled as failed"


def _forgotten(found: Mapping[str, Any], runs: Sequence[Run]) -> Iterator[str]:
    """A key whose send ran is never absent, and never failed unless the send itself was refused."""
    ran_before_the_look = [run for run in runs if run.actor != "next"]
    for key in {run.key for run in ran_before_the_look}:
        landed = any(run.kind == "landed" for run in ran_before_the_look if run.key == key)
        for moment in ("first", "after"):
            state = found[moment].get(key)
            if state is None:
                yield f"{key}: its send ran, and the ledger ({moment}) does not know it"
            elif landed and state[0] == "failed":
                yield f"{key}: its message went out, and the ledger ({moment}) says failed"


def _went_back(before: States, found: Mapping[str, Any]) -> Iterator[str]:
    for key, (status, attempts) in before.items():
        state = found["first"].get(key)
        if state is None:
            yield f"{key}: was {status}, now absent"
        elif status == "sent" and state[0] != "sent":
            yield f"{key}: was sent, now {state[0]}"
        elif state[1] < attempts:
            yield f"{key}: had {attempts} attempts, now {state[1]}"


def _told_wrong(first: States, told: Mapping[str, str], runs: Sequence[Run]) -> Iterator[str]:
    rejected = {run.key for run in runs if run.kind == "rejected"}
    for key, word in told.items():
        if key == "error":
            continue
        state = first.get(key, ("absent", 0))[0]
        if word == "unknown" and state == "failed" and key in rejected:
            # The sync of a refusal's record failed, and a database's recovery found the record whole: a late truth.
            continue
        if state not in STATES_AFTER_TOLD[word]:
            yield f"{key}: the caller was told {word!r}, the ledger says {state}"


def _next_wrong(found: Mapping[str, Any]) -> Iterator[str]:
    for key, outcome in found["next"].items():
        state = found["first"].get(key, (None, 0))[0]
        if outcome != NEXT_BY_STATE[state]:
            yield f"{key}: found {state}, and the next caller got {outcome!r}"
    if found["fresh"] != "sent":
        yield f"a key nobody had claimed could not be sent: {found['fresh']!r}"
