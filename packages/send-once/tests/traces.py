"""Plays the reference's recorded ledger scenarios on a store of ours, and answers in their form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from recorded import value_of
from send_once import Entry, Failed, Ledger, SendContext, Sent, Status, Store, UncertainSendError, Unknown
from send_once.errors import InvalidInputError, SendOnceError

Json = Any


class Error(Exception):
    """A plain error of the other language."""


class RecordingStore:
    """Lists the calls that reach the store, and fails as a scenario asks."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: list[list[Json]] = []
        self.faults: list[dict[str, Json]] = []

    def claim(self, entry: Entry) -> bool:
        self.calls.append(["claim", entry.key])
        return self._answer("claim", entry.status, lambda: self.store.claim(entry))

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        self.calls.append(["transition", entry.key, came_from.status.value, entry.status.value])
        return self._answer("transition", entry.status, lambda: self.store.transition(came_from, entry))

    def get(self, key: str) -> Entry | None:
        self.calls.append(["get", key])
        return self.store.get(key)

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        self.calls.append(["list", {} if status is None else {"status": status.value}])
        return self.store.list(status)

    def _answer(self, method: str, status: Status, call: Callable[[], bool]) -> bool:
        fault = next((f for f in self.faults if f["method"] == method and f.get("when_status", status) == status), None)
        if fault is None:
            return call()
        self.faults.remove(fault)
        if fault.get("after"):
            call()
        if "returns" in fault:
            return bool(fault["returns"])
        raise Error(fault["error"]["message"])


class Player:
    """One scenario: a hand-moved clock, a ledger, and an answer for each step."""

    def __init__(self, store: Store, start: str, ledger_on: Any = Ledger) -> None:
        self.now_ms = datetime.fromisoformat(start).astimezone(UTC).timestamp() * 1000
        self.store = RecordingStore(store)
        self.ledger = ledger_on(self.store, clock=lambda: self.now_ms)

    def play(self, steps: Sequence[dict[str, Json]]) -> list[Json]:
        return [self._step(step) for step in steps]

    def _step(self, step: dict[str, Json]) -> Json:
        first_call = len(self.store.calls)
        answer = getattr(self, f"_do_{step['do']}")(step)
        if answer is not None:
            answer["store_calls"] = self.store.calls[first_call:]
        return answer

    def _do_advance(self, step: dict[str, Json]) -> None:
        self.now_ms += step["ms"]

    def _do_store_fault(self, step: dict[str, Json]) -> None:
        self.store.faults.append(step)

    def _do_claim_raw(self, step: dict[str, Json]) -> Json:
        return {"claimed": self.store.store.claim(Entry(step["entry"]))}

    def _do_get(self, step: dict[str, Json]) -> Json:
        return _answered(lambda: {"entry": shown(self.ledger.get(step["key"]))})

    def _do_pending(self, step: dict[str, Json]) -> Json:
        def ask() -> Json:
            limit = {"older_than": step["older_than"]} if "older_than" in step else {}
            return {"keys": [entry.key for entry in self.ledger.pending(**limit)]}

        return _answered(ask)

    def _do_resolve(self, step: dict[str, Json]) -> Json:
        details = {{"providerId": "provider_id"}.get(k, k): v for k, v in step.get("details", {}).items()}
        return _answered(lambda: {"entry": shown(self.ledger.resolve(step["key"], step["status"], **details))})

    def _do_once(self, step: dict[str, Json]) -> Json:
        send = Sending(self, step.get("send", {}))
        call: Any = "not a function" if step.get("bad_send") else send
        answer = _answered(lambda: _outcome(self.ledger.once(step["key"], call, step.get("meta"))))
        answer["send_called"] = send.context is not None
        if send.context is not None and "throws" not in answer:
            answer["send_context"] = {"key": send.context.key, "attempt": send.context.attempt}
        if send.during is not None:
            answer["during"] = send.during
        return answer


class Sending:
    """The send function of one step."""

    def __init__(self, player: Player, described: dict[str, Json]) -> None:
        self.player, self.described = player, described
        self.context: SendContext | None = None
        self.during: list[Json] | None = None

    def __call__(self, context: SendContext) -> Json:
        self.context = context
        if "during" in self.described:
            self.during = [a for a in self.player.play(self.described["during"]) if a is not None]
        self.player.now_ms += self.described.get("takes_ms", 0)
        if "throws" in self.described:
            raise thrown(self.described["throws"])
        if self.described.get("returns_undefined"):
            return None
        return self.described.get("returns", {"id": "msg_1"})


def thrown(described: Json) -> Exception:
    """The exception a recording means. Values that are no errors cannot be raised in Python."""
    if isinstance(described, dict) and "uncertain" in described:
        cause = described["uncertain"]
        if isinstance(cause, dict):
            cause = cause["value"] if "value" in cause else thrown(cause)
        return UncertainSendError(cause, described.get("message"))
    if isinstance(described, dict) and "type" in described:
        return {"TypeError": TypeError}.get(described["type"], Error)(described["message"])
    raise AssertionError(f"cannot be raised in Python: {described!r}")


def raises_non_error(step: Json) -> bool:
    """Whether a send of the scenario throws a value that is no error."""
    described = step.get("send", {}).get("throws", {"type": "Error"})
    return not (isinstance(described, dict) and ("type" in described or "uncertain" in described))


def shown(entry: Entry | None) -> Json:
    """An entry as the reference would write it: without our `claim`."""
    if entry is None:
        return None
    members = entry.to_json()
    members.pop("claim", None)
    return members


def _outcome(outcome: Any) -> Json:
    answer = {"outcome": outcome.outcome, "key": outcome.key, "entry": shown(outcome.entry)}
    match outcome:
        case Sent(result=result):
            answer["result"] = result
        case Failed(error=error) | Unknown(error=Exception() as error):
            answer["error"] = _error(error)
    return answer


def _error(error: BaseException) -> Json:
    return {"type": type(error).__name__, "message": str(error)}


def _answered(call: Callable[[], Json]) -> Json:
    try:
        return call()
    except InvalidInputError as error:
        return {"throws": {"type": "InvalidInputError", "message": str(error)}}
    except SendOnceError as error:
        return {"throws": {"type": "SendOnceError", "code": error.code, "message": str(error)}}
    except Error as error:
        return {"throws": _error(error)}


def expected_of(answer: Json) -> Json:
    """A recorded answer in the form we answer in."""
    if answer is None:
        return None
    expected = {name: value_of(value) for name, value in answer.items() if name not in ("result_fields",)}
    if expected.pop("result_undefined", False):
        expected["result"] = None
    if "error" in expected:
        expected["error"] = {name: expected["error"].get(name) for name in ("type", "message")}
    if expected.get("throws", {}).get("type") in ("TypeError", "RangeError"):
        expected["throws"] = {"type": "InvalidInputError", "message": expected["throws"]["message"]}
    if "during" in expected:
        expected["during"] = [expected_of(inner) for inner in expected["during"] if inner is not None]
    return expected
