"""A real SMTP server on loopback that misbehaves on request, at one place of the dialogue.

    with SMTPServer(at={"dot": Silent(accept=True)}) as server:
        ...client connects to server.port...
    server.commands     every line the client sent, in order
    server.accepted     the messages this server took responsibility for

A place is "connect", "greeting", "tls", "ehlo", "helo", "starttls", "auth", "auth2", "auth3",
"mail", "rcpt", "data", "body", "dot", "rset" or "quit". What happens there is a list of acts or one act.
Nothing here sleeps: what must come late waits for `release()`.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import select
import socket
import ssl
import struct
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from servers.smtp_acts import Act, Call, Drop, DropAfter, Interrupt, Say, SayInPackets, SayLate, Silent, Trickle

WAIT_SECONDS_MAX = 30.0
"""So that a broken test ends; no test waits that long."""


@dataclass(frozen=True)
class Received:
    """A message the server took responsibility for: as transmitted after undoing the dots."""

    sender: str
    recipients: tuple[str, ...]
    octets: bytes


def verb_of(line: str) -> str:
    return line.partition(" ")[0].partition(":")[0].upper()


class _GoneError(Exception):
    """The connection is over, by the client's doing or by an act."""


DEFAULT_EXTENSIONS = ("PIPELINING", "SIZE 102400000", "8BITMIME", "ENHANCEDSTATUSCODES")


@dataclass
class SMTPServer:
    at: Mapping[str, Act | Sequence[Act]] = field(default_factory=dict)
    extensions: Sequence[str] = DEFAULT_EXTENSIONS
    tls: ssl.SSLContext | None = None
    implicit_tls: bool = False
    users: Mapping[str, str] = field(default_factory=dict)
    auth: Sequence[str] = ("PLAIN", "LOGIN")
    auth_in_clear: Sequence[str] = ()
    cut_after_octets_in: int | None = None
    cut_after_octets_out: int | None = None
    cut_by_reset: bool = False

    def __post_init__(self) -> None:
        self.commands: list[str] = []
        self.accepted: list[Received] = []
        self.connections = 0
        self.wire = b""
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._stopping = threading.Event()
        self._sessions: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    # Life.

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        # Small, so that a client whose message is not read notices before all of it is in buffers.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.port: int = self._listener.getsockname()[1]
        if "connect" in self.at:
            self._listener.close()  # the port is known and nobody listens there
            return self
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._released.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.join()

    def release(self) -> None:
        """Let late replies go out and silences end."""
        self._released.set()

    def join(self) -> None:
        """Wait until every connection made so far has been served to its end."""
        for session in list(self._sessions):
            session.join(WAIT_SECONDS_MAX)

    @property
    def verbs(self) -> list[str]:
        """The first word of each command: what the client dared to say."""
        return [verb_of(command) for command in self.commands]

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._sockets.append(sock)
                session = threading.Thread(target=self._run, args=(sock,), daemon=True)
                session.start()
                self._sessions.append(session)

    def _run(self, sock: socket.socket) -> None:
        session = _Session(self, sock)
        try:
            session.run()
        except (_GoneError, OSError):
            pass
        finally:
            session.close()


