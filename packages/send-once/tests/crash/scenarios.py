"""What a victim does, and what a fresh process then finds. Runs inside forked processes only.

Every run of a send function is one `mkdir` below the place's `effects` directory: one atomic system
call that no store makes, so that no injected fault can blur whether a message went out.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from send_once import Claimed, Ledger, RejectedSendError, Report, SendContext, Store, UncertainSendError, approve

BEGIN_MARK: Final = "/send-once-scenario-begins"
END_MARK: Final = "/send-once-scenario-ends"
FRESH_KEY: Final = "a key nobody has claimed"
BATCH: Final = ("b1", "b2", "b3", "b4", "b5")
CLAIM_PRESSURE: Final = "x" * 600


class Place(NamedTuple):
    """Where one scenario plays: a directory, and for Postgres an address and a table of its own."""

    directory: str
    store: str
    address: str = ""
    table: str = ""
    patience_seconds: float = 2.0
    """How long a store waits for a lock or server that an injected fault keeps from it."""


class Run(NamedTuple):
    """One run of a send function: for which attempt of which key, what became of it, and by whom."""

    key: str
    attempt: int
    kind: str
    actor: str


class Scenario(NamedTuple):
    """`prepare` makes the ledger as it was before; `act` is the operation that is killed or refused."""

    prepare: Callable[[Ledger, Sender], None]
    act: Callable[[Ledger, Sender], Mapping[str, str]]
    opens_missing: bool = False
    stores: tuple[str, ...] = ()


class Sender:
    """Makes send functions whose runs are recorded."""

    def __init__(self, directory: str, actor: str) -> None:
        self._effects, self._actor = os.path.join(directory, "effects"), actor

    def accepting(self) -> Callable[[SendContext], str]:
        return lambda context: self._record(context, "landed")

    def rejecting(self) -> Callable[[SendContext], str]:
        def send(context: SendContext) -> str:
            self._record(context, "rejected")
            raise RejectedSendError("550 no such user")

        return send

    def silent(self) -> Callable[[SendContext], str]:
        def send(context: SendContext) -> str:
            self._record(context, "landed")
            raise UncertainSendError("no reply to the final dot")

        return send

    def _record(self, context: SendContext, kind: str) -> str:
        name = "~".join((quote(context.key, safe=""), str(context.attempt), kind, self._actor, os.urandom(6).hex()))
        os.mkdir(os.path.join(self._effects, name))
        return name


def runs_in(directory: str | Path) -> list[Run]:
    """Every run of a send function so far."""
    names = (name.split("~") for name in os.listdir(os.path.join(directory, "effects")))
    return [Run(unquote(key), int(attempt), kind, actor) for key, attempt, kind, actor, _ in names]


def warm_up(store: str) -> None:
    """Import all that the store needs, so that no import is counted as part of an operation."""
    for name in _MODULES[store.partition(":")[0]]:
        import_module(name)


_MODULES: Final = {
    "control": ("crash.controls",),
    "file": ("send_once.stores.file",),
    "postgres": ("psycopg_pool", "send_once.stores.postgres"),
    "sqlite": ("sqlite3", "send_once.stores.sqlite"),
}


def open_store(place: Place) -> Store:
    """A new store object on the place's ledger."""
    patience_seconds = place.patience_seconds
    match place.store.partition(":")[0]:
        case "file":
            from send_once import FileStore

            return FileStore(file_path(place), lock_timeout_seconds=patience_seconds)
        case "sqlite":
            from send_once import SQLiteStore

            return SQLiteStore(file_path(place), timeout_seconds=patience_seconds)
        case "postgres":
            from send_once import PostgresStore

            return PostgresStore(place.address, table=place.table, timeout_seconds=patience_seconds)
        case "control":
            from crash.controls import open_control

            return open_control(place)
    raise LookupError(place.store)


def file_path(place: Place) -> str:
    return os.path.join(place.directory, "ledger.db" if place.store == "sqlite" else "ledger.jsonl")


def run(request: Mapping[str, Any]) -> object:
    """Do what the request of the launcher asks; the answer is JSON."""
    place = Place(*request["place"])
    scenario = SCENARIOS[request["scenario"]]
    if request["do"] == "prepare":
        return _prepare(place, scenario)
    if request["do"] == "act":
        return _act(place, scenario, request)
    return look(place)


def _prepare(place: Place, scenario: Scenario) -> Mapping[str, Sequence[object]]:
    os.makedirs(os.path.join(place.directory, "effects"), exist_ok=True)
    if scenario.opens_missing:
        return {}
    store = open_store(place)
    with Ledger(store) as ledger:
        ledger.once("another key", Sender(place.directory, "prepare").accepting())
        scenario.prepare(ledger, Sender(place.directory, "prepare"))
        return _states(ledger)


