"""The ledger's record of one key, and the legal moves between its three states.

An entry is JSON, byte for byte the reference's, with one member more at its end: `claim` says who
holds the attempt (see :class:`ClaimMark`). Members of unknown origin are kept and handed back.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, final

from send_once import jsontext
from send_once.errors import InvalidInputError

Json = Any
"""A JSON value as Python holds it: dict, list, str, int, float, bool or None."""


class Status(StrEnum):
    """The three states of an entry. Compares equal to its text."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


LEGAL_MOVES: Final[Mapping[Status, frozenset[Status]]] = {
    Status.PENDING: frozenset({Status.PENDING, Status.SENT, Status.FAILED}),
    Status.FAILED: frozenset({Status.PENDING, Status.SENT}),
    Status.SENT: frozenset(),
}
"""From each state, the states a transition may lead to. `sent` is final."""

_STATUS_BY_TEXT: Final = {status.value: status for status in Status}
_CLAIM: Final = "claim"
_ATTEMPTS_END: Final = 2**53
_DOUBLE_MAX: Final = 1.7976931348623157e308


class ClaimMark(NamedTuple):
    """Who made a claim: the entry's last member.

    `id` is 32 hex digits, new for every claim; every later write names it. `host`, `pid` and
    `start` (of the process, not of the claim) let an audit say whether the process is still
    there. `payload` is the sha256 of the payload where one was given. `before` holds short
    records of earlier attempts, so that a store without history still shows who allowed a retry.
    """

    id: str
    host: str
    pid: int
    start: str
    payload: str | None = None
    before: tuple[Json, ...] = ()

    def to_json(self) -> dict[str, Json]:
        members: dict[str, Json] = {"id": self.id, "host": self.host, "pid": self.pid, "start": self.start}
        if self.payload is not None:
            members["payload"] = self.payload
        if self.before:
            members["before"] = list(self.before)
        return members

    def to_text(self) -> str:
        """The JSON text of :meth:`to_json`."""
        if self.payload is not None or self.before:
            return jsontext.stringify(self.to_json(), where="claim")
        return f'{{"id":"{self.id}",{_owner_text(self.host, self.pid, self.start)}}}'


@lru_cache(maxsize=8)
def _owner_text(host: str, pid: int, start: str) -> str:
    """The same for every claim of a process."""
    return f'"host":{jsontext.stringify_text(host)},"pid":{pid},"start":{jsontext.stringify_text(start)}'


class Parts(NamedTuple):
    """JSON texts of one entry: of its key, of its `meta` and of its `claim`, None where it has none."""

    key: str
    meta: str | None
    claim: str | None


