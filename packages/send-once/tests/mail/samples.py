"""Messages, senders and certificates the mail tests share."""

from __future__ import annotations

import ssl
from email.headerregistry import Address
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from send_once.mail import Finding, SMTPSender, check, derive_message_id, render

TLS = Path(__file__).parent / "tls"
"""Self-signed, for loopback only: `server.pem` for localhost and 127.0.0.1, `other.pem` for another name."""

TO = "ana@example.com"
FROM = "app@example.com"
DATE = "Tue, 01 Dec 2026 09:00:00 +0000"


def message(**headers: str | Address | None) -> EmailMessage:
    """A complete message; `headers` replace (or with None remove) its own, `_` standing for `-`."""
    wanted: dict[str, str | Address | None] = {
        "From": FROM,
        "To": TO,
        "Subject": "Your invoice",
        "Date": DATE,
        "Message-ID": derive_message_id("invoice-reminder:inv_1042", "example.com"),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    made = EmailMessage()
    for name, value in wanted.items():
        if value is not None:
            made[name] = value
    made.set_content("Invoice 1042 is due on Friday.\n")
    return made


def sender(port: int, **settings: Any) -> SMTPSender:
    """A sender to loopback with limits no healthy dialogue reaches. Any: SMTPSender's own arguments."""
    limits = {f"{name}_timeout_seconds": 20.0 for name in ("connect", "command", "data", "final_reply")}
    return SMTPSender("127.0.0.1", port, **{"security": "none", **limits, **settings})


def server_context(name: str = "server") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / f"{name}.pem")
    return context


def trusting_context() -> ssl.SSLContext:
    """A client's context that trusts `server.pem` and verifies as usual."""
    return ssl.create_default_context(cafile=str(TLS / "server.pem"))


def raw_of(sent: EmailMessage, *, to: str = TO) -> bytes:
    return render(sent, to=to, envelope_from=FROM)


def codes(findings: tuple[Finding, ...], severity: str = "error") -> set[tuple[str, str | None]]:
    return {(finding.code, finding.header) for finding in findings if finding.severity == severity}


def findings_of(raw: bytes, sent: EmailMessage | None = None, *, to: str = TO) -> set[tuple[str, str | None]]:
    return codes(check(raw, to=to, message=sent or message()))
