"""What the table's columns say, taken from the text of an entry."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from send_once.entry import Entry
from send_once.moves import claimed, sent
from send_once.owner import new_mark
from send_once.stores.statements import GET, INSERT, UPDATE, row_of, statement


@pytest.mark.parametrize(
    ("text", "updated_at"),
    [
        ('{"key":"k","status":"sent","claimedAt":"a","updatedAt":"b"}', "b"),
        ('{"key":"k{","status":"sent","claimedAt":"a","updatedAt":"b"}', "b"),
        ('{"meta":{"claimedAt":"a","updatedAt":"x"},"key":"k","status":"sent","claimedAt":"a","updatedAt":"b"}', "b"),
        ('{"key":"k","status":"sent","claimedAt":"a","updatedAt":"b\\"c"}', 'b"c'),
        ('{"key":"k","status":"sent","claimedAt":"a","updatedAt":null}', "a"),
        ('{"key":"k","status":"sent","claimedAt":"a"}', "a"),
        ('{"status":"sent","updatedAt":"b","claimedAt":"a","key":"k"}', "b"),
    ],
)
def test_the_column_says_when_the_entry_was_updated(text: str, updated_at: str) -> None:
    entry = Entry.from_text(text)
    assert entry is not None
    assert row_of(entry).updated_at == updated_at


@given(st.text(min_size=1), st.recursive(st.none() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_it_does_so_for_every_key_and_meta(key: str, meta: object) -> None:
    entry = claimed(key, meta=meta, mark=new_mark(), now_ms=0)
    for state in (entry, sent(entry, provider_id="p", now_ms=5)):
        assert row_of(state).updated_at == json.loads(state.text)["updatedAt"]


def test_parameters_come_in_the_order_in_which_a_driver_wants_them() -> None:
    values = {name: name.upper() for name in ("key", "status", "entry", "claimed_at", "updated_at", "from_status")}
    values["from_entry"] = "BEFORE"
    assert statement(GET, "t", "named").parameters(values) == {"key": "KEY"}
    assert statement(UPDATE, "t", "dollar").parameters(values)[:3] == ["KEY", "FROM_STATUS", "STATUS"]  # type: ignore[index]  # a list
    assert statement(UPDATE, "t", "format").parameters(values)[-2:] == ["FROM_STATUS", "BEFORE"]  # type: ignore[index]  # a list
    assert "VALUES (%s, %s, %s, %s, %s)" in statement(INSERT, "t", "format").sql