@final
class Entry:
    """An immutable ledger record.

    Two entries are equal when their JSON text is. `text` is the exact JSON text: as it was read
    from a store, or as it will be written; stores compare it to notice any change underneath.
    """

    __slots__ = (
        "_attempts",
        "_claim_id",
        "_claimed_at",
        "_key",
        "_parsed",
        "_parts",
        "_status",
        "_text",
        "_updated_at",
    )

    def __init__(self, members: Mapping[str, Json], text: str | None = None) -> None:
        """From members that pass :func:`is_entry`, and the text they were read from, if they were."""
        self._parsed: Mapping[str, Json] | None = members
        self._text = text
        self._parts: Parts | None = None
        self._key: str = members["key"]
        self._status = _STATUS_BY_TEXT[members["status"]]
        self._attempts = attempt_number(members.get("attempts"))
        self._claimed_at: str = members["claimedAt"]
        self._claim_id = _claim_id(members.get(_CLAIM))
        updated_at = members.get("updatedAt")
        self._updated_at: str | None = updated_at if isinstance(updated_at, str) else None

    @classmethod
    def from_text(cls, text: str) -> Entry | None:
        """Read one JSON text. None when it is not JSON or not an entry (the reference's test:
        an object with a string `key`, a known `status` and a string `claimedAt`)."""
        try:
            members = jsontext.parse(text)
        except ValueError:
            return None
        return cls(members, text) if is_entry(members) else None

    @classmethod
    def composed(
        cls,
        text: str,
        parts: Parts,
        *,
        key: str,
        status: Status,
        attempts: int,
        claimed_at: str,
        updated_at: str,
        claim_id: str | None,
    ) -> Entry:
        """An entry from its finished text. Serialising is what a send costs most, so the text is put
        together from parts; the members are parsed only if someone looks at them."""
        entry = cls.__new__(cls)
        entry._compose(text, parts, key, status, attempts, claimed_at, updated_at, claim_id)  # noqa: SLF001  # a constructor
        return entry

    def _compose(
        self,
        text: str,
        parts: Parts,
        key: str,
        status: Status,
        attempts: int,
        claimed_at: str,
        updated_at: str,
        claim_id: str | None,
    ) -> None:
        self._text, self._parts, self._parsed = text, parts, None
        self._key, self._status, self._attempts = key, status, attempts
        self._claimed_at, self._updated_at, self._claim_id = claimed_at, updated_at, claim_id

    def parts(self) -> Parts:
        """The texts of the members that the next state of the same attempt takes over."""
        if self._parts is not None:
            return self._parts
        meta, claim = (_member_text(self._members, name) for name in ("meta", _CLAIM))
        return Parts(jsontext.stringify_text(self._key), meta, claim)

    @property
    def key(self) -> str:
        return self._key

    @property
    def status(self) -> Status:
        return self._status

    @property
    def attempts(self) -> int:
        """The attempt's number, 1, 2, …; 1 where a foreign entry carries none that can be used."""
        return self._attempts

    @property
    def claimed_at(self) -> str:
        """When this attempt was claimed: ISO 8601 text as stored (UTC with milliseconds when ours)."""
        return self._claimed_at

    @property
    def claim_id(self) -> str | None:
        """The id of the claim, which every later write names. None for entries of the reference."""
        return self._claim_id

    @property
    def updated_at(self) -> str | None:
        return self._updated_at

    @property
    def sent_at(self) -> str | None:
        return self._text_member("sentAt")

    @property
    def provider_id(self) -> str | None:
        return self._text_member("providerId")

    @property
    def error(self) -> str | None:
        return self._text_member("error")

    @property
    def uncertain(self) -> bool:
        """Whether the send ended in an error that leaves the outcome open."""
        return self._members.get("uncertain") is True

    @property
    def meta(self) -> Json:
        """What the caller attached at the claim. A snapshot; do not change it."""
        return self._members.get("meta")

    @property
    def resolution(self) -> Mapping[str, Json] | None:
        """Who settled it by hand or by evidence: status, from, by, note, at."""
        value = self._members.get("resolution")
        return value if isinstance(value, dict) else None

    @property
    def claim(self) -> ClaimMark | None:
        """Who holds the attempt. None for entries of the reference."""
        return _claim_mark(self._members.get(_CLAIM))

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = jsontext.stringify(self._members, where="entry", infinity_as_null=True)
        return self._text

    def to_json(self) -> dict[str, Json]:
        """A copy of the members, in stored order, for the caller to change as it likes."""
        copied: dict[str, Json] = jsontext.parse(self.text)
        return copied

    def evolve(self, changes: Mapping[str, Json]) -> Entry:
        """The entry with members replaced or added; `claim` stays the last one."""
        members = {**self._members, **changes}
        if _CLAIM in members:
            members[_CLAIM] = members.pop(_CLAIM)
        return Entry(members)

    def __getitem__(self, member: str) -> Json:
        return self._members[member]

    def has(self, member: str) -> bool:
        """Whether the stored JSON carries `member` at all (a missing `meta` differs from a null one)."""
        return member in self._members

    def same_attempt(self, other: Entry) -> bool:
        """Whether both describe one claim: the same id, or, where neither has one (the
        reference's entries), the same attempt number and claim time."""
        if self._claim_id is not None or other._claim_id is not None:
            return self._claim_id == other._claim_id
        return self._members.get("attempts") == other._members.get("attempts") and self.claimed_at == other.claimed_at

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Entry({self.text})"

    @property
    def _members(self) -> Mapping[str, Json]:
        if self._parsed is None:
            self._parsed = jsontext.parse(self.text)
        return self._parsed

    def _text_member(self, name: str) -> str | None:
        value = self._members.get(name)
        return value if isinstance(value, str) else None


def is_entry(value: object) -> bool:
    """The reference's test of a parsed line."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("key"), str)
        and isinstance(value.get("status"), str)
        and value["status"] in _STATUS_BY_TEXT
        and isinstance(value.get("claimedAt"), str)
    )


def attempt_number(value: Json) -> int:
    """A stored `attempts` as a number; 1 for anything that is not a positive whole number that a double
    can hold, because an entry exists only after at least one claim."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 1
    return int(value) if 1 <= value <= _DOUBLE_MAX and value == int(value) else 1


def countable(attempts: int) -> int:
    """`attempts`, or 1 for a number so large that the next is not another one (2**53 and above, as JSON's
    readers keep numbers): a retry must be told from what it follows."""
    return attempts if attempts < _ATTEMPTS_END else 1


def require_key(key: object) -> str:
    """The key, or InvalidInputError for anything but a non-empty string."""
    if not isinstance(key, str) or not key:
        raise InvalidInputError("A key must be a non-empty string.", field="key")
    return key


def _member_text(members: Mapping[str, Json], name: str) -> str | None:
    if name not in members:
        return None
    return jsontext.stringify(members[name], where=name, infinity_as_null=True)


def _claim_id(mark: Json) -> str | None:
    value = mark.get("id") if isinstance(mark, dict) else None
    return value if isinstance(value, str) else None


def _claim_mark(value: Json) -> ClaimMark | None:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        return None
    host, pid, start = value.get("host"), value.get("pid"), value.get("start")
    payload, before = value.get("payload"), value.get("before")
    return ClaimMark(
        id=value["id"],
        host=host if isinstance(host, str) else "",
        pid=pid if isinstance(pid, int) else 0,
        start=start if isinstance(start, str) else "",
        payload=payload if isinstance(payload, str) else None,
        before=tuple(before) if isinstance(before, list) else (),
    )
