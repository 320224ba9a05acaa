"""Where a server of the tests may listen."""

import socket


def free_port() -> int:
    """A loopback port that nobody listens on. Somebody may take it before the caller does; that is rare."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
