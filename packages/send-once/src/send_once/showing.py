"""What an exception that nobody has listed shows by itself: a time limit, a server's error, a killed process.

Only ever towards `unknown`. A library nobody has heard of is not listed in the table of `certainty`,
and its timeout is a timeout all the same; taking it for a refusal would send the message again.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from typing import Final

from send_once.foreign import attribute

UNKNOWN_ERRNOS: Final = frozenset(
    {
        errno.ETIMEDOUT,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.EPIPE,
        errno.ENOTCONN,
        errno.ESHUTDOWN,
        errno.ENETRESET,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ENETDOWN,
        errno.EIO,
    }
)
"""For a bare OSError: these may come after the message was handed over."""

NOT_ACCEPTED_STATUSES: Final = frozenset(range(400, 500)) - {408, 409}
"""HTTP statuses that refuse. 408 and 409 leave it open: the request may be running, or have run."""

STATUSES_THAT_LEAVE_IT_OPEN: Final = frozenset({*range(500, 600), 408, 409})

_TIME_LIMITS: Final = ("timeout", "timedout", "timelimit", "deadline")
_LOST_CONNECTIONS: Final = (
    "disconnect",
    "connectionlost",
    "connectionclosed",
    "connectionreset",
    "connectionaborted",
    "connectiondone",
    "connectionerror",
    "connectioninterrupted",
    "networkerror",
    "transporterror",
    "streamclosed",
)
_STATUS_NAMES: Final = ("status_code", "status", "http_status", "code")
_SHELL_KILLED: Final = 128
"""A shell answers 128 and the signal's number for a command that a signal ended (POSIX, sh, 2.8.2)."""


def leaves_it_open(error: BaseException) -> bool:
    """Whether the exception says of itself that the message may have been accepted."""
    return (
        _is_time_limit(error)
        or _is_broken_connection(error)
        or any(status in STATUSES_THAT_LEAVE_IT_OPEN for status in _http_statuses(error))
        or _is_killed_process(error)
    )


def _is_time_limit(error: BaseException) -> bool:
    """By name: job queues raise their time limits in the middle of a send (SoftTimeLimitExceeded,
    JobTimeoutException), and clients have timeouts of their own that are not Python's TimeoutError."""
    names = (cls.__name__.lower() for cls in type(error).__mro__)
    return any(word in name for name in names for word in _TIME_LIMITS)


def is_named_after_a_lost_connection(error: BaseException) -> bool:
    """By name as well; but such a name may stand for a connection that was refused, so that a cause that
    says so is asked first."""
    names = (cls.__name__.lower() for cls in type(error).__mro__)
    return any(word in name for name in names for word in _LOST_CONNECTIONS)


def _is_broken_connection(error: BaseException) -> bool:
    number = attribute(error, "errno") if isinstance(error, OSError) else None
    return isinstance(number, int) and number in UNKNOWN_ERRNOS


def _http_statuses(error: BaseException) -> Iterator[int]:
    """The statuses a provider's client puts on its exception, or on the response in it."""
    for source in (error, attribute(error, "response"), attribute(error, "resp")):
        for name in _STATUS_NAMES:
            value = attribute(source, name)
            # A plain number as `code` may be anyone's, an SMTP reply's for one.
            if isinstance(value, int) and (name != "code" or type(value).__name__ == "HTTPStatus"):
                yield int(value)
        if isinstance(source, Mapping):
            status = _in_aws_metadata(source)
            if isinstance(status, int):
                yield status


def _in_aws_metadata(response: Mapping[object, object]) -> object:
    metadata = response.get("ResponseMetadata")
    return metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None


def _is_killed_process(error: BaseException) -> bool:
    """A command that was ended by a signal did not refuse; any other exit status is its own answer."""
    status = attribute(error, "returncode")
    return isinstance(status, int) and (status < 0 or status > _SHELL_KILLED)
