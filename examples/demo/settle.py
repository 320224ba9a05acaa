"""Settle what is unknown by evidence: is a message with our Message-ID in the mailbox?

    python settle.py MAILDIR LEDGER

On a real server this look-up is IMAP's `SEARCH HEADER Message-ID`, or the provider's own search.
"""

from __future__ import annotations

import mailbox
import sys

from send_once import Absent, Entry, Evidence, FileStore, Found, Ledger
from send_once.mail import derive_message_id


def main(maildir: str, ledger_path: str) -> None:
    def look_up(entry: Entry) -> Evidence:
        wanted = derive_message_id(entry.key, "example.com")
        if any(message["Message-ID"] == wanted for message in mailbox.Maildir(maildir)):
            return Found(provider_id=wanted, note="found in the mailbox by its Message-ID")
        return Absent(note="the whole mailbox was searched by Message-ID")

    with Ledger(FileStore(ledger_path)) as ledger:
        settled = ledger.reconcile(look_up, older_than=0)
    print(", ".join(f"{count} {word}" for word, count in settled.counts().items()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
