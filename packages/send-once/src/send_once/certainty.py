"""What an exception says about the send: failed (not accepted, for certain) or unknown (it may have been).

The table names exceptions by module and class, so that nothing has to be imported to recognise
them, and a second copy of this package is recognised too. The first name along an exception's
class order that the table knows decides; then its causes are asked. Anything the table does not
know is `failed`, as in the reference, unless the ledger was made with `unclassified="unknown"`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

Certainty = Literal["failed", "unknown"]
Verdict = Literal["failed", "unknown", "look inside", "by status", "by reply code"]

CAUSES_MAX: Final = 20

_HTTPX: Final[Mapping[str, Verdict]] = {
    "ConnectError": "failed",
    "ConnectTimeout": "failed",
    "PoolTimeout": "failed",
    "UnsupportedProtocol": "failed",
    "LocalProtocolError": "failed",
    "ProxyError": "failed",
    "InvalidURL": "failed",
    "HTTPStatusError": "by status",
    "HTTPError": "unknown",
    "StreamError": "unknown",
}

TABLE: Final[Mapping[str, Verdict]] = {
    # What a send function says itself.
    "send_once.errors.RejectedSendError": "failed",
    "send_once.errors.UncertainSendError": "unknown",
    "send_once.errors.InvalidInputError": "failed",
    "send_once.errors.ResultRefusedError": "unknown",
    # Python: refused and unresolved names come before any byte was sent; all others may come after.
    "builtins.ConnectionRefusedError": "failed",
    "socket.gaierror": "failed",
    "ssl.SSLCertVerificationError": "failed",
    "ssl.SSLError": "unknown",
    "builtins.TimeoutError": "unknown",
    "builtins.ConnectionError": "unknown",
    "builtins.EOFError": "unknown",
    "subprocess.TimeoutExpired": "unknown",
    "http.client.IncompleteRead": "unknown",
    "http.client.BadStatusLine": "unknown",
    "http.client.CannotSendRequest": "failed",
    "http.client.InvalidURL": "failed",
    "http.client.HTTPException": "unknown",
    "urllib.error.HTTPError": "by status",
    "urllib.error.URLError": "look inside",
    # smtplib raises SMTPServerDisconnected for a stall before 354 and after the final dot alike.
    "smtplib.SMTPServerDisconnected": "unknown",
    "smtplib.SMTPSenderRefused": "failed",
    "smtplib.SMTPRecipientsRefused": "failed",
    "smtplib.SMTPConnectError": "failed",
    "smtplib.SMTPHeloError": "failed",
    "smtplib.SMTPAuthenticationError": "failed",
    "smtplib.SMTPNotSupportedError": "failed",
    "smtplib.SMTPDataError": "by reply code",
    "smtplib.SMTPException": "unknown",
    "aiosmtplib.errors.SMTPConnectError": "failed",
    "aiosmtplib.errors.SMTPHeloError": "failed",
    "aiosmtplib.errors.SMTPAuthenticationError": "failed",
    "aiosmtplib.errors.SMTPNotSupported": "failed",
    "aiosmtplib.errors.SMTPSenderRefused": "failed",
    "aiosmtplib.errors.SMTPRecipientRefused": "failed",
    "aiosmtplib.errors.SMTPRecipientsRefused": "failed",
    "aiosmtplib.errors.SMTPDataError": "by reply code",
    "aiosmtplib.errors.SMTPException": "unknown",
    # httpx and httpx2 keep refused and dropped apart.
    **{f"{package}.{name}": verdict for package in ("httpx", "httpx2") for name, verdict in _HTTPX.items()},
    # requests: one ConnectionError for refused and dropped; the urllib3 error inside tells.
    "requests.exceptions.ConnectTimeout": "failed",
    "requests.exceptions.MissingSchema": "failed",
    "requests.exceptions.InvalidSchema": "failed",
    "requests.exceptions.InvalidURL": "failed",
    "requests.exceptions.SSLError": "look inside",
    "requests.exceptions.ConnectionError": "look inside",
    "requests.exceptions.HTTPError": "by status",
    "requests.exceptions.RequestException": "unknown",
    "urllib3.exceptions.NewConnectionError": "failed",
    "urllib3.exceptions.NameResolutionError": "failed",
    "urllib3.exceptions.ConnectTimeoutError": "failed",
    "urllib3.exceptions.LocationValueError": "failed",
    "urllib3.exceptions.MaxRetryError": "look inside",
    "urllib3.exceptions.HTTPError": "unknown",
    # aiohttp
    "aiohttp.client_exceptions.ClientConnectorError": "failed",
    "aiohttp.client_exceptions.ConnectionTimeoutError": "failed",
    "aiohttp.client_exceptions.InvalidURL": "failed",
    "aiohttp.client_exceptions.ClientResponseError": "by status",
    "aiohttp.client_exceptions.ClientError": "unknown",
    # botocore
    "botocore.exceptions.EndpointConnectionError": "failed",
    "botocore.exceptions.ConnectTimeoutError": "failed",
    "botocore.exceptions.ParamValidationError": "failed",
    "botocore.exceptions.NoCredentialsError": "failed",
    "botocore.exceptions.HTTPClientError": "unknown",
    "botocore.exceptions.ConnectionError": "unknown",
}
"""Exception (module.class) → what it says. Pass your own, merged over this one, as
`Ledger(..., certainty={...})`."""

UNKNOWN_ERRNOS: Final = frozenset(
    {
        errno.ETIMEDOUT,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.EPIPE,
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

REFUSED_REPLY_CODE_MIN: Final = 400
REFUSED_REPLY_CODE_MAX: Final = 599

Classify = Callable[[BaseException], Certainty]


def classifier(table: Mapping[str, Verdict] | None = None, *, unclassified: Certainty = "failed") -> Classify:
    """A function from an exception to what it says about the send, by `table` over the default one."""
    merged = TABLE if table is None else {**TABLE, **table}

    def classify(error: BaseException) -> Certainty:
        return certainty_of(error, table=merged, unclassified=unclassified)

    return classify


def certainty_of(
    error: BaseException, *, table: Mapping[str, Verdict] = TABLE, unclassified: Certainty = "failed"
) -> Certainty:
    """What `error` says about the send.

    An error the table knows decides alone. One it does not know (a wrapper) is unknown if any of
    its causes is; it is never `failed` on the word of a cause only.
    """
    own = _own_verdict(error, table)
    if own is not None:
        return own
    inner = [_own_verdict(cause, table) for cause in _causes(error)]
    return "unknown" if "unknown" in inner else unclassified


def _own_verdict(error: BaseException, table: Mapping[str, Verdict]) -> Certainty | None:
    verdict = next((table[name] for name in _names(error) if name in table), None)
    match verdict:
        case None:
            return _bare_os_error(error)
        case "failed" | "unknown":
            return verdict
        case "by status":
            return _by_http_status(error)
        case "by reply code":
            return _by_reply_code(error)
        case "look inside":
            return _by_what_is_inside(error, table)


def _names(error: BaseException) -> Iterator[str]:
    for cls in type(error).__mro__:
        module = "builtins" if cls.__module__ == "builtins" else cls.__module__
        yield f"{module}.{cls.__qualname__}"
        yield f"{module.partition('.')[0]}.{cls.__qualname__}"


def _bare_os_error(error: BaseException) -> Certainty | None:
    return "unknown" if isinstance(error, OSError) and error.errno in UNKNOWN_ERRNOS else None


def _by_http_status(error: BaseException) -> Certainty:
    response = getattr(error, "response", None)
    source = error if response is None else response
    status = next(
        (
            value
            for value in (getattr(source, name, None) for name in ("status_code", "status", "code"))
            if isinstance(value, int)
        ),
        None,
    )
    if status not in NOT_ACCEPTED_STATUSES:
        return "unknown"
    return "unknown" if _looks_like_html(source) else "failed"


def _looks_like_html(source: object) -> bool:
    """A 4xx whose body is a web page may come from a proxy on the way back, not from the provider."""
    headers = getattr(source, "headers", None)
    try:
        content_type = headers.get("content-type") or headers.get("Content-Type") or "" if headers is not None else ""
    except Exception:  # noqa: BLE001  # foreign header objects may do anything; then nothing is known of the body
        return False
    return "html" in str(content_type).lower()


def _by_reply_code(error: BaseException) -> Certainty:
    """SMTP: 4yz and 5yz to the message refuse it (RFC 5321 4.2.5); smtplib's -1 and 2yz do not."""
    code = getattr(error, "smtp_code", getattr(error, "code", None))
    return "failed" if isinstance(code, int) and REFUSED_REPLY_CODE_MIN <= code <= REFUSED_REPLY_CODE_MAX else "unknown"


def _by_what_is_inside(error: BaseException, table: Mapping[str, Verdict]) -> Certainty:
    """A wrapper that stands for refused and dropped alike: failed only if everything inside says so."""
    verdicts = [_own_verdict(inner, table) for inner in _insides(error) if inner is not error]
    known = [verdict for verdict in verdicts if verdict is not None]
    return "failed" if known and all(verdict == "failed" for verdict in known) else "unknown"


def _insides(error: BaseException) -> Iterator[BaseException]:
    for value in (getattr(error, "reason", None), *error.args):
        if isinstance(value, BaseException):
            yield value


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    current: BaseException | None = error
    for _ in range(CAUSES_MAX):
        current = _cause(current) if current is not None else None
        if current is None or id(current) in seen:
            return
        seen.add(id(current))
        yield current


def _cause(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__
