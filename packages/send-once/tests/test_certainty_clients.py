"""What the exceptions of HTTP clients say about the send.

Of httpx, aiohttp, aiosmtplib and botocore these are look-alikes: classes of the same module, name and
ancestors, because the table knows exceptions by name. requests and urllib3 are the real ones, which the
tools of this repository bring along, against a real server.
"""

from __future__ import annotations

import socket
import ssl
import urllib.error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
import urllib3

from mail.samples import server_context
from send_once import CERTAINTY_TABLE, UncertainSendError, certainty_of
from servers.http_replies import CLOSED, HALF_REPLY, RESET, SILENT, End, answering, reply
from servers.ports import free_port

CLIENT_TIMEOUT_SECONDS = 0.2
"""Only for servers that never answer."""


def lookalike(module: str, *names: str, also: tuple[type[Exception], ...] = ()) -> type[Exception]:
    """An exception class of that name in that module; the names after it are its ancestors."""
    made: tuple[type[Exception], ...] = also or (Exception,)
    for name in reversed(names):
        made = (type(name, made, {"__module__": module, "__qualname__": name}),)
    return made[0]


@dataclass
class Response:
    status_code: int
    headers: Mapping[str, str] = field(default_factory=dict)


HTTP_ERROR = ("RequestError", "HTTPError")
TRANSPORT = ("TransportError", *HTTP_ERROR)

HTTPX: dict[tuple[str, ...], str] = {
    ("ConnectError", "NetworkError", *TRANSPORT): "failed",
    ("ConnectTimeout", "TimeoutException", *TRANSPORT): "failed",
    ("PoolTimeout", "TimeoutException", *TRANSPORT): "failed",
    ("UnsupportedProtocol", *TRANSPORT): "failed",
    ("LocalProtocolError", "ProtocolError", *TRANSPORT): "failed",
    ("ProxyError", *TRANSPORT): "failed",
    ("InvalidURL",): "failed",
    ("ReadTimeout", "TimeoutException", *TRANSPORT): "unknown",
    ("WriteTimeout", "TimeoutException", *TRANSPORT): "unknown",
    ("ReadError", "NetworkError", *TRANSPORT): "unknown",
    ("WriteError", "NetworkError", *TRANSPORT): "unknown",
    ("CloseError", "NetworkError", *TRANSPORT): "unknown",
    ("RemoteProtocolError", "ProtocolError", *TRANSPORT): "unknown",
    ("DecodingError", *HTTP_ERROR): "unknown",
    ("TooManyRedirects", *HTTP_ERROR): "unknown",
    ("StreamConsumed", "StreamError", "RuntimeError"): "unknown",
}

CLIENT_CONNECTOR = ("ClientConnectorError", "ClientOSError", "ClientConnectionError", "ClientError")
SERVER_TIMEOUT = ("ServerTimeoutError", "ServerConnectionError", "ClientConnectionError", "ClientError")
AIOHTTP: dict[tuple[str, ...], str] = {
    CLIENT_CONNECTOR: "failed",
    ("ClientConnectorDNSError", *CLIENT_CONNECTOR): "failed",
    ("ClientConnectorCertificateError", "ClientSSLError", *CLIENT_CONNECTOR): "failed",
    ("ConnectionTimeoutError", *SERVER_TIMEOUT): "failed",
    ("InvalidURL", "ClientError"): "failed",
    ("SocketTimeoutError", *SERVER_TIMEOUT): "unknown",
    ("ServerDisconnectedError", "ServerConnectionError", "ClientConnectionError", "ClientError"): "unknown",
    ("ClientOSError", "ClientConnectionError", "ClientError"): "unknown",
    ("ClientPayloadError", "ClientError"): "unknown",
}

