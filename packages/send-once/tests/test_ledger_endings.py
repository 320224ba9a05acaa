"""How a send ends: what its results and its errors become in the ledger, and what can never be recorded."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from send_once import (
    Failed,
    FileStore,
    Ledger,
    MemoryStore,
    RejectedSendError,
    ResultRefusedError,
    RetryLaterError,
    Sent,
    SQLiteStore,
    Status,
    Unknown,
)
from send_once.moves import ERROR_TEXT_MAX_CHARS, PROVIDER_ID_MAX_CHARS
from sending import Outbox, claimed_in, entry_in, raising
from servers.http_replies import answering, reply

# What a send returns


@dataclass
class WithId:
    id: object = None
    sid: object = None


@pytest.mark.parametrize(
    ("result", "provider_id"),
    [
        ("m1", "m1"),
        ("", None),
        (None, None),
        (7, None),
        (["m1"], None),
        (b"m1", None),
        ({"id": "m1"}, "m1"),
        ({"id": "m1", "message_id": "m2"}, "m2"),
        ({"provider_id": "m0", "message_id": "m2"}, "m0"),
        ({"messageId": "", "id": "m1"}, "m1"),
        ({"id": 7, "sid": "s1"}, "s1"),
        ({"id": 7}, None),
        (WithId(id="m1"), "m1"),
        (WithId(sid="s1"), "s1"),
        (WithId(id=WithId(id="inner")), None),
        (SimpleNamespace(message_id="m1", id="other"), "m1"),
        ({"id": "m" * 50_000}, "m" * PROVIDER_ID_MAX_CHARS),
        ("m" * 50_000, "m" * PROVIDER_ID_MAX_CHARS),
        ({"id": "a\x00\ud800"}, "a\x00\ud800"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_the_providers_id_is_found_in_what_send_returned(result: object, provider_id: str | None) -> None:
    outcome = Ledger(MemoryStore()).once("k", lambda: result)
    assert isinstance(outcome, Sent)
    assert outcome.result is result
    assert outcome.entry.provider_id == provider_id


class RaisingProperty:
    @property
    def id(self) -> str:
        raise RuntimeError("not loaded")

    sid = "s1"


class RaisingMapping(Mapping[str, str]):
    def __getitem__(self, name: str) -> str:
        raise RuntimeError("not loaded")

    def __iter__(self) -> Any:
        raise RuntimeError("not loaded")

    def __len__(self) -> int:
        return 0


def test_a_result_that_raises_when_it_is_looked_at_is_a_sent_message_all_the_same() -> None:
    for result, provider_id in ((RaisingProperty(), "s1"), (RaisingMapping(), None)):
        outcome = Ledger(MemoryStore()).once("k", lambda result=result: result)
        assert isinstance(outcome, Sent)
        assert outcome.entry.provider_id == provider_id


# HTTP responses as results


@dataclass
class Response:
    """As httpx and requests have it."""

    status_code: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class AiohttpResponse:
    status: int
    headers: dict[str, str] = field(default_factory=dict)


def test_a_real_response_with_status_500_is_not_taken_for_a_sent_message() -> None:
    store = MemoryStore()

    def with_http_client() -> object:
        with answering(reply("500 Internal Server Error")) as address:
            connection = http.client.HTTPConnection(address.split("/")[2], timeout=30)
            connection.request("POST", "/messages", b"body")
            response = connection.getresponse()
            response.read()
            connection.close()
            return response

    with pytest.raises(ResultRefusedError, match="status 500") as refused:
        Ledger(store).once("k", with_http_client)
    assert isinstance(refused.value.result, http.client.HTTPResponse)
    assert entry_in(store).status is Status.PENDING
    assert entry_in(store).uncertain
    assert Ledger(store).once("k", Outbox()).outcome == "unknown"


def test_a_urllib_error_that_is_returned_instead_of_raised_is_not_taken_for_a_sent_message() -> None:
    def send() -> object:
        with answering(reply("503 Service Unavailable")) as address:
            try:
                return urllib.request.urlopen(address, b"body", 30)
            except urllib.error.HTTPError as error:
                error.close()
                return error

    with pytest.raises(ResultRefusedError, match="status 503"):
        Ledger(MemoryStore()).once("k", send)


@pytest.mark.parametrize("make", [Response, AiohttpResponse])
@pytest.mark.parametrize("status", [400, 404, 429, 500, 599])
def test_a_response_with_an_error_status_leaves_the_entry_pending(make: Callable[[int], object], status: int) -> None:
    store = MemoryStore()
    with pytest.raises(ResultRefusedError, match=f"status {status}"):
        Ledger(store).once("k", lambda: make(status))
    assert entry_in(store).status is Status.PENDING
    ledger = Ledger(MemoryStore())
    with pytest.raises(ResultRefusedError):
        ledger.settle(claimed_in(ledger), make(status))


@pytest.mark.parametrize(
    "result",
    [
        Response(200),
        Response(202),
        AiohttpResponse(204),
        {"status": 500, "headers": {}},
        SimpleNamespace(status=500),
        SimpleNamespace(status="500", headers={}),
        SimpleNamespace(status=True, headers={}),
        SimpleNamespace(status_code=200, status=500, headers={}),
    ],
    ids=repr,
)
def test_what_is_no_response_with_an_error_status_is_a_sent_message(result: object) -> None:
    assert Ledger(MemoryStore()).once("k", lambda: result).outcome == "sent"


# What a send raises


class WithoutText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (WithoutText(), "WithoutText"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 1_000_000), "x" * (ERROR_TEXT_MAX_CHARS - 1) + "…"),
        (ValueError("\x00\x1b[2J\ud800"), "\x00\x1b[2J\ud800"),
        (KeyError("id"), "'id'"),
    ],
    ids=lambda value: repr(value)[:30] if not isinstance(value, WithoutText) else "no text",
)
@pytest.mark.parametrize("uncertain", [False, True])
def test_any_exception_can_be_recorded(error: Exception, text: str, uncertain: bool) -> None:
    store = MemoryStore()
    outcome = Ledger(store, unclassified="unknown" if uncertain else "failed").once("k", raising(error))
    assert isinstance(outcome, Failed | Unknown)
    assert outcome.error is error
    assert outcome.outcome == ("unknown" if uncertain else "failed")
    assert (entry_in(store).error, entry_in(store).uncertain) == (text, uncertain)


def test_a_huge_error_and_a_huge_id_fit_into_every_store(tmp_path: Path) -> None:
    for store in (FileStore(tmp_path / "l.jsonl"), SQLiteStore(tmp_path / "l.db")):
        assert Ledger(store).once("id", lambda: "m" * 10_000_000).outcome == "sent"
        assert Ledger(store).once("error", raising(ValueError("x" * 10_000_000))).outcome == "failed"
        store.close()


def test_a_provider_that_asks_to_wait_is_heard() -> None:
    ledger = Ledger(MemoryStore())
    later = ledger.once("k", raising(RetryLaterError("slow down", after=30)))
    assert isinstance(later, Failed)
    assert later.retry_after_seconds == 30
    plain = ledger.once("k", raising(RejectedSendError("no")))
    assert isinstance(plain, Failed)
    assert plain.retry_after_seconds is None


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_being_told_to_stop_in_the_middle_of_a_send_leaves_it_unknown(stop: BaseException) -> None:
    store, outbox = MemoryStore(), Outbox()
    with pytest.raises(type(stop)) as raised:
        Ledger(store).once("k", raising(stop))
    assert raised.value is stop
    assert entry_in(store).status is Status.PENDING
    assert Ledger(store).once("k", outbox).outcome == "unknown"
    assert outbox.sent == []


def test_a_stop_iteration_raised_by_a_send_is_its_error_and_not_the_end() -> None:
    outcome = Ledger(MemoryStore()).once("k", lambda: next(iter(())))
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, StopIteration)
