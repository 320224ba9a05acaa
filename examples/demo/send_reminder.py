"""The program that sends: what a user of the library writes.

    python send_reminder.py PORT LEDGER

With `-` for the ledger it sends the same message without one.
"""

from __future__ import annotations

import sys
from email.message import EmailMessage
from email.utils import localtime

from send_once import FileStore, Ledger, send_key
from send_once.mail import Accepted, SMTPSender, derive_message_id


def reminder(key: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "billing@example.com"
    message["To"] = "ana@example.com"
    message["Subject"] = "Invoice 1042 is due on Friday"
    message["Date"] = localtime()
    message["Message-ID"] = derive_message_id(key, "example.com")
    message.set_content("Hello Ana,\n\nyour invoice 1042 is due on Friday.\n")
    return message


def main(port: int, ledger_path: str) -> None:
    key = send_key(channel="email", to="ana@example.com", intent="invoice-reminder:inv_1042")
    sender = SMTPSender("127.0.0.1", port, security="none")

    def send() -> Accepted:
        return sender.send(reminder(key), to="ana@example.com")

    if ledger_path == "-":
        send()
        print("sent, and nothing remembers it")
        return
    with Ledger(FileStore(ledger_path)) as ledger:
        print(ledger.once(key, send, {"to": "ana@example.com"}).outcome)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
