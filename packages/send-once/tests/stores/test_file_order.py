"""The file is the arbiter: what counts when writers did not keep apart, and what a failed write leaves.

Interleavings are written by hand: a store looks, a stranger appends, the store appends.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from send_once.entry import Entry, Status
from send_once.errors import StoreError, UnsafeStoreError
from send_once.ledger import Ledger
from send_once.moves import claimed, failed, resolved, retried, sent
from send_once.owner import new_mark
from send_once.stores.appending import append, new_line
from send_once.stores.file import FileStore
from send_once.stores.journal import End, Journal
from send_once.stores.linescan import kind_of, takes_over

NOW_MS = 1_790_510_400_000


def claim_of(key: str = "k") -> Entry:
    return claimed(key, meta=None, mark=new_mark(), now_ms=NOW_MS)


def by_node(entry: Entry) -> Entry:
    """The same entry as the reference writes it: it names no claim."""
    members = entry.to_json()
    members.pop("claim", None)
    return Entry(members)


def sent_from(entry: Entry) -> Entry:
    return sent(entry, provider_id="msg_1", now_ms=NOW_MS)


def failed_from(entry: Entry) -> Entry:
    return failed(entry, error="422", now_ms=NOW_MS)


def retry_of(entry: Entry) -> Entry:
    return retried(entry, meta=None, mark=new_mark(), now_ms=NOW_MS)


class Looked:
    """A store's reader that has looked at the file, and its writer, which has not appended yet."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self.journal = Journal(str(path))
        self.journal.refresh()
        self.fd = os.open(path, os.O_RDWR | os.O_APPEND)

    def append(self, *entries: Entry) -> list[bool]:
        lines = [new_line(entry, bytes_max=262_144) for entry in entries]
        looked = End(self.journal.size, self.journal.consumed == self.journal.size)
        return append(self.journal, self.fd, self.journal.identity, lines, looked)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def put(path: Path, *entries: Entry) -> None:
    with path.open("ab") as file:
        file.write(b"".join(entry.text.encode() + b"\n" for entry in entries))


def last_line(path: Path) -> str:
    return path.read_text().splitlines()[-1]


@pytest.mark.parametrize("by_reference", [False, True])
def test_a_claim_that_is_not_first_has_lost_and_the_winner_is_written_again(path: Path, by_reference: bool) -> None:
    looked, ours, theirs = Looked(path), claim_of(), claim_of()
    winner = by_node(theirs) if by_reference else theirs
    put(path, winner)
    assert looked.append(ours) == [False]
    assert FileStore(path).get("k") == winner
    assert last_line(path) == winner.text  # so that the reference, which believes the last line, agrees


def test_a_claim_next_to_another_key_stands(path: Path) -> None:
    looked, ours = Looked(path), claim_of()
    put(path, by_node(claim_of("other")))
    assert looked.append(ours) == [True]
    assert FileStore(path).get("k") == ours


