"""Exceptions that nobody listed, thrown by what really happens to a send: time limits, killed processes,
a provider's 5xx. Taking one of them for a refusal sends the message again."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from pooled import send_and_answer_what_cannot_be_handed_back, send_then_die
from send_once import Ledger, MemoryStore, certainty_of


def refuse_nothing(error: BaseException) -> Callable[[], object]:
    def send() -> object:
        raise error

    return send


def named(module: str, name: str, **members: object) -> Exception:
    """An exception as a library has it that is not installed here."""
    error: Exception = type(name, (Exception,), {"__module__": module, **members})("it")
    return error


def test_a_send_in_a_pool_whose_worker_is_killed_is_not_repeated(tmp_path: Path) -> None:
    outbox, ledger = tmp_path / "outbox", Ledger(MemoryStore())
    spawn = multiprocessing.get_context("spawn")

    def send() -> None:
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
            pool.submit(send_then_die, str(outbox)).result()

    assert [ledger.once("key", send).outcome for _ in range(2)] == ["unknown", "unknown"]
    assert outbox.read_text() == "sent\n"


def test_a_send_in_a_pool_whose_answer_is_lost_on_the_way_back_is_not_repeated(tmp_path: Path) -> None:
    outbox, ledger = tmp_path / "outbox", Ledger(MemoryStore())

    def send() -> object:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(send_and_answer_what_cannot_be_handed_back, (str(outbox),))

    assert [ledger.once("key", send).outcome for _ in range(2)] == ["unknown", "unknown"]
    assert outbox.read_text() == "sent\n"


@pytest.mark.parametrize("ended_by", ["kill -9 $$", "sh -c 'kill -9 $$'; exit $?"])
def test_a_command_that_was_killed_after_it_sent_is_not_run_again(tmp_path: Path, ended_by: str) -> None:
    outbox, ledger = tmp_path / "outbox", Ledger(MemoryStore())

    def send() -> None:
        subprocess.run(["sh", "-c", f"echo sent >>'{outbox}'; {ended_by}"], check=True)  # noqa: S603, S607  # our own text

    assert [ledger.once("key", send).outcome for _ in range(2)] == ["unknown", "unknown"]
    assert outbox.read_text() == "sent\n"


def test_a_command_that_refuses_may_be_run_again() -> None:
    refused = subprocess.CalledProcessError(75, ["sendmail"])
    assert certainty_of(refused) == "failed"
    assert certainty_of(refused, unclassified="unknown") == "unknown"


class SoftTimeLimitExceeded(Exception):
    """As a job queue raises it from a signal handler, wherever the job is."""


def test_a_job_queues_time_limit_in_the_middle_of_a_send_leaves_it_unknown() -> None:
    ledger, calls = Ledger(MemoryStore()), []

    def limit(_number: int, _frame: object) -> None:
        raise SoftTimeLimitExceeded

    def send() -> None:
        calls.append("sent")
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, limit)
    try:
        assert [ledger.once("key", send).outcome for _ in range(2)] == ["unknown", "unknown"]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert calls == ["sent"]


TIME_LIMITS = (
    named("billiard.exceptions", "SoftTimeLimitExceeded"),
    named("rq.timeouts", "JobTimeoutException"),
    named("redis.exceptions", "TimeoutError"),
    named("telegram.error", "TimedOut"),
    named("google.api_core.exceptions", "DeadlineExceeded"),
)


@dataclass
class Response:
    status_code: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)


SERVER_ERRORS = {
    "on the exception": named("googleapiclient.errors", "HttpError", status_code=503),
    "under another name": named("stripe", "APIError", http_status=500),
    "as an enumeration": named("google.api_core.exceptions", "ServiceUnavailable", code=HTTPStatus.BAD_GATEWAY),
    "on the response": named("slack_sdk.errors", "SlackApiError", response=Response(502)),
    "on a mapping": named("botocore.exceptions", "ClientError", response={"ResponseMetadata": {"HTTPStatusCode": 500}}),
    "a conflict": named("some.client", "ApiError", status=409),
    "a request that took too long": named("some.client", "ApiError", status=408),
}
LOST_CONNECTIONS = (
    named("some.queue", "ConnectionClosedByBroker"),
    named("twisted.internet.error", "ConnectionLost"),
    named("openai", "APIConnectionError"),
    named("tornado.iostream", "StreamClosedError"),
    named("telegram.error", "NetworkError"),
    named("grpc", "RpcError"),
)
LOST_WORKER = named("billiard.exceptions", "WorkerLostError")


@pytest.mark.parametrize(
    "error", [*TIME_LIMITS, *SERVER_ERRORS.values(), *LOST_CONNECTIONS, LOST_WORKER], ids=lambda e: type(e).__name__
)
def test_what_an_unlisted_exception_shows_is_believed(error: Exception) -> None:
    ledger = Ledger(MemoryStore())
    assert ledger.once("key", refuse_nothing(error)).outcome == "unknown"
    wrapped = RuntimeError("the send failed")
    wrapped.__cause__ = error
    assert ledger.once("wrapped", refuse_nothing(wrapped)).outcome == "unknown"


def test_a_client_that_could_not_connect_has_not_sent_though_its_error_is_named_after_a_connection() -> None:
    error = named("openai", "APIConnectionError")
    error.__cause__ = ConnectionRefusedError()
    assert certainty_of(error) == "failed"
    error.__cause__.__cause__ = ConnectionResetError()
    assert certainty_of(error) == "unknown"


def test_a_status_that_refuses_is_believed_where_it_is_googles() -> None:
    refused = named("google.api_core.exceptions", "GoogleAPICallError", code=HTTPStatus.BAD_REQUEST)
    assert certainty_of(refused, unclassified="unknown") == "failed"


@pytest.mark.parametrize(
    "error",
    [
        named("googleapiclient.errors", "HttpError", status_code=400),
        named("botocore.exceptions", "ClientError", response={"ResponseMetadata": {"HTTPStatusCode": 400}}),
        named("some.smtp", "Refused", code=550),
        named("some.client", "ApiError", status="rejected", response=None),
        named("some.client", "ApiError", response={"ResponseMetadata": "none"}),
    ],
    ids=lambda e: type(e).__name__,
)
def test_an_unlisted_exception_that_shows_nothing_of_the_kind_is_what_the_ledger_was_told(error: Exception) -> None:
    assert certainty_of(error) == "failed"
    assert certainty_of(error, unclassified="unknown") == "unknown"


def test_an_answer_that_cannot_be_read_is_an_answer() -> None:
    outcome = Ledger(MemoryStore()).once("key", lambda: json.loads("<html>accepted</html>"))
    assert outcome.outcome == "unknown"


def test_the_callers_own_row_stands_over_what_an_exception_shows() -> None:
    error = named("psycopg_pool", "PoolTimeout")
    ledger = Ledger(MemoryStore(), certainty={"psycopg_pool.PoolTimeout": "failed"})
    assert ledger.once("key", refuse_nothing(error)).outcome == "failed"


class Raising(Exception):
    """Raises whatever it is asked for."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


ODD: dict[str, Callable[[], Exception]] = {
    "raises for every member": Raising,
    "an errno that is no number": lambda: OSError([], "odd"),
    "no cause to be had": lambda: named("module", "Odd", __cause__=property(lambda _self: 1 / 0)),
    "no members to be had": lambda: named("module", "Odd", response=property(lambda _self: 1 / 0)),
    "no module": lambda: type("NoModule", (Exception,), {"__module__": None})("it"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_exception_that_cannot_be_looked_at_is_recorded_all_the_same(name: str) -> None:
    ledger = Ledger(MemoryStore())
    outcome = ledger.once("key", refuse_nothing(ODD[name]()))
    assert outcome.outcome in ("failed", "unknown")
    assert outcome.entry.error