def _act(place: Place, scenario: Scenario, request: Mapping[str, Any]) -> Mapping[str, str]:
    """The operation; after an error once more in the same process, as a caller's retry would."""
    sender = Sender(place.directory, "victim")
    os.kill(os.getpid(), signal.SIGSTOP)
    if request.get("file_bytes_max") is not None:
        limit = int(request["file_bytes_max"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    os.access(BEGIN_MARK, os.F_OK)
    try:
        with Ledger(open_store(place)) as ledger:
            try:
                told = scenario.act(ledger, sender)
            except Exception as error:  # noqa: BLE001  # whatever the store raises is what the caller is told
                told = {"error": f"{type(error).__name__}: {error}"}
                told = {**told, **scenario.act(ledger, sender)}
    except Exception as error:  # noqa: BLE001  # the same, at opening, closing or the second time
        told = {"error": f"{type(error).__name__}: {error}"}
    os.access(END_MARK, os.F_OK)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return told


def look(place: Place) -> Mapping[str, Any]:
    """What a fresh process finds, and what happens to it when it tries to send each key again."""
    found: dict[str, Any] = {"trips": [], "first": {}, "runs": [], "next": {}, "after": {}, "fresh": ""}

    def attempt(what: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception as error:  # noqa: BLE001  # any failure to read is what is looked for
            found["trips"].append(f"{what}: {type(error).__name__}: {error}")
            return None

    ledger = attempt("open", lambda: Ledger(open_store(place)))
    if ledger is None:
        return found
    sender = Sender(place.directory, "next")
    found["first"] = attempt("list", lambda: _states(ledger)) or {}
    attempt("pending", ledger.pending)
    attempt("snapshot", lambda: getattr(ledger.store, "snapshot", list)())
    found["runs"] = runs_in(place.directory)

    def send_again(key: str) -> Any:
        return attempt(f"once({key})", lambda: ledger.once(key, sender.accepting()).outcome)

    for key in sorted({*found["first"], *(run.key for run in found["runs"])}):
        attempt("history", partial(ledger.history, key))
        found["next"][key] = send_again(key)
    found["fresh"] = send_again(FRESH_KEY)
    found["after"] = attempt("list after", lambda: _states(ledger)) or {}
    found["runs"] = runs_in(place.directory)
    attempt("close", ledger.close)
    return found


def _states(ledger: Ledger) -> dict[str, Sequence[object]]:
    """{key: [status, attempts]}; what `list` says must be what `get` says."""
    states: dict[str, Sequence[object]] = {}
    for entry in ledger.entries():
        if ledger.get(entry.key) != entry:
            raise AssertionError(f"list() and get() differ about {entry.key}")
        states[entry.key] = [entry.status.value, entry.attempts]
    return states


def _nothing(ledger: Ledger, sender: Sender) -> None:
    """The ledger holds one other key."""


def _failed(ledger: Ledger, sender: Sender) -> None:
    ledger.once("k", sender.rejecting())


def _sent(ledger: Ledger, sender: Sender) -> None:
    ledger.once("k", sender.accepting())


def _unknown(ledger: Ledger, sender: Sender) -> None:
    ledger.once("k", sender.silent())


def _claimed_only(ledger: Ledger, sender: Sender) -> None:
    ledger.claim("k")


def _all_states(ledger: Ledger, sender: Sender) -> None:
    _sent(ledger, sender)
    ledger.once("rejected", sender.rejecting())
    ledger.once("silent", sender.silent())
    ledger.claim("claimed")


def _once(ledger: Ledger, sender: Sender) -> dict[str, str]:
    return {"k": ledger.once("k", sender.accepting(), {"note": CLAIM_PRESSURE}).outcome}


def _once_rejected(ledger: Ledger, sender: Sender) -> dict[str, str]:
    return {"k": ledger.once("k", sender.rejecting()).outcome}


def _once_silent(ledger: Ledger, sender: Sender) -> dict[str, str]:
    return {"k": ledger.once("k", sender.silent()).outcome}


def _resolve(status: str) -> Callable[[Ledger, Sender], dict[str, str]]:
    return lambda ledger, sender: {"k": f"resolved {ledger.resolve('k', status, by='ana', note='asked').status.value}"}


def _read(ledger: Ledger, sender: Sender) -> dict[str, str]:
    for entry in ledger.entries():
        ledger.get(entry.key)
    ledger.pending()
    return {}


def _batch(ledger: Ledger, sender: Sender) -> dict[str, str]:
    send = sender.accepting()
    told: dict[str, str] = {}
    reports = []
    for claimed in ledger.claim_many(BATCH):
        if isinstance(claimed, Claimed):
            reports.append(Report(claimed, send(claimed.context)))
        elif not isinstance(claimed, Exception):
            told[claimed.key] = claimed.outcome
    return {**told, **{outcome.key: outcome.outcome for outcome in ledger.settle_many(reports)}}


def _dispatch(ledger: Ledger, sender: Sender) -> dict[str, str]:
    payload, facts = {"to": "ana@example.com"}, {"paid": False}
    approval = approve(payload=payload, facts=facts, ttl="12h", approved_by="ana")
    send = sender.accepting()
    outcome = ledger.dispatch(
        approval, key="k", payload=payload, send=lambda _payload, context: send(context), recheck=lambda: facts
    )
    return {"k": outcome.outcome}


def _compact(ledger: Ledger, sender: Sender) -> dict[str, str]:
    ledger.store.compact()  # type: ignore[attr-defined]  # the file store's
    return {}


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "once with a new key": Scenario(_nothing, _once),
    "once after a failure": Scenario(_failed, _once),
    "once for what was sent": Scenario(_sent, _once),
    "once, rejected": Scenario(_nothing, _once_rejected),
    "once, no reply": Scenario(_nothing, _once_silent),
    "resolve as sent": Scenario(_unknown, _resolve("sent")),
    "resolve as failed": Scenario(_claimed_only, _resolve("failed")),
    "opening an existing ledger": Scenario(_all_states, _read),
    "creating the ledger": Scenario(_nothing, _once, opens_missing=True),
    "dispatching": Scenario(_nothing, _dispatch),
    "a batch": Scenario(_nothing, _batch),
    "compacting": Scenario(_all_states, _compact, stores=("file",)),
}


def scenarios_for(store: str) -> list[str]:
    """The scenarios that the store can play."""
    return [name for name, scenario in SCENARIOS.items() if not scenario.stores or store in scenario.stores]
