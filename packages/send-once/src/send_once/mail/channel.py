"""A socket on which one SMTP dialogue takes place: lines out, replies in, each with its own time limit."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Final

from send_once.mail.replies import MalformedReplyError, Reply, take_reply

_READ_BYTES: Final = 65536
BLOCK_BYTES: Final = 65536


class ConnectionClosedError(ConnectionError):
    """The server closed the connection where a reply was due."""


class Channel:
    """Not thread-safe; used by one dialogue. Errors are OSError and MalformedReplyError."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._received = b""
        # Each command waits for its reply: held back for a fuller packet, it would wait twice.
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def local_address(self) -> str:
        return str(self._socket.getsockname()[0])

    @property
    def has_unread(self) -> bool:
        """Whether something is received that nobody has read. Only what is here already is seen."""
        return bool(self._received)

    def write_line(self, line: str, *, timeout_seconds: float) -> None:
        self.write(line.encode() + b"\r\n", timeout_seconds=timeout_seconds)

    def write(self, octets: bytes, *, timeout_seconds: float) -> None:
        """Returns when the operating system has taken all of `octets`, not when the server has them."""
        self._socket.settimeout(timeout_seconds)
        self._socket.sendall(octets)

    def read_reply(self, *, timeout_seconds: float) -> Reply:
        """The next complete reply, all of it within the limit, however slowly it trickles in."""
        deadline = time.monotonic() + timeout_seconds
        while (taken := take_reply(self._received)) is None:
            self._receive(deadline)
        reply, self._received = taken
        return reply

    def poll(self) -> None:
        """Take in what the server has said by now, without waiting. Raises ConnectionClosedError if
        it has closed the connection and said nothing."""
        self._socket.settimeout(0)
        try:
            octets = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        if not octets and not self._received:
            raise ConnectionClosedError("the server closed the connection")
        self._received += octets

    def start_tls(self, context: ssl.SSLContext, host: str, *, timeout_seconds: float) -> None:
        """What was received before the handshake came unprotected, and must have been read by now."""
        self._socket.settimeout(timeout_seconds)
        secured = context.wrap_socket(self._socket, server_hostname=host, do_handshake_on_connect=False)
        self._socket = secured
        secured.do_handshake()

    def last_words(self) -> Reply | None:
        """A complete reply that is here already, after a failed write; None if there is none."""
        with contextlib.suppress(OSError, MalformedReplyError):
            self.poll()
            taken = take_reply(self._received)
            return taken[0] if taken else None
        return None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def _receive(self, deadline: float) -> None:
        """Read on until a line has ended, or too much has come without one."""
        start = len(self._received)
        while True:
            octets = self._receive_some(deadline)
            self._received += octets
            if b"\n" in octets or len(self._received) - start > BLOCK_BYTES // 8:
                return

    def _receive_some(self, deadline: float) -> bytes:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("no reply in time")
        self._socket.settimeout(remaining)
        octets = self._socket.recv(_READ_BYTES)
        if not octets:
            raise ConnectionClosedError("the server closed the connection")
        return octets


def connect(host: str, port: int, *, timeout_seconds: float) -> Channel:
    """A TCP connection to the first address of `host` that takes one; the limit holds for each address."""
    return Channel(socket.create_connection((host, port), timeout=timeout_seconds))
