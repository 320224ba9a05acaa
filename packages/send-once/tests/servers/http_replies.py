"""An HTTP server on loopback that reads one request and ends it as a test asks, well or badly.

with answering(reply("500 Internal Server Error")) as address:
    urllib.request.urlopen(address, data=b"...")
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

WAIT_SECONDS_MAX = 30.0
"""So that a broken test ends; no test waits that long."""


@dataclass(frozen=True)
class End:
    """What happens after a request was read: these octets, then a close (by RST if `reset`), or silence."""

    octets: bytes = b""
    reset: bool = False
    silent: bool = False


def reply(status: str, body: bytes = b"{}", content_type: str = "application/json") -> End:
    """A whole reply, such as `reply("404 Not Found")`."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return End(head.encode() + body)


HALF_REPLY = End(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
CLOSED = End()
RESET = End(reset=True)
SILENT = End(silent=True)


@contextlib.contextmanager
def answering(end: End, *, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a server that ends every request so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = _Server(listener, end, tls)
        threading.Thread(target=server.serve, daemon=True).start()
        scheme = "http" if tls is None else "https"
        try:
            yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/messages"
        finally:
            server.stopping.set()
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


@dataclass
class _Server:
    listener: socket.socket
    end: End
    tls: ssl.SSLContext | None
    stopping: threading.Event = field(default_factory=threading.Event)

    def serve(self) -> None:
        while not self.stopping.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(WAIT_SECONDS_MAX)
        if self.tls is not None:
            connection = self.tls.wrap_socket(connection, server_side=True)
        _read_request(connection)
        if self.end.silent:
            self.stopping.wait(WAIT_SECONDS_MAX)
            return
        connection.sendall(self.end.octets)
        if self.end.reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def _read_request(connection: socket.socket) -> None:
    octets = b""
    while b"\r\n\r\n" not in octets:
        octets += _received(connection)
    head, _, body = octets.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    wanted = int(lengths[0]) if lengths else 0
    while len(body) < wanted:
        body += _received(connection)


def _received(connection: socket.socket) -> bytes:
    octets = connection.recv(65536)
    if not octets:
        raise ConnectionAbortedError("the client has gone")
    return octets