SMTP_RESPONSE = ("SMTPResponseException", "SMTPException")
AIOSMTPLIB: dict[tuple[str, ...], str] = {
    ("SMTPConnectTimeoutError", "SMTPTimeoutError", "SMTPConnectError", "SMTPException"): "failed",
    ("SMTPHeloError", *SMTP_RESPONSE): "failed",
    ("SMTPAuthenticationError", *SMTP_RESPONSE): "failed",
    ("SMTPNotSupported", "SMTPException"): "failed",
    ("SMTPSenderRefused", *SMTP_RESPONSE): "failed",
    ("SMTPRecipientRefused", *SMTP_RESPONSE): "failed",
    ("SMTPRecipientsRefused", "SMTPException"): "failed",
    ("SMTPReadTimeoutError", "SMTPTimeoutError", "SMTPException"): "unknown",
    ("SMTPServerDisconnected", "SMTPException"): "unknown",
    ("SMTPDataError", *SMTP_RESPONSE): "unknown",
}

BOTO_CONNECTION = ("ConnectionError", "BotoCoreError")
BOTOCORE: dict[tuple[str, ...], str] = {
    ("EndpointConnectionError", *BOTO_CONNECTION): "failed",
    ("ConnectTimeoutError", *BOTO_CONNECTION): "failed",
    ("ParamValidationError", "BotoCoreError"): "failed",
    ("NoCredentialsError", "BotoCoreError"): "failed",
    ("ReadTimeoutError", "HTTPClientError", "BotoCoreError"): "unknown",
    ("ConnectionClosedError", "HTTPClientError", "BotoCoreError"): "unknown",
    ("ConnectionError", "BotoCoreError"): "unknown",
}

LOOKALIKES = [
    *((package, names, verdict) for package in ("httpx", "httpx2") for names, verdict in HTTPX.items()),
    *(("aiohttp.client_exceptions", names, verdict) for names, verdict in AIOHTTP.items()),
    *(("aiosmtplib.errors", names, verdict) for names, verdict in AIOSMTPLIB.items()),
    *(("botocore.exceptions", names, verdict) for names, verdict in BOTOCORE.items()),
]


@pytest.mark.parametrize(("module", "names", "expected"), LOOKALIKES, ids=lambda value: str(value)[:60])
def test_an_exception_of_a_client_is_known_by_its_name(module: str, names: tuple[str, ...], expected: str) -> None:
    assert certainty_of(lookalike(module, *names)("...")) == expected


def test_a_connection_that_timed_out_is_failed_although_its_ancestor_is_a_timeout() -> None:
    timeout = lookalike("aiohttp.client_exceptions", "ConnectionTimeoutError", *SERVER_TIMEOUT, also=(TimeoutError,))
    assert certainty_of(timeout()) == "failed"
    assert certainty_of(lookalike("app.errors", "Timeout", also=(TimeoutError,))()) == "unknown"


STATUSES = {400: "failed", 404: "failed", 422: "failed", 429: "failed", 408: "unknown", 409: "unknown", 500: "unknown"}


@pytest.mark.parametrize(("status", "expected"), [*STATUSES.items(), (200, "unknown"), (302, "unknown")])
@pytest.mark.parametrize("package", ["httpx", "httpx2", "aiohttp"])
def test_a_status_error_is_judged_by_its_status(package: str, status: int, expected: str) -> None:
    assert certainty_of(_status_error(package, status, {"Content-Type": "application/json"})) == expected
    assert certainty_of(_status_error(package, status, {})) == expected
    assert certainty_of(_status_error(package, status, {"content-type": "TEXT/HTML"})) == "unknown"


def _status_error(package: str, status: int, headers: Mapping[str, str]) -> Exception:
    if package == "aiohttp":
        error: Any = lookalike("aiohttp.client_exceptions", "ClientResponseError", "ClientError")()
        error.status, error.headers = status, headers
    else:
        error = lookalike(package, "HTTPStatusError", "HTTPError")()
        error.response = Response(status, headers)
    return error  # type: ignore[no-any-return]  # an exception with attributes of its own


def test_a_status_error_that_carries_no_status_is_unknown() -> None:
    assert certainty_of(lookalike("httpx", "HTTPStatusError", "HTTPError")()) == "unknown"


