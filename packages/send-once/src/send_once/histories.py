"""What an entry was, from the entry itself: for stores that keep only the current state."""

from __future__ import annotations

from collections.abc import Sequence

from send_once.entry import Entry, Json, is_entry


def earlier_states(entry: Entry | None) -> Sequence[Entry]:
    """One state for each earlier attempt that the claim remembers, oldest first, then the entry."""
    if entry is None:
        return ()
    mark = entry.claim
    records = mark.before if mark is not None else ()
    earlier = (_state_of(entry.key, record) for record in records if isinstance(record, dict))
    return (*(state for state in earlier if state is not None), entry)


def _state_of(key: str, record: dict[str, Json]) -> Entry | None:
    members = {
        "key": key,
        "status": record.get("status"),
        "attempts": record.get("attempt"),
        "claimedAt": record.get("claimedAt"),
        "updatedAt": record.get("updatedAt"),
        "meta": None,
        **{name: record[name] for name in ("error", "resolution") if record.get(name) is not None},
    }
    return Entry(members) if is_entry(members) else None
