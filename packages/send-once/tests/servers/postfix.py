"""A real Postfix on loopback, run by hand: a configuration of its own in a short temporary folder, two
random ports, mailboxes for ana@ and bo@learner.test, its own log. Nothing can leave the machine.

`postfix` is a pytest fixture (one server per test session). Without Postfix the tests that use it
are skipped, and fail where CI is set to "true".
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

POSTFIX = Path("/usr/sbin/postfix")
DAEMONS = Path("/usr/lib/postfix/sbin")
HOW_TO_GET_IT = (
    "Postfix is not installed: apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
    "--no-install-recommends postfix (as root)"
)
MAILBOX_USER = "nobody"
WAIT_SECONDS_MAX = 30.0
SLOW_SECONDS = 1
"""How long the slow port takes to answer the final dot."""

_QUEUED = re.compile(r"postfix/qmgr\[\d+\]: (\w+): from=<[^>]*>, size=\d+, nrcpt=\d+ \(queue active\)")
_MESSAGE_ID = re.compile(r"postfix/cleanup\[\d+\]: (\w+): message-id=(<[^>]*>)")
_DELIVERED = re.compile(r"postfix/virtual\[\d+\]: (\w+): to=<([^>]*)>.*status=sent")


class Postfix:
    """A started server. `port` answers at once; `slow_port` takes SLOW_SECONDS to answer the final dot."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port, self.slow_port = _free_ports(2)
        self._keeper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        _write_configuration(self)
        etc = str(self.root / "etc")
        subprocess.run([str(POSTFIX), "-c", etc, "check"], check=True, stdin=subprocess.DEVNULL, capture_output=True)
        self._keeper = subprocess.Popen(
            # The shell ends the server when its input ends: by stop(), or because this process was killed.
            ["sh", "-c", '"$0" -c "$1" -s & read _; kill "$!"; wait', str(DAEMONS / "master"), etc],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: _answers(self.port) and _answers(self.slow_port), "Postfix to answer")

    def stop(self) -> None:
        if self._keeper and self._keeper.stdin:
            self._keeper.stdin.close()
            self._keeper.wait(WAIT_SECONDS_MAX)

    @property
    def log(self) -> str:
        path = self.root / "log" / "maillog"
        return path.read_text() if path.exists() else ""

    def has_read(self, message_id: str) -> bool:
        """Whether it has seen the header of such a message, queued or not."""
        return any(seen == message_id for _, seen in _MESSAGE_ID.findall(self.log))

    def arrivals(self, message_id: str) -> list[str]:
        """The queue ids under which messages with this Message-ID were taken over."""
        log = self.log
        ids = {queue_id for queue_id, seen in _MESSAGE_ID.findall(log) if seen == message_id}
        return [queue_id for queue_id in dict.fromkeys(_QUEUED.findall(log)) if queue_id in ids]

    def deliveries(self, message_id: str) -> list[str]:
        """The mailboxes into which messages with this Message-ID were put."""
        log = self.log
        ids = {queue_id for queue_id, seen in _MESSAGE_ID.findall(log) if seen == message_id}
        return [mailbox for queue_id, mailbox in _DELIVERED.findall(log) if queue_id in ids]

    def mailbox(self, name: str) -> list[bytes]:
        """The messages in the mailbox as they were delivered."""
        return [path.read_bytes() for path in sorted((self.root / "mail" / name / "Maildir" / "new").glob("*"))]


def wait_for(holds: Callable[[], T], what: str) -> T:
    """What `holds` returns once that is true. Postfix tells by its log alone, so the log is asked again."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not (value := holds()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {WAIT_SECONDS_MAX} s for {what}")
        time.sleep(0.02)
    return value


@pytest.fixture(scope="session")
def postfix() -> Iterator[Postfix]:
    if not POSTFIX.exists() or os.geteuid() != 0:
        reason = HOW_TO_GET_IT if not POSTFIX.exists() else "Postfix can only be started by root"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    root = Path(tempfile.mkdtemp(prefix="pf-", dir="/tmp"))
    server = Postfix(root)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(root, ignore_errors=True)


def _write_configuration(server: Postfix) -> None:
    root = server.root
    root.chmod(0o755)
    for name in ("etc", "spool", "data", "mail", "log"):
        (root / name).mkdir()
    user = pwd.getpwnam(MAILBOX_USER)
    shutil.chown(root / "data", "postfix")
    os.chown(root / "mail", user.pw_uid, user.pw_gid)
    (root / "etc" / "main.cf").write_text(_main_cf(root, user))
    (root / "etc" / "master.cf").write_text(_master_cf(server))


def _main_cf(root: Path, user: pwd.struct_passwd) -> str:
    settings = {
        "compatibility_level": "3.6",
        "mail_owner": "postfix",
        "setgid_group": "postdrop",
        "queue_directory": f"{root}/spool",
        "data_directory": f"{root}/data",
        "command_directory": "/usr/sbin",
        "daemon_directory": str(DAEMONS),
        "myhostname": "mx.learner.test",
        "mydestination": "",
        "inet_interfaces": "loopback-only",
        "inet_protocols": "ipv4",
        "mynetworks": "127.0.0.0/8",
        "smtp_host_lookup": "native",
        "smtpd_peername_lookup": "no",
        "disable_dns_lookups": "yes",
        "virtual_mailbox_domains": "learner.test",
        "virtual_mailbox_base": f"{root}/mail",
        "virtual_mailbox_maps": "inline:{ana@learner.test=ana/Maildir/, bo@learner.test=bo/Maildir/}",
        "virtual_minimum_uid": "100",
        "virtual_uid_maps": f"static:{user.pw_uid}",
        "virtual_gid_maps": f"static:{user.pw_gid}",
        "default_transport": "error:no outside mail in tests",
        "maillog_file": f"{root}/log/maillog",
        "maillog_file_prefixes": f"/var, {root}",
        "alias_maps": "",
        "smtpd_relay_restrictions": "permit_mynetworks, reject_unauth_destination",
        "smtputf8_enable": "no",
    }
    return "".join(f"{name} = {value}\n" for name, value in settings.items())


def _master_cf(server: Postfix) -> str:
    """The distribution's, with our two ports instead of 25 and nothing chrooted."""
    lines = [line for line in Path("/usr/share/postfix/master.cf.dist").read_text().splitlines() if line.strip()]
    services = [_unchrooted(line) for line in lines if not line.startswith("#") and not re.match(r"smtp\s+inet", line)]
    return "\n".join(
        [
            f"127.0.0.1:{server.port} inet n - n - - smtpd",
            f"127.0.0.1:{server.slow_port} inet n - n - - smtpd",
            f"  -o {{ smtpd_end_of_data_restrictions = sleep {SLOW_SECONDS} }}",
            *services,
            *(
                []
                if any(line.startswith("postlog") for line in services)
                else ["postlog unix-dgram n - n - 1 postlogd"]
            ),
            "",
        ]
    )


def _unchrooted(line: str) -> str:
    words = line.split(None, 7)
    if line[0].isspace() or len(words) < 8:
        return line
    return "\t".join([*words[:4], "n", *words[5:]])


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
            return sock.recv(3) == b"220"
    except OSError:
        return False