class _Session:
    """One connection."""

    def __init__(self, server: SMTPServer, sock: socket.socket) -> None:
        self.server = server
        self.sock = sock
        self.buffer = b""
        self.octets_in = 0
        self.octets_out = 0
        self.sender = ""
        self.recipients: list[str] = []
        self.sock.settimeout(WAIT_SECONDS_MAX)

    def run(self) -> None:
        if self.server.implicit_tls:
            self.secure()
        self.act("greeting", "220 mx.test ESMTP ready")
        while True:
            line = self.read_line()
            self.server.commands.append(line)
            if not self.answer(line):
                return

    def answer(self, line: str) -> bool:
        verb = verb_of(line)
        handlers: dict[str, Callable[[str], object]] = {
            "EHLO": self.ehlo,
            "HELO": lambda _: self.act("helo", "250 mx.test"),
            "STARTTLS": self.starttls,
            "AUTH": self.auth,
            "MAIL": self.mail,
            "RCPT": self.rcpt,
            "DATA": self.data,
            "RSET": lambda _: self.act("rset", "250 2.0.0 Ok"),
        }
        if verb == "QUIT":
            self.act("quit", "221 2.0.0 Bye")
            return False
        handlers.get(verb, self.unknown)(line)
        return True

    # Commands.

    def unknown(self, _: str) -> None:
        self.say("500 5.5.2 Error: command not recognized")

    def ehlo(self, _: str) -> None:
        offers = ["mx.test", *self.server.extensions]
        if self.server.tls and not self.server.implicit_tls and not isinstance(self.sock, ssl.SSLSocket):
            offers.append("STARTTLS")
            mechanisms = self.server.auth_in_clear
        else:
            mechanisms = self.server.auth
        if self.server.users and mechanisms:
            offers.append(f"AUTH {' '.join(mechanisms)}")
        lines = [f"250{'-' if n < len(offers) - 1 else ' '}{offer}" for n, offer in enumerate(offers)]
        self.act("ehlo", "\r\n".join(lines))

    def starttls(self, _: str) -> None:
        self.act("starttls", "220 2.0.0 Ready to start TLS")
        self.secure()

    def secure(self) -> None:
        self.act("tls", None)
        if self.server.tls is None:
            raise _GoneError
        self.sock = self.server.tls.wrap_socket(self.sock, server_side=True)
        self.buffer = b""

    def auth(self, line: str) -> None:
        words = line.split(" ")
        if words[1].upper() == "LOGIN":
            self.act("auth", "334 VXNlcm5hbWU6")
            name = base64.b64decode(self.read_secret()).decode()
            self.act("auth2", "334 UGFzc3dvcmQ6")
            password = base64.b64decode(self.read_secret()).decode()
        else:
            _, name, password = base64.b64decode(words[2]).decode().split("\0")
        good = self.server.users.get(name) == password
        place = "auth3" if words[1].upper() == "LOGIN" else "auth"
        self.act(place, "235 2.7.0 Authentication successful" if good else "535 5.7.8 Authentication failed")

    def read_secret(self) -> str:
        line = self.read_line()
        self.server.commands.append(line)
        return line

    def mail(self, line: str) -> None:
        self.sender = line.partition("<")[2].partition(">")[0]
        self.recipients = []
        self.act("mail", "250 2.1.0 Ok")

    def rcpt(self, line: str) -> None:
        self.recipients.append(line.partition("<")[2].partition(">")[0])
        self.act("rcpt", "250 2.1.5 Ok")

    def data(self, _: str) -> None:
        if not self.act("data", "354 End data with <CR><LF>.<CR><LF>").startswith("354"):
            return
        for act in self.acts("body"):
            self.in_body(act)
        octets = self.read_message()
        take = lambda: self.accept(octets)
        self.act("dot", "250 2.0.0 Ok: queued as 4TESTQ1", take=take, takes_by_default=True)

    def in_body(self, act: Act) -> None:
        if isinstance(act, DropAfter):
            self.read_octets(act.octets)
            self.drop(reset=act.reset)
        elif isinstance(act, Interrupt):
            self.read_octets(act.octets)
            self.say(act.text)
            if act.close:
                self.drop_gently()
        else:
            self.perform(act, lambda: None)

    def accept(self, octets: bytes) -> None:
        self.server.accepted.append(Received(self.sender, tuple(self.recipients), octets))

    # Acts.

    def acts(self, place: str) -> list[Act]:
        given = self.server.at.get(place, ())
        return list(given) if isinstance(given, Sequence) else [given]

    def act(
        self, place: str, usual: str | None, *, take: Callable[[], None] = lambda: None, takes_by_default: bool = False
    ) -> str:
        """Perform what is wanted at `place`, else the usual reply. Returns the text of the reply."""
        wanted = self.acts(place)
        if not wanted:
            if takes_by_default:
                take()
            if usual is not None:
                self.say(usual)
            return usual or ""
        said = [self.perform(act, take) for act in wanted]
        return next((text for text in said if text), "")

    def perform(self, act: Act, take: Callable[[], None]) -> str:
        if getattr(act, "accept", False):
            take()
        match act:
            case Say(text=text, raw=raw):
                self.send(raw or text.encode() + b"\r\n")
                return text
            case SayInPackets(pieces=pieces):
                for piece in pieces:
                    self.send(piece)
                    self.wait_until_read()
                return b"".join(pieces).decode()
            case Drop(reset=reset):
                self.drop(reset=reset)
            case Silent():
                self.wait_for_release_or_end()
                raise _GoneError
            case Call(what=what):
                what()
                while True:
                    self.receive()
            case Trickle(lines=lines, pause_seconds=pause_seconds):
                for _ in range(lines - 1):
                    self.say("250-wait")
                    self.server._released.wait(pause_seconds)
                self.say("250 done")
            case SayLate(text=text):
                self.server._released.wait(WAIT_SECONDS_MAX)
                self.say(text)
                return text
            case _:
                raise AssertionError(f"{act} belongs in the body")
        return ""

    def drop(self, *, reset: bool) -> None:
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()
        raise _GoneError

    def drop_gently(self) -> None:
        """Close so that what was said arrives: read on until the client has closed."""
        self.sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while self.sock.recv(65536):
                pass
        raise _GoneError

    def wait_for_release_or_end(self) -> None:
        """Read nothing, until the client has closed or release() is called."""
        poll = select.poll()
        poll.register(self.sock, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        while not self.server._released.is_set():
            if poll.poll(50):
                return

    def wait_until_read(self) -> None:
        """Until the peer's kernel has acknowledged all: the next piece is then a packet of its own."""
        while struct.unpack("i", fcntl.ioctl(self.sock, termios.TIOCOUTQ, b"\0\0\0\0"))[0]:
            pass

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()

    # Octets.

    def say(self, text: str) -> None:
        self.send(text.encode() + b"\r\n")

    def send(self, octets: bytes) -> None:
        limit = self.server.cut_after_octets_out
        room = len(octets) if limit is None else max(0, limit - self.octets_out)
        self.octets_out += len(octets)
        self.sock.sendall(octets[:room])
        if room < len(octets):
            self.drop(reset=self.server.cut_by_reset)

    def receive(self) -> None:
        octets = self.sock.recv(65536)
        if not octets:
            raise _GoneError
        self.octets_in += len(octets)
        limit = self.server.cut_after_octets_in
        if limit is not None and self.octets_in > limit:
            octets = octets[: len(octets) - (self.octets_in - limit)]
            self.buffer += octets
            self.server.wire += octets
            self.drop(reset=self.server.cut_by_reset)
        self.buffer += octets
        self.server.wire += octets

    def read_line(self) -> str:
        while b"\r\n" not in self.buffer:
            self.receive()
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line.decode("utf-8", "replace")

    def read_octets(self, count: int) -> bytes:
        while len(self.buffer) < count:
            self.receive()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def read_message(self) -> bytes:
        """Up to <CRLF>.<CRLF> and nothing else (RFC 5321 4.1.1.4); the doubled dots undone."""
        while not (self.buffer.startswith(b".\r\n") or b"\r\n.\r\n" in self.buffer):
            self.receive()
        if self.buffer.startswith(b".\r\n"):
            self.buffer = self.buffer[3:]
            return b""
        text, _, self.buffer = self.buffer.partition(b"\r\n.\r\n")
        lines = (text + b"\r\n").split(b"\r\n")
        return b"\r\n".join(line[1:] if line.startswith(b".") else line for line in lines)


@contextlib.contextmanager
def smtp_server(**at: Act | Sequence[Act]) -> Iterator[SMTPServer]:
    """`smtp_server(dot=Drop())`: a server that misbehaves at the places named."""
    with SMTPServer(at=at) as server:
        yield server
