"""What an exception says about the send: the rules.

Exceptions that really happened are in `test_certainty_real`, those of HTTP clients in `test_certainty_clients`.
"""

from __future__ import annotations

import errno
import http.client
import importlib
import importlib.util
import smtplib
import sys
import urllib.error
from collections.abc import Callable, Iterator
from email.message import Message
from typing import Any

import pytest

import send_once.errors
from send_once import (
    CERTAINTY_TABLE,
    InvalidInputError,
    Ledger,
    MemoryStore,
    RejectedSendError,
    ResultRefusedError,
    RetryLaterError,
    UncertainSendError,
    certainty_of,
)
from send_once.certainty import classifier

# What a send function says itself


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RejectedSendError("no such mailbox"), "failed"),
        (RetryLaterError(after=30), "failed"),
        (UncertainSendError("no answer"), "unknown"),
        (UncertainSendError(ConnectionRefusedError()), "unknown"),
        (type("Mine", (RejectedSendError,), {})("no"), "failed"),
        (type("Mine", (UncertainSendError,), {})("?"), "unknown"),
        (InvalidInputError("no payload", field="payload"), "failed"),
        (ResultRefusedError("status 500"), "unknown"),
        (ValueError("a bug before the call"), "failed"),
        (smtplib.SMTPException("something"), "unknown"),
        (http.client.HTTPException("something"), "unknown"),
        (smtplib.SMTPDataError(-1, b""), "unknown"),
        (smtplib.SMTPDataError(True, b""), "unknown"),
        (EOFError(), "unknown"),
        (BrokenPipeError(), "unknown"),
        (ConnectionAbortedError(), "unknown"),
        (OSError("without a number"), "failed"),
        (FileNotFoundError(errno.ENOENT, "no template"), "failed"),
        (PermissionError(errno.EACCES, "no"), "failed"),
        *((OSError(number, "network"), "unknown") for number in (errno.EHOSTUNREACH, errno.ENETDOWN, errno.EIO)),
        *((OSError(number, "network"), "unknown") for number in (errno.ENOTCONN, errno.ESHUTDOWN)),
    ],
    ids=repr,
)
def test_an_exception_is_known_by_its_class(error: Exception, expected: str) -> None:
    assert certainty_of(error) == expected


def test_a_http_error_without_a_body_is_judged_all_the_same() -> None:
    """On some Pythons looking for a missing attribute of such an error raises KeyError."""
    for status, expected in ((400, "failed"), (500, "unknown")):
        error = urllib.error.HTTPError("http://example.invalid", status, "", Message(), None)
        assert certainty_of(error) == expected


