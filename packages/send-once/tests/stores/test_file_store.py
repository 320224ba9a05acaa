"""FileStore: what a caller may rely on, in one process."""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from send_once.entry import ClaimMark, Entry, Status
from send_once.errors import EntryTooLargeError, InvalidInputError, LedgerDamagedError, NotALedgerError, StoreError
from send_once.ledger import Ledger
from send_once.moves import claimed, failed, left_unknown, retried, sent
from send_once.owner import new_mark
from send_once.stores.file import FileStore
from send_once.stores.sqlite import SQLiteStore
from send_once.testing import StoreContract

NOW_MS = 1_790_510_400_000


class TestFileStore(StoreContract):
    @pytest.fixture(autouse=True)
    def in_directory(self, tmp_path: Path) -> None:
        self.paths = [tmp_path / f"{number}.jsonl" for number in range(100)]

    def make_store(self) -> FileStore:
        self.path = self.paths.pop()
        return FileStore(self.path)

    def opener(self) -> Callable[[], FileStore]:
        return functools.partial(FileStore, self.path)


class TestFileStoreWithoutTheLockFile(TestFileStore):
    """Between Python processes the kernel's lock does the work, with the lock file for Node or without."""

    def make_store(self) -> FileStore:
        self.path = self.paths.pop()
        return FileStore(self.path, beside_node=False)

    def opener(self) -> Callable[[], FileStore]:
        return functools.partial(FileStore, self.path, beside_node=False)

    def test_no_lock_file_is_made(self) -> None:
        store = self.make_store()
        store.claim(claim_of("k"))
        assert not self.path.with_name(f"{self.path.name}.lock.next").exists()

    def test_processes_with_and_without_it_keep_apart(self) -> None:
        self.make_store()
        openers: list[Callable[[], FileStore]] = [self.opener(), functools.partial(FileStore, self.path)]
        sends: list[str] = []
        for number in range(20):
            for open_store in openers:
                Ledger(open_store()).once(f"k{number}", functools.partial(sends.append, f"k{number}"))
        assert sorted(sends) == sorted({f"k{number}" for number in range(20)})


def claim_of(key: str, *, meta: object = None, mark: ClaimMark | None = None, now_ms: float = NOW_MS) -> Entry:
    return claimed(key, meta=meta, mark=mark or new_mark(), now_ms=now_ms)


