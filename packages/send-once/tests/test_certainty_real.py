"""What an exception says about the send: those that the standard library really raises, on real sockets.

The rules are in `test_certainty`, the exceptions of HTTP clients in `test_certainty_clients`.
"""

from __future__ import annotations

import asyncio
import http.client
import smtplib
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
import xmlrpc.client
from collections.abc import Callable
from typing import Any

import pytest

from mail.samples import server_context
from send_once import (
    Failed,
    Ledger,
    MemoryStore,
    Unknown,
    certainty_of,
)
from servers.http_replies import CLOSED, HALF_REPLY, RESET, SILENT, End, answering, reply
from servers.ports import free_port
from servers.smtp_acts import Drop, Say, Silent
from servers.smtp_server import SMTPServer

CLIENT_TIMEOUT_SECONDS = 0.2
"""Only for servers that never answer."""


def raised_by(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        return error
    raise AssertionError("nothing was raised")


def post(end: End, *, timeout_seconds: float = 30) -> Callable[[], object]:
    """A POST with urllib to a server that ends it so; the whole reply is read."""

    def send() -> object:
        with answering(end) as address, urllib.request.urlopen(address, b"body", timeout_seconds) as response:
            return response.read()

    return send


def post_with_http_client(end: End, *, timeout_seconds: float = 30) -> Callable[[], object]:
    def send() -> object:
        with answering(end) as address:
            connection = http.client.HTTPConnection(address.split("/")[2], timeout=timeout_seconds)
            try:
                connection.request("POST", "/messages", b"body")
                return connection.getresponse().read()
            finally:
                connection.close()

    return send


def mail(timeout_seconds: float = 30, **at: Any) -> Callable[[], object]:
    """A mail with smtplib to a server that misbehaves at the place named."""

    def send() -> object:
        with SMTPServer(at=at) as server:
            client = smtplib.SMTP("127.0.0.1", server.port, timeout=timeout_seconds)
            try:
                return client.sendmail("a@example.com", ["b@example.com"], b"Subject: hi\r\n\r\nhi\r\n")
            finally:
                client.close()

    return send


def sign_in(**settings: Any) -> Callable[[], object]:
    def send() -> object:
        with SMTPServer(**settings) as server, smtplib.SMTP("127.0.0.1", server.port, timeout=30) as client:
            return client.login("app", "wrong")

    return send


def to_a_server_nobody_vouches_for() -> object:
    with answering(reply("200 OK"), tls=server_context()) as address:
        return urllib.request.urlopen(address, b"body", 30, context=ssl.create_default_context())


def tls_to_a_server_without() -> object:
    with SMTPServer() as server, socket.create_connection(("127.0.0.1", server.port)) as plain:
        return ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")


def shutdown_after_a_reset() -> object:
    """The whole message was written; the connection was reset before the client said that it was done."""
    with answering(RESET) as address:
        host, _, port = address.split("/")[2].partition(":")
        with socket.create_connection((host, int(port)), timeout=30) as sock:
            sock.sendall(b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody")
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
            sock.shutdown(socket.SHUT_WR)
    return "nothing was noticed"


async def _read_async(end: End, read: Callable[[asyncio.StreamReader], Any], limit: int = 2**16) -> object:
    with answering(end) as address:
        host, _, port = address.split("/")[2].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=limit)
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody")
        try:
            return await asyncio.wait_for(read(reader), CLIENT_TIMEOUT_SECONDS if end.silent else 30)
        finally:
            writer.close()


def asyncio_post(end: End, read: Callable[[asyncio.StreamReader], Any], limit: int = 2**16) -> Callable[[], object]:
    return lambda: asyncio.run(_read_async(end, read, limit))


def xml_rpc() -> object:
    with answering(reply("502 Bad Gateway")) as address, xmlrpc.client.ServerProxy(address) as server:
        return server.send("hi")


REAL: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    # sockets and names
    "a refused connection": (
        lambda: socket.create_connection(("127.0.0.1", free_port())),
        ConnectionRefusedError,
        "failed",
    ),
    "a name that does not exist": (
        lambda: socket.create_connection(("nonexistent.invalid", 80)),
        socket.gaierror,
        "failed",
    ),
    "a refused connection, urllib": (
        lambda: urllib.request.urlopen(f"http://127.0.0.1:{free_port()}/", b"body"),
        urllib.error.URLError,
        "failed",
    ),
    "a name that does not exist, urllib": (
        lambda: urllib.request.urlopen("http://nonexistent.invalid/", b"body"),
        urllib.error.URLError,
        "failed",
    ),
    "a scheme nobody knows, urllib": (
        lambda: urllib.request.urlopen("gopher://example.invalid/", b"body"),
        urllib.error.URLError,
        "unknown",
    ),
    "a reset found out when saying that all was written": (shutdown_after_a_reset, OSError, "unknown"),
    # HTTP
    "a reset instead of a reply": (post(RESET), ConnectionResetError, "unknown"),
    "a reset instead of a reply, http.client": (post_with_http_client(RESET), ConnectionResetError, "unknown"),
    "closed instead of a reply": (post(CLOSED), http.client.RemoteDisconnected, "unknown"),
    "half a reply": (post(HALF_REPLY), http.client.IncompleteRead, "unknown"),
    "no reply in time": (post(SILENT, timeout_seconds=CLIENT_TIMEOUT_SECONDS), TimeoutError, "unknown"),
    "no reply in time, http.client": (
        post_with_http_client(SILENT, timeout_seconds=CLIENT_TIMEOUT_SECONDS),
        TimeoutError,
        "unknown",
    ),
    "no HTTP in the reply": (post(End(b"hello\r\n\r\n")), http.client.BadStatusLine, "unknown"),
    "a line without end in the reply": (post(End(b"HTTP/1.1 " + b"x" * 70_000)), http.client.LineTooLong, "unknown"),
    "a port that is no number": (
        lambda: http.client.HTTPConnection("example.invalid:port"),
        http.client.InvalidURL,
        "failed",
    ),
    "a request out of order": (
        lambda: http.client.HTTPConnection("127.0.0.1").putheader("a", "b"),
        http.client.CannotSendHeader,
        "unknown",
    ),
    "a request while another is under way": (
        lambda: _begun().putrequest("POST", "/"),
        http.client.CannotSendRequest,
        "failed",
    ),
    "400": (post(reply("400 Bad Request")), urllib.error.HTTPError, "failed"),
    "401": (post(reply("401 Unauthorized")), urllib.error.HTTPError, "failed"),
    "404": (post(reply("404 Not Found")), urllib.error.HTTPError, "failed"),
    "422": (post(reply("422 Unprocessable Content")), urllib.error.HTTPError, "failed"),
    "429": (post(reply("429 Too Many Requests")), urllib.error.HTTPError, "failed"),
    "408: it may still be running": (post(reply("408 Request Timeout")), urllib.error.HTTPError, "unknown"),
    "409: it may have run": (post(reply("409 Conflict")), urllib.error.HTTPError, "unknown"),
    "500": (post(reply("500 Internal Server Error")), urllib.error.HTTPError, "unknown"),
    "502": (post(reply("502 Bad Gateway")), urllib.error.HTTPError, "unknown"),
    "503": (post(reply("503 Service Unavailable")), urllib.error.HTTPError, "unknown"),
    "a 403 that is a web page, perhaps a proxy's": (
        post(reply("403 Forbidden", b"<html>", "text/html; charset=utf-8")),
        urllib.error.HTTPError,
        "unknown",
    ),
    "XML-RPC over a broken gateway": (xml_rpc, xmlrpc.client.ProtocolError, "unknown"),
    # TLS
    "a certificate nobody vouches for": (to_a_server_nobody_vouches_for, urllib.error.URLError, "failed"),
    "no TLS at the other end": (tls_to_a_server_without, ssl.SSLError, "unknown"),
    # asyncio
    "the end of a stream, asyncio": (
        asyncio_post(CLOSED, lambda reader: reader.readexactly(1)),
        asyncio.IncompleteReadError,
        "unknown",
    ),
    "a reply too long for the reader, asyncio": (
        asyncio_post(End(b"x" * 1000), lambda reader: reader.readuntil(b"\n"), limit=10),
        asyncio.LimitOverrunError,
        "unknown",
    ),
    "no reply in time, asyncio": (asyncio_post(SILENT, lambda reader: reader.read(1)), TimeoutError, "unknown"),
    # a program
    "a program that does not end in time": (
        lambda: subprocess.run(["sleep", "60"], check=True, timeout=CLIENT_TIMEOUT_SECONDS),
        subprocess.TimeoutExpired,
        "unknown",
    ),
    # SMTP
    "no server for mail": (mail(connect=()), ConnectionRefusedError, "failed"),
    "554 as a greeting": (mail(greeting=Say("554 5.7.1 no")), smtplib.SMTPConnectError, "failed"),
    "550 to EHLO and HELO": (mail(ehlo=Say("550 no"), helo=Say("550 no")), smtplib.SMTPHeloError, "failed"),
    "550 to the sender": (mail(mail=Say("550 no")), smtplib.SMTPSenderRefused, "failed"),
    "450 to the recipient": (mail(rcpt=Say("450 later")), smtplib.SMTPRecipientsRefused, "failed"),
    "451 to DATA": (mail(data=Say("451 later")), smtplib.SMTPDataError, "failed"),
    "554 to the message": (mail(dot=Say("554 spam")), smtplib.SMTPDataError, "failed"),
    "an odd 2yz to the message": (mail(dot=Say("252 perhaps", accept=True)), smtplib.SMTPDataError, "unknown"),
    "silence after the message": (
        mail(timeout_seconds=CLIENT_TIMEOUT_SECONDS, dot=Silent(accept=True)),
        smtplib.SMTPServerDisconnected,
        "unknown",
    ),
    "closed after the message": (mail(dot=Drop(accept=True)), smtplib.SMTPServerDisconnected, "unknown"),
    "reset after the message": (mail(dot=Drop(reset=True, accept=True)), smtplib.SMTPServerDisconnected, "unknown"),
    "a wrong password": (
        sign_in(users={"app": "right"}, auth_in_clear=("PLAIN",), auth=("PLAIN",)),
        smtplib.SMTPAuthenticationError,
        "failed",
    ),
    "no sign-in offered": (sign_in(), smtplib.SMTPNotSupportedError, "failed"),
}


def _begun() -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1")
    connection.putrequest("POST", "/")
    return connection


@pytest.mark.parametrize("name", REAL)
def test_after_an_exception_that_really_happened_it_is_sent_again_only_where_that_is_safe(name: str) -> None:
    send, kind, expected = REAL[name]
    error, calls = raised_by(send), []
    assert isinstance(error, kind), repr(error)
    assert certainty_of(error) == expected

    def failing() -> None:
        calls.append(1)
        raise error

    ledger = Ledger(MemoryStore())
    first = ledger.once("k", failing)
    ledger.once("k", failing)
    assert isinstance(first, Failed if expected == "failed" else Unknown)
    assert first.error is error
    assert len(calls) == (2 if expected == "failed" else 1)


def test_the_server_of_these_tests_can_also_accept() -> None:
    with answering(reply("200 OK", b'{"id": "m1"}')) as address, urllib.request.urlopen(address, b"body") as response:
        assert (response.status, response.read()) == (200, b'{"id": "m1"}')
