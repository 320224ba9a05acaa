"""Plays the reference's recorded approvals and dispatches, and answers in their form."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from recorded import recorded, value_of
from send_once import (
    Expired,
    Failed,
    Ledger,
    MemoryStore,
    PayloadChanged,
    SendContext,
    Sent,
    StaleFacts,
    Unknown,
    approve,
)
from send_once.errors import InvalidInputError
from traces import Error, shown, thrown

TRACES = recorded("approval_traces")
T0_MS = TRACES["T0_ms"]
OPTION_NAMES = {"approvedBy": "approved_by"}
MISSING = object()


def decoded(value: Any) -> Any:
    """A described value; `MISSING` for undefined, which Python has no twin of."""
    if isinstance(value, dict):
        if set(value) == {"$date"}:
            return datetime.fromisoformat(value["$date"].replace("Z", "+00:00")) if value["$date"] != "x" else None
        if value == {"$js": "undefined"}:
            return MISSING
        if set(value) in ({"$js"}, {"$num"}):
            return value_of(value)
        decoded_members = {name: decoded(member) for name, member in value.items()}
        return {name: member for name, member in decoded_members.items() if member is not MISSING}
    if isinstance(value, list):
        return [decoded(member) for member in value]
    return value


def play_approve(case: dict[str, Any]) -> Any:
    options = {OPTION_NAMES.get(name, name): decoded(value) for name, value in case["options"].items()}
    options = {name: value for name, value in options.items() if value is not MISSING}
    try:
        return {"approval": approve(**options)}
    except InvalidInputError as error:
        return {"error": str(error)}
    except TypeError:
        return {"error": "a required argument is missing"}


class Dispatching:
    """One recorded dispatch: what the send, the recheck and the ledger saw."""

    def __init__(self, case: dict[str, Any], ledger_on: Any = Ledger) -> None:
        self.case, self.options = case, case["dispatch"]
        self.send_calls = self.recheck_calls = 0
        self.contexts: list[SendContext] = []
        now = decoded(self.options.get("now", T0_MS))
        self.store = MemoryStore()
        self.ledger = ledger_on(self.store, clock=lambda: now)

    def play(self) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        for nth in range(self.options.get("times", 1)):
            try:
                answer[f"result_{nth + 1}" if nth else "result"] = self._once()
            except (InvalidInputError, Error) as error:
                answer["throws"] = str(error)
        entry = self.store.get(self.options.get("key", "k")) if self.options.get("key", "k") not in ("", 7) else None
        return {
            **answer,
            "send_calls": self.send_calls,
            "recheck_calls": self.recheck_calls,
            "entry_after": _timeless(shown(entry)),
        }

    def _once(self) -> Any:
        arguments: dict[str, Any] = {
            "key": self.options.get("key", "k"),
            "payload": decoded(self.options.get("payload", self._approved_payload())),
            "send": None if self.options.get("no_send") else self._send,
            "meta": decoded(self.options.get("meta")),
        }
        if "recheck" in self.options:
            arguments["recheck"] = self._recheck
        if "recheck_not_function" in self.options:
            arguments["recheck"] = self.options["recheck_not_function"]
        return _result(self.ledger.dispatch(self._approval(), **arguments))

    def _approved_payload(self) -> Any:
        return self.case["approve"].get("payload", TRACES["default_payload"])

    def _approval(self) -> Any:
        if "raw" in self.case["approve"]:
            return decoded(self.case["approve"]["raw"])
        options = {OPTION_NAMES.get(n, n): decoded(v) for n, v in self.case["approve"].items()}
        return approve(**{"payload": TRACES["default_payload"], "now": T0_MS, **options})

    def _send(self, payload: Any, context: SendContext) -> Any:
        self.send_calls += 1
        self.contexts.append(context)
        if "send_throws" in self.options:
            described = self.options["send_throws"]
            raise thrown(described) if "uncertain" in described else Error(described["message"])
        return {"id": "m1"}

    def _recheck(self) -> Any:
        self.recheck_calls += 1
        described = self.options["recheck"]
        if isinstance(described, dict) and set(described) == {"throws"}:
            raise Error(described["throws"])
        return decoded(described)


def recorded_dispatch(case: dict[str, Any]) -> dict[str, Any]:
    """A recorded answer in our form. The recorded ledger stood still at T0 while `now` moved, so
    the entry's times are left out."""
    names = ("result", "result_2", "send_calls", "recheck_calls", "entry_after")
    answer = {name: case[name] for name in names if name in case}
    if "throws" in case:
        answer["throws"] = case["throws"]["message"]
    for name in ("result", "result_2"):
        if isinstance(answer.get(name), dict):
            answer[name] = _timeless_result(answer[name])
    answer["entry_after"] = _timeless(case["entry_after"]) if case.get("entry_after") else None
    return answer


def _result(outcome: Any) -> Any:
    match outcome:
        case Expired():
            members = {
                "approvedAt": outcome.approved_at,
                "expiresAt": outcome.expires_at,
                "ageHours": outcome.age_hours,
            }
        case PayloadChanged():
            members = {"approvedHash": outcome.approved_hash, "currentHash": outcome.current_hash}
        case StaleFacts():
            changed = [{"fact": c.fact, "before": c.before, "after": c.after} for c in outcome.changed]
            members = {"changed": changed}
        case Sent():
            members = {"entry": _timeless(shown(outcome.entry)), "result": outcome.result}
        case Failed(error=error) | Unknown(error=Exception() as error):
            members = {
                "entry": _timeless(shown(outcome.entry)),
                "error": {"type": type(error).__name__, "message": str(error)},
            }
        case _:
            members = {"entry": _timeless(shown(outcome.entry))}
    return {"outcome": outcome.outcome, "key": outcome.key, **members}


def _timeless_result(result: dict[str, Any]) -> dict[str, Any]:
    return {name: _timeless(value) if name == "entry" else value for name, value in result.items()}


def _timeless(entry: Any) -> Any:
    if entry is None:
        return None
    return {name: decoded(value) for name, value in entry.items() if name not in ("claimedAt", "updatedAt", "sentAt")}