def sent_from(entry: Entry) -> Entry:
    return sent(entry, provider_id="msg_1", now_ms=NOW_MS + 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def test_a_claimed_key_is_refused_to_everyone_else(path: Path) -> None:
    first, second = claim_of("k"), claim_of("k")
    assert FileStore(path).claim(first)
    assert not FileStore(path).claim(second)
    assert FileStore(path).get("k") == first


def test_a_refused_claim_is_answered_with_the_entry_in_the_way(path: Path) -> None:
    first = claim_of("k")
    FileStore(path).claim(first)
    assert FileStore(path).claim_or_get(claim_of("k")) == first


def test_a_transition_needs_exactly_the_entry_it_came_from(path: Path) -> None:
    store, entry = FileStore(path), claim_of("k")
    store.claim(entry)
    other = claim_of("k")
    assert not store.transition(other, sent_from(other))
    assert store.transition(entry, sent_from(entry))
    assert not store.transition(entry, failed(entry, error="late", now_ms=NOW_MS))
    assert store.get("k") == sent_from(entry)


def test_another_store_sees_every_write_at_once(path: Path) -> None:
    writer, reader = FileStore(path), FileStore(path)
    assert reader.get("k") is None
    entry = claim_of("k")
    writer.claim(entry)
    assert reader.get("k") == entry
    writer.transition(entry, sent_from(entry))
    assert reader.list(Status.SENT) == [sent_from(entry)]
    assert reader.list(Status.PENDING) == []


def test_the_file_holds_the_references_lines_and_no_lock_is_left(path: Path) -> None:
    store, entry = FileStore(path), claim_of("k", meta={"to": "ana@example.com"})
    store.claim(entry)
    store.transition(entry, sent_from(entry))
    assert path.read_bytes() == (entry.text + "\n" + sent_from(entry).text + "\n").encode()
    store.close()
    assert os.listdir(path.parent) == ["ledger.jsonl"]


def test_history_is_every_line_of_the_key_in_order(path: Path) -> None:
    store, entry = FileStore(path), claim_of('k "quoted" ž')
    store.claim(entry)
    store.claim(claim_of("other"))
    ended = failed(entry, error="422", now_ms=NOW_MS + 1)
    store.transition(entry, ended)
    again = retried(ended, meta=None, mark=new_mark(), now_ms=NOW_MS + 2)
    store.transition(ended, again)
    assert list(store.history(entry.key)) == [entry, ended, again]


def test_list_is_ordered_by_claim_time_then_by_arrival(path: Path) -> None:
    store = FileStore(path)
    for key, at in (("b", 3), ("a", 1), ("c", 1)):
        store.claim(claim_of(key, now_ms=NOW_MS + at))
    assert [entry.key for entry in store.list()] == ["a", "c", "b"]


def test_a_batch_is_claimed_in_one_step_and_answers_for_each_key(path: Path) -> None:
    store, taken = FileStore(path), claim_of("b")
    store.claim(taken)
    batch = [claim_of("a"), claim_of("b"), claim_of("c")]
    assert list(store.claim_many(batch)) == [True, False, True]
    pairs = [(batch[0], sent_from(batch[0])), (batch[1], sent_from(batch[1])), (batch[2], sent_from(batch[2]))]
    assert list(store.transition_many(pairs)) == [True, False, True]
    assert {entry.key: entry.status for entry in store.list()} == {"a": "sent", "b": "pending", "c": "sent"}


def test_an_empty_batch_touches_nothing(path: Path) -> None:
    assert list(FileStore(path).claim_many([])) == []
    assert list(FileStore(path).transition_many([])) == []


def test_reading_creates_no_file(path: Path) -> None:
    store = FileStore(path)
    assert store.get("k") is None
    assert list(store.list()) == []
    assert list(store.history("k")) == []
    assert not path.exists()


def test_create_false_refuses_a_missing_ledger(path: Path) -> None:
    with pytest.raises(StoreError, match="there is no such file"):
        FileStore(path, create=False).claim(claim_of("k"))
    assert not path.exists()


@pytest.mark.parametrize("bad", ["", None, 7, "a\0b"])
def test_a_path_that_is_no_path_is_refused_at_once(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="FileStore needs a file path.") as raised:
        FileStore(bad)  # type: ignore[arg-type]  # wrong on purpose
    assert raised.value.field == "path"


@pytest.mark.parametrize("field", ["lock_timeout_seconds", "stale_lock_seconds", "entry_bytes_max"])
@pytest.mark.parametrize("bad", [-1, "10", None, True, float("nan"), float("inf")])
def test_settings_that_make_no_sense_name_their_field(path: Path, field: str, bad: object) -> None:
    with pytest.raises(InvalidInputError) as raised:
        FileStore(path, **{field: bad})  # type: ignore[arg-type]  # wrong on purpose
    assert raised.value.field == field


def test_what_cannot_be_a_ledger_is_refused_with_its_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "l.jsonl")
    (tmp_path / "dangling_here").symlink_to(tmp_path / "gone.jsonl")
    reasons = {
        str(tmp_path): "it is a directory",
        str(tmp_path / "pipe"): "device, pipe or socket",
        "/dev/null": "device, pipe or socket",
        str(tmp_path / "no" / "l.jsonl"): "does not exist; create it first",
        str(tmp_path / "dangling"): "is a link to",
        str(tmp_path / "dangling_here"): "is a link to",
    }
    for bad, reason in reasons.items():
        with pytest.raises(StoreError, match=reason):
            FileStore(bad).claim(claim_of("k"))
    assert not (tmp_path / "gone.jsonl").exists()


def test_a_claim_beyond_the_cap_is_refused_and_what_settles_it_may_be_larger(path: Path) -> None:
    store = FileStore(path, entry_bytes_max=400)
    with pytest.raises(EntryTooLargeError):
        store.claim(claim_of("k", meta="x" * 400))
    assert not path.exists()
    entry = claim_of("k")
    store.claim(entry)
    unknown = left_unknown(entry, error="y" * 300, now_ms=NOW_MS)
    assert len(unknown.text) > 400
    assert store.transition(entry, unknown)


