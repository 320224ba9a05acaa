"""Which returned values cannot stand for a sent message."""

from __future__ import annotations

from send_once.errors import ResultRefusedError
from send_once.foreign import attribute

_HTTP_ERROR_MIN = 400
_HTTP_STATUS_MAX = 599
_PLAIN = (str, dict, bytes, int, float, list, tuple)


def refuse_http_error(result: object) -> ResultRefusedError | None:
    """The error for a returned HTTP response with an error status, else None.

    Recognised by its shape (an integer `status_code` or `status` beside `headers`), as in httpx,
    requests, aiohttp and http.client. Mappings and plain values are never taken for responses.
    """
    status = http_error_status(result)
    if status is None:
        return None
    return ResultRefusedError(
        f"send returned an HTTP response with status {status}, which does not say that the message was accepted. "
        "The entry stays pending. In send, raise RejectedSendError for a definite refusal or UncertainSendError, "
        "or call response.raise_for_status().",
        result=result,
    )


def http_error_status(result: object) -> int | None:
    """The error status of an HTTP response object, or None for anything else."""
    if result is None or isinstance(result, _PLAIN):
        return None
    if attribute(result, "headers") is None:
        return None
    for name in ("status_code", "status"):
        status = attribute(result, name)
        if isinstance(status, int) and not isinstance(status, bool):
            return status if _HTTP_ERROR_MIN <= status <= _HTTP_STATUS_MAX else None
    return None
