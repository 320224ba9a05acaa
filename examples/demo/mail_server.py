"""A small SMTP server on loopback that takes a message over and is slow to say so.

    python mail_server.py MAILDIR

Prints its port, then one line for each message it has accepted. While a file named `hold` lies
beside the maildir, the reply to the final dot waits: the message is in the mailbox and its sender
does not know yet, as happens with any server that is busy at the wrong moment.
"""

from __future__ import annotations

import mailbox
import socketserver
import sys
import threading
import time
from pathlib import Path

MAILDIR = Path(sys.argv[1])
HOLD = MAILDIR.with_name("hold")
LOCK = threading.Lock()


class Session(socketserver.StreamRequestHandler):
    """One client: enough of RFC 5321 to take messages."""

    def handle(self) -> None:
        self.reply("220 mail.example.com ready")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb == b"DATA":
                self.reply("354 go ahead")
                self.accept()
            elif verb == b"QUIT":
                self.reply("221 bye")
                return
            else:
                self.reply("250 ok")

    def accept(self) -> None:
        body = b""
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            body += line.removeprefix(b".") if line.startswith(b"..") else line
        with LOCK:
            mailbox.Maildir(MAILDIR).add(body)
            print("accepted", flush=True)
        while HOLD.exists():
            time.sleep(0.01)
        self.reply("250 queued")

    def reply(self, text: str) -> None:
        try:
            self.wfile.write(text.encode() + b"\r\n")
        except OSError:
            return  # the sender is gone; the message stays accepted


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


if __name__ == "__main__":
    with Server(("127.0.0.1", 0), Session) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