def test_a_stranger_claiming_right_behind_us_stops_our_send(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, ours = Looked(path), claim_of()
    theirs = by_node(claim_of())
    sync: Callable[[int], None] = os.fdatasync

    def sync_with_a_stranger(fd: int) -> None:
        sync(fd)
        put(path, theirs)

    monkeypatch.setattr(os, "fdatasync", sync_with_a_stranger)
    with pytest.raises(UnsafeStoreError, match="at the same moment"):
        looked.append(ours)
    # Whatever the stranger's send becomes: sent is believed, and its failure does not free the key.
    put(path, failed_from(theirs))
    assert FileStore(path).get("k") == ours
    put(path, sent_from(theirs))
    assert FileStore(path).get("k") == sent_from(theirs)


def test_a_transition_that_came_too_late_is_refused_and_undone(path: Path) -> None:
    claim = claim_of()
    put(path, claim)
    looked = Looked(path)
    put(path, sent_from(claim))
    assert looked.append(failed_from(claim)) == [False]
    assert FileStore(path).get("k") == sent_from(claim)
    assert last_line(path) == sent_from(claim).text


def test_of_two_retries_of_one_failure_the_first_stands(path: Path) -> None:
    first = failed_from(claim_of())
    put(path, first)
    looked, winner = Looked(path), retry_of(first)
    put(path, winner)
    assert looked.append(retry_of(first)) == [False]
    assert FileStore(path).get("k") == winner


def test_in_a_batch_only_the_line_that_was_not_first_loses(path: Path) -> None:
    looked, theirs = Looked(path), by_node(claim_of("b"))
    put(path, theirs)
    batch = [claim_of("a"), claim_of("b"), claim_of("c")]
    assert looked.append(*batch) == [True, False, True]
    store = FileStore(path)
    assert (store.get("a"), store.get("b"), store.get("c")) == (batch[0], theirs, batch[2])


def test_a_late_failure_of_a_written_off_attempt_does_not_free_the_next_one(path: Path) -> None:
    first = claim_of()
    written_off = resolved(first, Status.FAILED, by="ops", note=None, provider_id=None, now_ms=NOW_MS)
    second = retry_of(written_off)
    put(path, first, written_off, second, failed_from(first))
    assert FileStore(path).get("k") == second


def test_a_late_success_of_a_written_off_attempt_counts(path: Path) -> None:
    first = claim_of()
    put(path, first, failed_from(first), retry_of(failed_from(first)), sent_from(first))
    current = FileStore(path).get("k")
    assert current is not None and current.status is Status.SENT


def any_entry() -> st.SearchStrategy[Entry]:
    base = claimed("k", meta=None, mark=new_mark(), now_ms=NOW_MS)
    marks = [new_mark().to_json(), new_mark().to_json(), None]

    def build(status: str, attempts: int, mark: object) -> Entry:
        members = {**base.to_json(), "status": status, "attempts": attempts, "claim": mark}
        if mark is None:
            del members["claim"]
        return Entry(members)

    return st.builds(build, st.sampled_from(["pending", "sent", "failed"]), st.integers(1, 3), st.sampled_from(marks))


@given(any_entry(), any_entry())
def test_nothing_but_a_failure_of_the_same_claim_makes_a_key_free_to_send_again(current: Entry, line: Entry) -> None:
    if line.status is not Status.FAILED or not takes_over(current, line):
        return
    assert current.status is not Status.SENT
    assert current.status is Status.FAILED or current.claim_id == line.claim_id


@given(any_entry(), any_entry())
def test_sent_is_left_only_as_the_reference_leaves_it(current: Entry, line: Entry) -> None:
    if current.status is Status.SENT and takes_over(current, line) and line.status is not Status.SENT:
        assert line.status is Status.PENDING
        assert current.claim_id is None and line.claim_id is None


def test_the_name_of_a_new_ledger_is_durable_before_its_first_claim(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def noting(name: str) -> Callable[[int], None]:
        real: Callable[[int], None] = getattr(os, name)

        def sync(fd: int) -> None:
            real(fd)
            synced.append(os.readlink(f"/proc/self/fd/{fd}"))

        return sync

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, noting(name))
    link = path.with_name("elsewhere")
    link.mkdir()
    (link / "link.jsonl").symlink_to(path)
    path.touch()
    FileStore(link / "link.jsonl").claim(claim_of())
    assert synced == [str(link), str(path.parent), str(path)]


@pytest.mark.parametrize("name", ["write", "fdatasync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_or_sync_leaves_no_claim_and_sends_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    store, calls = FileStore(path), list[int]()
    ledger = Ledger(store)
    ledger.once("before", lambda: "msg_1")
    content = path.read_bytes()
    real: Callable[..., int] = getattr(os, name)
    state = {"failing": True}

    def fails(fd: int, *data: bytes) -> int:
        if not state["failing"]:
            return real(fd, *data)
        if name == "write":
            real(fd, data[0][: len(data[0]) // 2])  # half of it had got through
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, name, fails)
    with pytest.raises(StoreError, match="has been taken back"):
        ledger.once("k", lambda: calls.append(1))
    assert (calls, path.read_bytes()) == ([], content)
    assert FileStore(path).get("k") is None
    state["failing"] = False
    assert ledger.once("k", lambda: "msg_2").outcome == "sent"


def test_a_short_write_is_carried_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    store, entry = FileStore(path), claim_of()
    assert store.claim(entry)
    assert path.read_text() == entry.text + "\n"


def test_a_write_the_kernel_only_claims_to_have_done_is_no_claim(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Looked(path)
    monkeypatch.setattr(os, "write", lambda fd, data: len(data))
    with pytest.raises(StoreError, match="does not hold what was written"):
        looked.append(claim_of())
    assert path.read_bytes() == b""


def test_a_write_of_which_the_kernel_lost_a_piece_is_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, real, lost = Looked(path), os.write, [5]

    def loses_a_piece(fd: int, data: bytes) -> int:
        return lost.pop() if lost else real(fd, data)

    monkeypatch.setattr(os, "write", loses_a_piece)
    with pytest.raises(StoreError, match="taken back"):
        looked.append(claim_of())
    assert path.read_bytes() == b""
    assert FileStore(path).claim(claim_of())


def test_a_stranger_writing_into_the_middle_of_our_line_makes_no_claim(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, real = Looked(path), os.write

    def interrupted(fd: int, data: bytes) -> int:
        written = real(fd, data[:20])
        if len(data) > 20:
            put(path, by_node(claim_of("other")))
        return written

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(UnsafeStoreError, match="another program has written after it"):
        looked.append(claim_of())


def test_what_cannot_be_taken_back_is_not_sent_and_shows_as_pending(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fails)
        broken.setattr(os, "ftruncate", fails)
        with pytest.raises(UnsafeStoreError, match="could not be taken back"):
            Ledger(FileStore(path)).once("k", lambda: calls.append(1))
    assert Ledger(FileStore(path)).once("k", lambda: calls.append(1)).outcome == "unknown"
    assert calls == []


def test_a_store_notices_a_line_of_the_same_length_in_place_of_one_taken_back(path: Path) -> None:
    store = FileStore(path)
    store.claim(claim_of("a"))
    start = path.stat().st_size
    put(path, claim_of("b"))
    assert store.get("b") is not None
    os.truncate(path, start)
    put(path, claim_of("c"))
    assert not store.claim(claim_of("c"))
    assert [entry.key for entry in store.list()] == ["a", "c"]


def test_a_reading_that_broke_off_is_not_taken_for_the_whole_ledger(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger(FileStore(path)).once("k", lambda: "msg_1")
    ledger, calls = Ledger(FileStore(path)), list[int]()

    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "pread", fails)
        with pytest.raises(StoreError, match="Input/output error"):
            ledger.once("k", lambda: calls.append(1))
    assert ledger.once("k", lambda: calls.append(1)).outcome == "duplicate"
    assert calls == []


def test_a_line_changed_in_place_is_read_anew(path: Path) -> None:
    store, entry = FileStore(path), claim_of()
    store.claim(entry)
    changed = entry.text.replace('"key":"k"', '"key":"j"')
    path.write_text(changed + "\n")
    assert store.get("k") is None
    assert [found.key for found in store.list()] == ["j"]


@pytest.mark.parametrize("how", ["removed", "cut", "replaced"])
def test_a_key_this_process_has_seen_is_not_sent_again_because_the_file_went(path: Path, how: str) -> None:
    ledger, calls = Ledger(FileStore(path)), list[int]()
    ledger.once("k", lambda: "msg_1")
    if how == "removed":
        path.unlink()
    elif how == "cut":
        os.truncate(path, 0)
    else:
        path.unlink()
        put(path, claim_of("other"))
    with pytest.raises(UnsafeStoreError, match="no longer holds an entry of k"):
        ledger.once("k", lambda: calls.append(1))
    assert calls == []
    assert ledger.once("new", lambda: "msg_2").outcome == "sent"


def test_a_file_replaced_while_it_is_written_to_is_not_taken_for_the_ledger(path: Path) -> None:
    looked = Looked(path)
    path.rename(path.with_suffix(".1"))
    path.touch()
    with pytest.raises(StoreError, match="removed or replaced"):
        looked.append(claim_of())


@given(st.data())
def test_every_cut_of_an_entry_is_torn_and_no_other_change_is(data: st.DataObject) -> None:
    entry = failed(retry_of(failed_from(claim_of("ključ 🎉"))), error='a "b" \\ \n 1.5e3', now_ms=NOW_MS)
    line = entry.text.encode()
    cut = data.draw(st.integers(1, len(line) - 1))
    assert kind_of(line[:cut]) == "torn"
    assert kind_of(line[:cut] + b"\0" * data.draw(st.integers(1, 9))) == "torn"
    assert kind_of(line[cut:]) == "damaged"
    assert kind_of(line + line[:cut]) == "damaged"
    assert kind_of(line) == "entry"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"ke',
        '{"key":"k","n":1.',
        '{"key":"k","n":1e',
        '{"key":"k","n":-',
        '{"key":"k","b":tr',
        '{"key":"k","s":"\\u00',
    ],
)
def test_a_cut_inside_any_token_is_torn(text: str) -> None:
    assert kind_of(text.encode()) == "torn"


@pytest.mark.parametrize(
    "text",
    [
        "x", "[", '{"status":"sent"', '{"key":"k",,', '{"key":"k"]', '{"key":"k","n":01', '{"key":"k","n":1.e',
        '{"key":"k","s":"a\tb', '{"key":"k","b":trx', '{"key":1}', '{"key" "k"', "\0\0\0", '{"key":"k","s":"\\x',
    ],
)  # fmt: skip
def test_what_no_crash_leaves_is_damage(text: str) -> None:
    assert kind_of(text.encode()) == "damaged"
