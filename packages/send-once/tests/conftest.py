"""Fixtures that any test may ask for: real servers, started when the first test needs them."""

from __future__ import annotations

import signal

from servers.postgres import postgres, postgres_dsn, postgres_server, postgres_url

__all__ = ["postgres", "postgres_dsn", "postgres_server", "postgres_url"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # What a shell starts in the background ignores Ctrl-C, and every child of it: tests that press it would hang.
    signal.signal(signal.SIGINT, signal.default_int_handler)
