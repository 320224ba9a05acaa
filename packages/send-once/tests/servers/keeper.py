"""Runs a server as its child and ends it when its own input ends.

    python keeper.py FOLDER UID GID COMMAND...

Prints the server's process id. Each line on its input is a signal number for the server. At the end of
the input, which is also what the death of a test run looks like, the server is told to stop (SIGINT, or
what the last line asked for) and FOLDER is removed. Exits with the server's code as soon as the server
has ended. Only a child is ever signalled, so a process id that was given to somebody else does no harm.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading

STOP_SECONDS_MAX = 30
"""After that a server that was asked to stop is killed."""


def start(uid: int, gid: int, command: list[str]) -> subprocess.Popen[bytes]:
    if os.geteuid() != 0:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, user=uid, group=gid, extra_groups=[]
    )


def follow_orders(server: subprocess.Popen[bytes], orphaned: threading.Event) -> None:
    while order := os.read(0, 64):
        server.send_signal(int(order))
    orphaned.set()
    server.send_signal(signal.SIGINT)
    try:
        server.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        server.kill()


def main() -> None:
    folder, uid, gid, *command = sys.argv[1:]
    orphaned = threading.Event()
    server = start(int(uid), int(gid), command)
    print(server.pid, flush=True)
    threading.Thread(target=follow_orders, args=(server, orphaned), daemon=True).start()
    code = server.wait()
    if orphaned.is_set():
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code if 0 <= code < 256 else 1)  # the other thread may still wait for input


if __name__ == "__main__":
    main()