class Hostile(Exception):
    """Asking it for anything raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("verdict", ["by status", "by reply code", "look inside"])
def test_an_error_that_cannot_be_looked_at_is_unknown_where_it_must_be_looked_at(verdict: Any) -> None:
    classify = classifier({f"{__name__}.Hostile": verdict})
    assert classify(Hostile()) == "unknown"
    assert certainty_of(Hostile()) == "failed"


# Causes


def chained(error: Exception, *, cause: Exception | None = None, context: Exception | None = None) -> Exception:
    error.__context__ = context
    if cause is not None:
        error.__cause__ = cause
    return error


def raised_from_none() -> Exception:
    """As a client of a provider does it with its own timeout."""
    try:
        try:
            raise TimeoutError("read timed out")
        except TimeoutError:
            raise ValueError("ProviderError") from None
    except ValueError as error:
        return error


def _deep(levels: int) -> Exception:
    error: Exception = TimeoutError()
    for _ in range(levels):
        error = chained(ValueError(), cause=error)
    return error


def _loop() -> Exception:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


CAUSED: dict[str, tuple[Exception, str]] = {
    "a wrapper of a timeout": (chained(ValueError(), cause=TimeoutError()), "unknown"),
    "raised while a timeout was handled": (chained(ValueError(), context=TimeoutError()), "unknown"),
    "a timeout that `from None` hides": (raised_from_none(), "unknown"),
    "a cause beside the context": (chained(ValueError(), cause=KeyError(), context=TimeoutError()), "unknown"),
    "a wrapper of a wrapper": (chained(ValueError(), cause=chained(KeyError(), cause=EOFError())), "unknown"),
    "a thousand wrappers": (_deep(1000), "unknown"),
    "a wrapper of what is uncertain": (chained(ValueError(), cause=UncertainSendError("?")), "unknown"),
    "a group with a timeout": (ExceptionGroup("tasks", [ValueError(), TimeoutError()]), "unknown"),
    "a group in a group": (ExceptionGroup("a", [ExceptionGroup("b", [ConnectionResetError()])]), "unknown"),
    "a wrapper of a group": (chained(ValueError(), cause=ExceptionGroup("a", [EOFError()])), "unknown"),
    "a group of refusals is not known to be one": (ExceptionGroup("a", [RejectedSendError("no")]), "failed"),
    "a loop of causes": (_loop(), "failed"),
    "causes nobody knows": (chained(ValueError(), cause=KeyError(), context=TypeError()), "failed"),
    "who says rejected is believed whatever the cause": (
        chained(RejectedSendError("no"), cause=TimeoutError()),
        "failed",
    ),
}


@pytest.mark.parametrize("name", CAUSED)
def test_an_error_the_table_does_not_know_is_unknown_if_any_cause_is(name: str) -> None:
    error, expected = CAUSED[name]
    assert certainty_of(error) == expected


def test_a_wrapper_is_never_failed_on_the_word_of_its_cause() -> None:
    """Where what is unclassified is unknown, a refused connection inside does not make it failed."""
    wrapper = chained(ValueError(), cause=ConnectionRefusedError())
    assert certainty_of(wrapper, unclassified="unknown") == "unknown"


def test_unclassified_errors_are_what_the_ledger_was_told() -> None:
    def send() -> None:
        raise KeyError("id")

    assert Ledger(MemoryStore()).once("k", send).outcome == "failed"
    assert Ledger(MemoryStore(), unclassified="unknown").once("k", send).outcome == "unknown"
    assert Ledger(MemoryStore(), unclassified="unknown").once("k", _refusing).outcome == "failed"
    with pytest.raises(InvalidInputError, match="'failed' or 'unknown'") as refused:
        Ledger(MemoryStore(), unclassified="perhaps")  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.field == "unclassified"


def _refusing() -> None:
    raise ConnectionRefusedError


# A second copy of the package


@pytest.fixture
def copy_of(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Any]]:
    """`copy_of(name)`: the module of errors, loaded a second time under that name."""
    loaded: list[str] = []

    def load(name: str) -> Any:
        spec = importlib.util.spec_from_file_location(name, send_once.errors.__file__)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        loaded.append(name)
        return module

    yield load
    assert all(sys.modules.get(name) in (None, send_once.errors) for name in loaded)


@pytest.mark.parametrize("name", ["send_once.errors", "app._vendor.send_once.errors"])
def test_the_errors_of_a_second_copy_of_the_package_mean_the_same(name: str, copy_of: Callable[[str], Any]) -> None:
    copy = copy_of(name)
    assert copy.UncertainSendError is not UncertainSendError
    assert certainty_of(copy.UncertainSendError("?"), unclassified="failed") == "unknown"
    for refused in (copy.RejectedSendError("no"), copy.RetryLaterError(after=1)):
        assert certainty_of(refused, unclassified="unknown") == "failed"


# The caller's own table


class QuotaExceeded(Exception):
    pass


class DailyQuotaExceeded(QuotaExceeded):
    pass


MINE = f"{__name__}.QuotaExceeded"


def test_the_callers_table_stands_over_the_one_of_the_library() -> None:
    classify = classifier({MINE: "failed", "builtins.TimeoutError": "failed"}, unclassified="unknown")
    assert classify(QuotaExceeded()) == "failed"
    assert classify(DailyQuotaExceeded()) == "failed"
    assert classify(TimeoutError()) == "failed"
    assert classify(ConnectionResetError()) == "unknown"
    assert certainty_of(TimeoutError()) == "unknown"


def test_the_nearest_class_decides() -> None:
    classify = classifier({MINE: "failed", f"{__name__}.DailyQuotaExceeded": "unknown"})
    assert (classify(QuotaExceeded()), classify(DailyQuotaExceeded())) == ("failed", "unknown")


@pytest.mark.parametrize(
    "table", [{MINE: "Unknown"}, {MINE: None}, {"QuotaExceeded": "unknown"}, {QuotaExceeded: "unknown"}, [MINE], "x"]
)
def test_a_row_that_would_be_passed_over_is_refused_when_the_ledger_is_made(table: Any) -> None:
    """A row meant to say unknown that says nothing would allow a second send."""
    with pytest.raises(InvalidInputError) as refused:
        Ledger(MemoryStore(), certainty=table)
    assert refused.value.field == "certainty"


def test_every_name_of_the_standard_library_in_the_table_exists() -> None:
    ours = ("builtins", "socket", "ssl", "subprocess", "http", "urllib", "smtplib", "asyncio", "xmlrpc", "send_once")
    for name in CERTAINTY_TABLE:
        module, _, cls = name.rpartition(".")
        if module.partition(".")[0] in ours:
            found = getattr(importlib.import_module(module), cls)
            assert issubclass(found, Exception)
            assert f"{found.__module__}.{found.__qualname__}" == name
