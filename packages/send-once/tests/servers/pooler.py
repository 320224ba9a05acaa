"""A transaction pooler for Postgres, as small as one can be: every statement of a client runs on another
server session, so that nothing may be expected of a session. It counts round trips, and it can lose an
answer on its way: the statement is applied, and the client's connection dies.

Speaks the frontend/backend protocol 3.0 (PostgreSQL documentation, chapter "Frontend/Backend Protocol").
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Self
from urllib.parse import urlsplit

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
PROTOCOL = 196608


class Message(NamedTuple):
    kind: bytes
    raw: bytes


class Session:
    """One session on the server, used by one statement at a time."""

    def __init__(self, host: str, port: int, user: str, database: str) -> None:
        self.lock = threading.Lock()
        self.socket = socket.create_connection((host, port))
        self.stream = self.socket.makefile("rb")
        words = b"\0".join(word.encode() for word in ("user", user, "database", database, "client_encoding", "UTF8"))
        self.socket.sendall(packet(b"", struct.pack("!i", PROTOCOL) + words + b"\0\0"))
        self.greeting = b"".join(message.raw for message in until(self.stream, b"Z") if message.kind in b"S")

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


class Pooler:
    """`url` leads through it. `round_trips` counts statements; `lose_answers` is how many of the next
    answers are lost."""

    def __init__(self, url: str, sessions: int = 3) -> None:
        parts = urlsplit(url)
        database = parts.path.lstrip("/")
        assert parts.hostname is not None
        assert parts.port is not None
        self._sessions = [Session(parts.hostname, parts.port, "postgres", database) for _ in range(sessions)]
        self._turn = itertools.cycle(self._sessions)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._clients: list[socket.socket] = []
        self.url = f"postgresql://postgres@127.0.0.1:{self._listener.getsockname()[1]}/{database}?gssencmode=disable"
        self.round_trips = 0
        self.lose_answers = 0
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for client in self._clients:
            hang_up(client)
        for session in self._sessions:
            session.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), client, client.makefile("rb") as stream:
            if not self._greet(client, stream):
                return
            while True:
                asked = b"".join(message.raw for message in until(stream, b"SQX"))
                if asked[-5:-4] == b"X":
                    return
                self._forward(client, asked)

    def _greet(self, client: socket.socket, stream: BinaryIO) -> bool:
        while True:
            (length,) = struct.unpack("!i", exactly(stream, 4))
            body = exactly(stream, length - 4)
            (code,) = struct.unpack("!i", body[:4])
            if code == CANCEL_REQUEST:
                return False
            if code == PROTOCOL:
                break
            client.sendall(b"N")
        ready = packet(b"R", struct.pack("!i", 0)), self._sessions[0].greeting, packet(b"K", b"\0" * 8)
        client.sendall(b"".join((*ready, packet(b"Z", b"I"))))
        return True

    def _forward(self, client: socket.socket, asked: bytes) -> None:
        session = next(self._turn)
        with session.lock:
            session.socket.sendall(asked)
            answer = b"".join(message.raw for message in until(session.stream, b"Z"))
        self.round_trips += 1
        if self.lose_answers:
            self.lose_answers -= 1
            hang_up(client)
        client.sendall(answer)


def packet(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def until(stream: BinaryIO, kinds: bytes) -> Iterator[Message]:
    """Messages up to and including one of these kinds."""
    while True:
        kind = exactly(stream, 1)
        size = exactly(stream, 4)
        (length,) = struct.unpack("!i", size)
        yield Message(kind, kind + size + exactly(stream, length - 4))
        if kind in kinds:
            return


def exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def hang_up(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