@pytest.mark.parametrize(("code", "expected"), [(450, "failed"), (554, "failed"), (250, "unknown"), (-1, "unknown")])
def test_a_refused_message_of_aiosmtplib_is_judged_by_its_reply_code(code: int, expected: str) -> None:
    error: Any = lookalike("aiosmtplib.errors", "SMTPDataError", *SMTP_RESPONSE)()
    error.code = code
    assert certainty_of(error) == expected


def test_a_client_that_hides_the_servers_error_is_seen_through() -> None:
    """As a provider's client does that raises its own error with `__cause__` set to None."""

    def error_of(status: int) -> Exception:
        try:
            try:
                raise urllib.error.HTTPError("http://provider.invalid", status, "", Any, None)  # type: ignore[arg-type]  # no headers are needed
            except urllib.error.HTTPError:
                error = lookalike("provider.exceptions", "ProviderError")()
                error.__cause__ = None
                raise error  # noqa: B904  # that is how it hides it
        except Exception as raised:
            return raised

    assert certainty_of(error_of(500)) == "unknown"
    assert certainty_of(error_of(400)) == "failed"


# requests and urllib3, really


def with_requests(end: End, **settings: Any) -> Callable[[], object]:
    def send() -> object:
        with answering(end, tls=settings.pop("tls", None)) as address:
            response = requests.post(address, b"body", **{"timeout": 30, **settings})
            response.raise_for_status()
            return response

    return send


def with_urllib3(end: End, **settings: Any) -> Callable[[], object]:
    def send() -> object:
        with answering(end, tls=settings.pop("tls", None)) as address, urllib3.PoolManager() as pool:
            return pool.request("POST", address, body=b"body", **{"timeout": 30, **settings})

    return send


def to_nobody(post: Callable[..., object], **settings: Any) -> Callable[[], object]:
    return lambda: post(url=f"http://127.0.0.1:{free_port()}/", **settings)


def urllib3_post(url: str, **settings: Any) -> object:
    with urllib3.PoolManager() as pool:
        return pool.request("POST", url, **settings)


def to_a_server_that_takes_no_connection(post: Callable[[str], object]) -> Callable[[], object]:
    """Its queue of connections is full, so that connecting times out."""

    def send() -> object:
        with socket.socket() as listener, socket.socket() as waiting, socket.socket() as too_many:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            address = listener.getsockname()
            waiting.connect(address)
            too_many.setblocking(False)
            too_many.connect_ex(address)
            return post(f"http://127.0.0.1:{address[1]}/")

    return send


def slow_to_connect(url: str) -> object:
    return requests.post(url, b"body", timeout=(CLIENT_TIMEOUT_SECONDS, 30))


HTML = reply("403 Forbidden", b"<html>", "text/html")

