"""A TCP relay that tells when the final dot of an SMTP message passes, and may hold it back."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

FINAL_DOT = b"\r\n.\r\n"


@dataclass
class DotRelay:
    """Listens on `port` and passes everything on to `server_port`. When the client has sent the final
    dot, `on_dot` is called; after that the dot goes on to the server, or with `swallow` both ends are closed."""

    server_port: int
    on_dot: Callable[[], None]
    swallow: bool = False

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._thread.join(30)

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            with client, socket.create_connection(("127.0.0.1", self.server_port)) as server:
                back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                back.start()
                self._forward(client, server)
                back.join(30)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        seen = b""
        while octets := _received(client):
            seen += octets
            if FINAL_DOT in seen:
                self.on_dot()
                if self.swallow:
                    break
                seen = b""
            server.sendall(octets)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while octets := _received(source):
            target.sendall(octets)


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65536)
    except OSError:
        return b""
