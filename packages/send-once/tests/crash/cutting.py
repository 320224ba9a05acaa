"""A relay between a victim and its database server that breaks at one message, in every way a network
and a server can: before it passes on, or after."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Literal, NamedTuple, Self

Direction = Literal["request", "answer"]
END_SECONDS_MAX = 400.0
"""A server that is killed and started again may wait for a busy disk both times."""


class Cut(NamedTuple):
    """At the n-th message of a direction, counted over all connections, run the relay's `event`."""

    direction: Direction
    n: int
    passes_on: bool
    """Whether that message is still delivered."""

    def __str__(self) -> str:
        return f"{self.direction} #{self.n} {'delivered' if self.passes_on else 'lost'}"


class CuttingRelay:
    """Listens on `port` and passes everything on to `server_port`, message by message, until the cut:
    then `event` runs, and the connection ends. Later connections pass undisturbed.

    A message is what one `recv` yields: on loopback, with one short statement at a time, that is
    what the other side sent in one piece.
    """

    def __init__(self, server_port: int, cut: Cut | None = None, event: Callable[[], None] = lambda: None) -> None:
        self._server_port, self._cut, self._event = server_port, cut, event
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self.counts: dict[Direction, int] = {"request": 0, "answer": 0}
        self.was_cut = False

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        # shutdown wakes the accepting thread; closing alone would not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(END_SECONDS_MAX)
        if self._failure is not None:
            raise self._failure
        assert not any(thread.is_alive() for thread in self._threads), "the event at the cut has not ended"

    def _start(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", self._server_port)) as server:
                back = self._start(self._copy, "answer", server, client)
                self._copy("request", client, server)
                back.join()

    def _copy(self, direction: Direction, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while octets := source.recv(1 << 16):
                cut = self._cut_here(direction)
                if cut is None or cut.passes_on:
                    target.sendall(octets)
                if cut is not None:
                    self._run_event()
                    break
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _run_event(self) -> None:
        try:
            self._event()
        except BaseException as failure:  # raised where the relay ends, not lost in its thread
            self._failure = failure

    def _cut_here(self, direction: Direction) -> Cut | None:
        with self._guard:
            self.counts[direction] += 1
            cut = self._cut
            if cut is None or (cut.direction, cut.n) != (direction, self.counts[direction]):
                return None
            self.was_cut = True
            return cut