REAL: dict[str, tuple[Callable[[], object], str, str]] = {
    "refused": (to_nobody(requests.post), "ConnectionError", "failed"),
    "no such name": (lambda: requests.post("http://nonexistent.invalid/"), "ConnectionError", "failed"),
    "no connection in time": (to_a_server_that_takes_no_connection(slow_to_connect), "ConnectTimeout", "failed"),
    "no scheme": (lambda: requests.post("example.invalid"), "MissingSchema", "failed"),
    "an odd scheme": (lambda: requests.post("gopher://example.invalid"), "InvalidSchema", "failed"),
    "no host": (lambda: requests.post("http://"), "InvalidURL", "failed"),
    "nobody vouches": (with_requests(reply("200 OK"), tls=server_context()), "SSLError", "failed"),
    "reset": (with_requests(RESET), "ConnectionError", "unknown"),
    "closed": (with_requests(CLOSED), "ConnectionError", "unknown"),
    "half a reply": (with_requests(HALF_REPLY), "ChunkedEncodingError", "unknown"),
    "silent": (with_requests(SILENT, timeout=CLIENT_TIMEOUT_SECONDS), "ReadTimeout", "unknown"),
    "no HTTP": (with_requests(End(b"hello\r\n\r\n")), "ConnectionError", "unknown"),
    "400": (with_requests(reply("400 Bad Request")), "HTTPError", "failed"),
    "429": (with_requests(reply("429 Too Many Requests")), "HTTPError", "failed"),
    "408": (with_requests(reply("408 Request Timeout")), "HTTPError", "unknown"),
    "409": (with_requests(reply("409 Conflict")), "HTTPError", "unknown"),
    "500": (with_requests(reply("500 Internal Server Error")), "HTTPError", "unknown"),
    "a page": (with_requests(HTML), "HTTPError", "unknown"),
    "urllib3: refused": (to_nobody(urllib3_post), "MaxRetryError", "failed"),
    "urllib3: refused, not retried": (to_nobody(urllib3_post, retries=False), "NewConnectionError", "failed"),
    "urllib3: no such name": (lambda: urllib3_post("http://nonexistent.invalid/"), "MaxRetryError", "failed"),
    "urllib3: no such name, once": (
        lambda: urllib3_post("http://nonexistent.invalid/", retries=False),
        "NameResolutionError",
        "failed",
    ),
    "urllib3: no host": (lambda: urllib3_post("http://[/"), "LocationParseError", "failed"),
    "urllib3: nobody vouches": (with_urllib3(reply("200 OK"), tls=server_context()), "MaxRetryError", "failed"),
    "urllib3: no connection in time": (
        to_a_server_that_takes_no_connection(lambda url: urllib3_post(url, timeout=0.2, retries=False)),
        "ConnectTimeoutError",
        "failed",
    ),
    "urllib3: reset": (with_urllib3(RESET), "ProtocolError", "unknown"),
    "urllib3: closed": (with_urllib3(CLOSED), "ProtocolError", "unknown"),
    "urllib3: half a reply": (with_urllib3(HALF_REPLY), "ProtocolError", "unknown"),
    "urllib3: silent": (with_urllib3(SILENT, timeout=CLIENT_TIMEOUT_SECONDS), "ReadTimeoutError", "unknown"),
}


@pytest.mark.parametrize("name", REAL)
def test_an_exception_that_requests_or_urllib3_really_raised_is_taken_for_what_it_says(name: str) -> None:
    send, kind, expected = REAL[name]
    with pytest.raises(Exception) as raised:
        send()
    assert type(raised.value).__name__ == kind, repr(raised.value)
    assert certainty_of(raised.value) == expected


def test_a_wrapper_with_a_refused_and_a_dropped_connection_inside_is_unknown() -> None:
    refused, dropped = ConnectionRefusedError(), ConnectionResetError()
    assert certainty_of(requests.ConnectionError(refused)) == "failed"
    assert certainty_of(requests.ConnectionError(dropped)) == "unknown"
    assert certainty_of(requests.ConnectionError(refused, dropped)) == "unknown"
    assert certainty_of(requests.ConnectionError("says nothing")) == "unknown"
    assert certainty_of(requests.exceptions.SSLError(ssl.SSLCertVerificationError())) == "failed"


def test_every_row_of_the_table_about_a_client_decides_one_of_these() -> None:
    decided = {_decided_by(f"{module}.{name}" for name in names) for module, names, _ in LOOKALIKES}
    decided |= {f"{package}.HTTPStatusError" for package in ("httpx", "httpx2")}
    decided |= {"aiohttp.client_exceptions.ClientResponseError"}
    clients = ("httpx", "httpx2", "aiohttp", "aiosmtplib", "botocore")
    rows = {name for name in CERTAINTY_TABLE if name.partition(".")[0] in clients}
    assert rows - decided == set()


def _decided_by(names: Any) -> str:
    return next((name for name in names if name in CERTAINTY_TABLE), "")


def test_what_a_client_wraps_in_an_uncertain_error_stays_uncertain() -> None:
    refused = lookalike("httpx", "ConnectError", "NetworkError", *TRANSPORT)()
    assert certainty_of(UncertainSendError(refused)) == "unknown"
