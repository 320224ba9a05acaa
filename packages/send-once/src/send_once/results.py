"""Which returned values cannot stand for a sent message."""

from __future__ import annotations

from typing import Final

from send_once.errors import ResultRefusedError
from send_once.foreign import attribute, is_a, is_named
from send_once.outcomes import Claimed, Expired, Failed, PayloadChanged, StaleFacts, Unknown

_HTTP_REFUSED_MIN: Final = 300
_HTTP_STATUS_MAX: Final = 599
_PLAIN: Final = (str, dict, bytes, int, float, list, tuple)
_NOT_SENT: Final = (Failed, Unknown, Claimed, Expired, PayloadChanged, StaleFacts)
_COMMANDS: Final = frozenset({"subprocess.CompletedProcess", "subprocess.Popen", "asyncio.subprocess.Process"})
_REMEDY: Final = (
    "The entry stays pending. In send, raise RejectedSendError for a definite refusal or UncertainSendError, "
)


def refuse_result(result: object) -> ResultRefusedError | None:
    """The error for a returned value that does not say that the message was accepted, else None.

    - An HTTP response with an error status, or a redirect nobody followed. Recognised by its shape (an
      integer `status_code` or `status` beside `headers`), as in httpx, requests, aiohttp and http.client.
      Mappings and plain values are never taken for responses.
    - A command (subprocess) that failed, or that has not ended.
    - An outcome of another guarded send that says that nothing went out, or may not have.
    """
    if result is None or is_a(result, _PLAIN):
        return None
    status = http_error_status(result)
    if status is not None:
        what = f"an HTTP response with status {status}, which does not say that the message was accepted"
        return _refused(what, "or call response.raise_for_status().", result)
    if is_a(result, _NOT_SENT):
        what = f"the outcome {attribute(result, 'outcome')} of another send"
        return _refused(what, "according to that outcome.", result)
    if is_named(result, _COMMANDS):
        return _refused_command(result)
    return None


def http_error_status(result: object) -> int | None:
    """The status of an HTTP response object that is no success (300 and above), or None for anything else.

    A redirect counts, because a client that returns one has not followed it (RFC 9110 section 15.4)."""
    if attribute(result, "headers") is None:
        return None
    for name in ("status_code", "status"):
        status = attribute(result, name)
        if is_a(status, int) and not is_a(status, bool):
            return status if _HTTP_REFUSED_MIN <= status <= _HTTP_STATUS_MAX else None
    return None


def _refused_command(result: object) -> ResultRefusedError | None:
    status = attribute(result, "returncode")
    if status == 0:
        return None
    state = "has not ended" if status is None else f"ended with exit status {status}"
    return _refused(f"a command that {state}", "or run it with check=True.", result)


def _refused(what: str, or_else: str, result: object) -> ResultRefusedError:
    return ResultRefusedError(f"send returned {what}. {_REMEDY}{or_else}", result=result)