def test_an_entry_spread_over_lines_is_stored_as_one(path: Path) -> None:
    spread = Entry.from_text(json.dumps(json.loads(claim_of("k").text), indent=1))
    assert spread is not None
    FileStore(path).claim(spread)
    assert path.read_bytes().count(b"\n") == 1
    assert FileStore(path).get("k") is not None


def test_a_relative_path_stays_the_same_ledger_after_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = FileStore("l.jsonl")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.claim(claim_of("k"))
    assert (tmp_path / "l.jsonl").exists()


def test_a_damaged_line_stops_new_claims_but_not_settling_or_reading(path: Path) -> None:
    store, entry = FileStore(path), claim_of("k")
    store.claim(entry)
    ended = failed(entry, error="422", now_ms=NOW_MS)
    with path.open("ab") as file:
        file.write(b'{"key":"lost","status":"sent","claimedAt":"x"\n}\n')
    with pytest.raises(LedgerDamagedError, match=r"line 3 at byte \d+.*send-once doctor"):
        store.claim(claim_of("new"))
    with pytest.raises(LedgerDamagedError):
        store.claim_many([claim_of("new")])
    assert store.claim_or_get(claim_of("k")) == entry
    assert store.transition(entry, ended)
    with pytest.raises(LedgerDamagedError):
        store.transition(ended, retried(ended, meta=None, mark=new_mark(), now_ms=NOW_MS))


@pytest.mark.parametrize("content", [b"email,name\nana@example.com,Ana\n", b"\x7fELF\x02\x01", b"[1]\n"])
def test_a_file_of_something_else_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    store = FileStore(path)
    entry = claim_of("k")
    calls: list[Callable[[], object]] = [
        lambda: store.claim(entry),
        lambda: store.claim_many([entry]),
        lambda: store.transition(entry, failed(entry, error="422", now_ms=NOW_MS)),
        lambda: store.accept_damage(by="ops"),
        store.compact,
    ]
    for call in calls:
        with pytest.raises(NotALedgerError, match="is no ledger file: none of its lines is an entry"):
            call()
    assert path.read_bytes() == content
    assert not Path(f"{path}.accepted").exists()


def test_a_sqlite_database_is_called_one(tmp_path: Path) -> None:
    with Ledger(SQLiteStore(tmp_path / "sends.db")) as ledger:
        assert ledger.once("k", lambda: "msg_1").outcome == "sent"
    store = FileStore(tmp_path / "sends.db")
    with pytest.raises(NotALedgerError, match=r"is a SQLite database.*Use SQLiteStore, or the address sqlite:"):
        Ledger(store).once("k", lambda: "msg_2")


def test_the_torn_line_of_a_first_claim_that_was_cut_short_is_no_other_file(path: Path) -> None:
    path.write_bytes(claim_of("k").text.encode()[:30])
    assert FileStore(path).claim(claim_of("k"))


def test_accepted_damage_lets_claims_go_on_and_names_who_accepted(path: Path) -> None:
    FileStore(path).claim(claim_of("first"))
    with path.open("ab") as file:
        file.write(b"email,name\n")
    offset = path.stat().st_size - len(b"email,name\n")
    store = FileStore(path)
    with pytest.raises(InvalidInputError):
        store.accept_damage(by=" ")
    (line,) = store.accept_damage(by="ops", note="header of another file")
    assert line.accepted
    assert store.accept_damage(by="ops") == ()
    assert FileStore(path).claim(claim_of("k"))
    record = json.loads(Path(f"{path}.accepted").read_text())
    assert (record["by"], record["note"], record["offset"]) == ("ops", "header of another file", offset)
    with path.open("ab") as file:
        file.write(b"email,name\n")
    with pytest.raises(LedgerDamagedError, match="line 4"):
        store.claim(claim_of("k2"))


def test_many_threads_get_each_key_once(path: Path) -> None:
    store, wins = FileStore(path), []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for key in range(10):
            if store.claim(claim_of(str(key))):
                wins.append(key)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wins) == list(range(10))


def test_a_ledger_over_it_sends_once(path: Path) -> None:
    calls: list[int] = []

    def send() -> str:
        calls.append(1)
        return "msg_1"

    outcomes = []
    for _ in range(3):
        with Ledger(FileStore(path)) as ledger:
            outcomes.append(ledger.once("k", send).outcome)
    assert (len(calls), outcomes) == (1, ["sent", "duplicate", "duplicate"])
