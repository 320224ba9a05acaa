"""What an exception says about the send: failed (not accepted, for certain) or unknown (it may have been).

The table names exceptions by module and class, so that nothing has to be imported to recognise
them, and a second copy of this package is recognised too. The first name along an exception's
class order that the table knows decides; then what the exception shows by itself (`showing`), then
its causes. Anything that is still not known is `failed`, as in the reference, unless the ledger was
made with `unclassified="unknown"`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, get_args

from send_once.errors import InvalidInputError
from send_once.foreign import attribute
from send_once.showing import NOT_ACCEPTED_STATUSES, is_named_after_a_lost_connection, leaves_it_open

Certainty = Literal["failed", "unknown"]
Verdict = Literal["failed", "unknown", "look inside", "by status", "by reply code"]

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
    "asyncio.exceptions.LimitOverrunError": "unknown",
    "subprocess.TimeoutExpired": "unknown",
    # The send ran elsewhere, and its process died or its answer was lost on the way back.
    "concurrent.futures._base.BrokenExecutor": "unknown",
    "multiprocessing.pool.MaybeEncodingError": "unknown",
    "billiard.exceptions.WorkerLostError": "unknown",
    # An answer came, and was not what the send function expects of a provider.
    "json.decoder.JSONDecodeError": "unknown",
    "http.client.IncompleteRead": "unknown",
    "http.client.BadStatusLine": "unknown",
    "http.client.CannotSendRequest": "failed",
    "http.client.InvalidURL": "failed",
    "http.client.HTTPException": "unknown",
    "urllib.error.HTTPError": "by status",
    "urllib.error.URLError": "look inside",
    "xmlrpc.client.ProtocolError": "unknown",
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
    "urllib3.exceptions.SSLError": "look inside",
    "urllib3.exceptions.HTTPError": "unknown",
    # aiohttp
    "aiohttp.client_exceptions.ClientConnectorError": "failed",
    "aiohttp.client_exceptions.ConnectionTimeoutError": "failed",
    "aiohttp.client_exceptions.InvalidURL": "failed",
    "aiohttp.client_exceptions.ClientResponseError": "by status",
    "aiohttp.client_exceptions.ClientError": "unknown",
    # gRPC makes some statuses itself, also after the server has done its work (gRPC, "Status codes").
    "grpc.RpcError": "unknown",
    "google.api_core.exceptions.GoogleAPICallError": "by status",
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

REFUSED_REPLY_CODE_MIN: Final = 400
REFUSED_REPLY_CODE_MAX: Final = 599

_OWN_ERRORS: Final = "send_once.errors"
_OWN_ERRORS_COPIED: Final = f".{_OWN_ERRORS}"
"""A copy of this package inside another one, as bundlers make them."""

Classify = Callable[[BaseException], Certainty]


def classifier(table: Mapping[str, Verdict] | None = None, *, unclassified: Certainty = "failed") -> Classify:
    """A function from an exception to what it says about the send, by `table` over the default one."""
    merged = TABLE if table is None else {**TABLE, **_checked(table)}

    def classify(error: BaseException) -> Certainty:
        return certainty_of(error, table=merged, unclassified=unclassified)

    return classify


def certainty_of(
    error: BaseException, *, table: Mapping[str, Verdict] = TABLE, unclassified: Certainty = "failed"
) -> Certainty:
    """What `error` says about the send.

    An error the table knows decides alone. One it does not know is unknown if it shows that it leaves
    the send open, if (a wrapper, a group) any of its causes is unknown, or if it is named after a lost
    connection and no cause says that the connection was never made; it is never `failed` on the word of
    a cause only. Never raises: an error that cannot be looked at is unknown.
    """
    try:
        own = _own_verdict(error, table)
        if own is not None:
            return own
        causes = list(_causes(error))
        inner = [_own_verdict(cause, table) for cause in causes]
        if "failed" not in inner and any(is_named_after_a_lost_connection(each) for each in (error, *causes)):
            return "unknown"
    except Exception:  # noqa: BLE001  # a foreign exception may do anything; the send has run all the same
        return "unknown"
    return "unknown" if "unknown" in inner else unclassified


def _checked(table: Mapping[str, Verdict]) -> Mapping[str, Verdict]:
    """A misspelt row would be passed over, and its error taken for a refusal."""
    if not isinstance(table, Mapping):
        raise InvalidInputError("certainty must map exceptions, as module.Class, to verdicts.", field="certainty")
    for name, verdict in table.items():
        if not isinstance(name, str) or "." not in name:
            raise InvalidInputError(
                f"certainty: {name!r} must name an exception as text: its module, a dot, its class.", field="certainty"
            )
        if verdict not in get_args(Verdict):
            raise InvalidInputError(
                f"certainty: {name} must be one of {', '.join(get_args(Verdict))}, not {verdict!r}.", field="certainty"
            )
    return table


def _own_verdict(error: BaseException, table: Mapping[str, Verdict]) -> Certainty | None:
    verdict = next((table[name] for name in _names(error) if name in table), None)
    match verdict:
        case None:
            return "unknown" if leaves_it_open(error) else None
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
        module = str(cls.__module__)
        yield f"{module}.{cls.__qualname__}"
        yield f"{module.partition('.')[0]}.{cls.__qualname__}"
        if module.endswith(_OWN_ERRORS_COPIED):
            yield f"{_OWN_ERRORS}.{cls.__qualname__}"


def _by_http_status(error: BaseException) -> Certainty:
    response = attribute(error, "response")
    source = error if response is None else response
    values = (attribute(source, name) for name in ("status_code", "status", "code"))
    status = next((value for value in values if isinstance(value, int)), None)
    if status not in NOT_ACCEPTED_STATUSES:
        return "unknown"
    return "unknown" if _looks_like_html(source) else "failed"


def _looks_like_html(source: object) -> bool:
    """A 4xx whose body is a web page may come from a proxy on the way back, not from the provider."""
    get = attribute(attribute(source, "headers"), "get")
    try:
        content_type = (get("content-type") or get("Content-Type") or "") if callable(get) else ""
    except Exception:  # noqa: BLE001  # foreign header objects may do anything; then nothing is known of the body
        return False
    return "html" in str(content_type).lower()


def _by_reply_code(error: BaseException) -> Certainty:
    """SMTP: 4yz and 5yz to the message refuse it (RFC 5321 4.2.5); smtplib's -1 and 2yz do not."""
    codes = (attribute(error, name) for name in ("smtp_code", "code"))
    code = next((code for code in codes if isinstance(code, int)), 0)
    return "failed" if REFUSED_REPLY_CODE_MIN <= code <= REFUSED_REPLY_CODE_MAX else "unknown"


def _by_what_is_inside(error: BaseException, table: Mapping[str, Verdict]) -> Certainty:
    """A wrapper that stands for refused and dropped alike: failed only if everything inside says so."""
    verdicts = [_own_verdict(inner, table) for inner in _insides(error) if inner is not error]
    known = [verdict for verdict in verdicts if verdict is not None]
    return "failed" if known and all(verdict == "failed" for verdict in known) else "unknown"


def _insides(error: BaseException) -> Iterator[BaseException]:
    for value in (attribute(error, "reason"), *error.args):
        if isinstance(value, BaseException):
            yield value


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Everything that led to `error`, whatever way it was wrapped; not `error` itself."""
    seen = {id(error)}
    waiting = list(_next_causes(error))
    while waiting:
        cause = waiting.pop()
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting.extend(_next_causes(cause))


def _next_causes(error: BaseException) -> Iterator[BaseException]:
    # Also a context that `raise ... from None` keeps out of the traceback: clients of providers do
    # that to their own timeouts and 5xx, and hiding a cause does not undo it.
    for cause in (error.__cause__, error.__context__):
        if cause is not None:
            yield cause
    if isinstance(error, BaseExceptionGroup):
        yield from error.exceptions
