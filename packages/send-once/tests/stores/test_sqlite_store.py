"""SQLiteStore: what it refuses, and what it does when things go wrong underneath."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from send_once import Ledger
from send_once.errors import (
    InvalidInputError,
    LockTimeoutError,
    NotALedgerError,
    StoreError,
    UnsafeStoreError,
)
from send_once.stores.files import NOWHERE
from send_once.stores.identities import identity_in_passing, identity_of
from send_once.stores.sqlite import SQLiteStore
from send_once.stores.sqliteplace import network_file_system
from send_once.stores.statements import SCHEMA
from send_once.testing import entry_of, settled

ONCE_FOR_EACH_LINE = """
import sys
from send_once import Ledger, SQLiteStore
from send_once.errors import StoreError
ledger = Ledger(SQLiteStore(sys.argv[1]))
for key in map(str.strip, sys.stdin):
    try:
        print(ledger.once(key, lambda: "id").outcome, flush=True)
    except StoreError as error:
        print(type(error).__name__, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(path)
    yield opened
    opened.close()


def other_connection(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None, timeout=0))


def test_the_settings_that_make_a_commit_durable_are_in_force(store: SQLiteStore) -> None:
    connection = store._database.writer()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    store._database.drop_writer()
    extra = SQLiteStore(store.path, synchronous="EXTRA")
    assert extra._database.writer().execute("PRAGMA synchronous").fetchone() == (3,)
    extra.close()


def test_the_table_is_the_references(store: SQLiteStore, path: Path) -> None:
    with other_connection(path) as connection:
        (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'send_once'").fetchone()
    assert made == SCHEMA.format(table="send_once").replace("IF NOT EXISTS ", "")


def test_columns_repeat_what_the_entry_says(store: SQLiteStore, path: Path) -> None:
    Ledger(store).once("k", lambda: "id")
    entry = store.get("k")
    assert entry is not None
    with other_connection(path) as connection:
        row = connection.execute("SELECT * FROM send_once").fetchone()
    assert row == ("k", "sent", entry.text, entry.claimed_at, entry.updated_at)


@pytest.mark.parametrize("where", [":memory:", ""])
def test_a_database_in_memory_is_refused(where: str) -> None:
    with pytest.raises(UnsafeStoreError, match="MemoryStore"):
        SQLiteStore(where)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"path": "file:l.db?nolock=1"}, "path"),
        ({"path": 7}, "path"),
        ({"path": b"l.db"}, "path"),
        ({"path": "a\0b"}, "path"),
        ({"path": "l.db", "table": "a b"}, "table"),
        ({"path": "l.db", "table": "temp.sends"}, "table"),
        ({"path": "l.db", "synchronous": "NORMAL"}, "synchronous"),
        ({"path": "l.db", "timeout_seconds": 0}, "timeout_seconds"),
        ({"path": "l.db", "timeout_seconds": True}, "timeout_seconds"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(
    arguments: dict[str, Any], field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError) as refused:
        SQLiteStore(**arguments)
    assert refused.value.field == field
    assert not list(tmp_path.iterdir())


def test_a_database_with_two_hard_links_is_refused(store: SQLiteStore, path: Path, tmp_path: Path) -> None:
    """Two names give two logs; a claim under one name would not be seen under the other."""
    os.link(path, tmp_path / "second.db")
    for name in ("ledger.db", "second.db"):
        with pytest.raises(UnsafeStoreError, match="hard links"):
            SQLiteStore(tmp_path / name)


def test_a_symbolic_link_leads_to_the_same_ledger(store: SQLiteStore, path: Path, tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    link = tmp_path / "away" / "link.db"
    link.symlink_to(path)
    assert store.claim(entry_of("k"))
    linked = SQLiteStore(link)
    assert not linked.claim(entry_of("k"))
    assert linked.claim(entry_of("l"))
    assert store.get("l") == entry_of("l")
    assert sorted(p.name for p in (tmp_path / "away").iterdir()) == ["link.db"]


def test_a_link_to_nowhere_is_not_followed_by_a_new_ledger(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "volume" / "ledger.db")
    with pytest.raises(StoreError, match="is a volume missing"):
        SQLiteStore(tmp_path / "link.db")


def test_a_missing_directory_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="create it first"):
        SQLiteStore(tmp_path / "no" / "ledger.db")
    with pytest.raises(StoreError, match="is a directory"):
        SQLiteStore(tmp_path)


def test_nothing_is_created_where_that_was_not_asked_for(path: Path) -> None:
    with pytest.raises(StoreError, match="There is no database"):
        SQLiteStore(path, create=False)
    assert not path.exists()
    sqlite3.connect(path).close()
    path.touch()
    with pytest.raises(NotALedgerError, match="no table send_once"):
        SQLiteStore(path, create=False)


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_text('{"key":"k"}\n' * 100)
    with pytest.raises(NotALedgerError, match="not a SQLite database"):
        SQLiteStore(path)
    assert path.read_text() == '{"key":"k"}\n' * 100


@pytest.mark.parametrize(
    ("table", "problem", "error"),
    [
        ("(key TEXT PRIMARY KEY, entry TEXT)", "lacks status, claimed_at, updated_at", NotALedgerError),
        (
            "(key INT PRIMARY KEY, status TEXT, entry TEXT, claimed_at TEXT, updated_at TEXT)",
            "key must",
            NotALedgerError,
        ),
        ("(key TEXT, status TEXT, entry TEXT, claimed_at TEXT, updated_at TEXT)", "claimed twice", UnsafeStoreError),
    ],
)
def test_a_table_that_cannot_be_a_ledger_is_refused(
    path: Path, table: str, problem: str, error: type[Exception]
) -> None:
    with other_connection(path) as connection:
        connection.execute(f"CREATE TABLE send_once {table}")
    with pytest.raises(error, match=problem):
        SQLiteStore(path)


def test_a_network_file_system_is_known_by_its_type(tmp_path: Path) -> None:
    device = os.stat(tmp_path).st_dev
    line = f"36 25 {os.major(device)}:{os.minor(device)} / /mnt rw,relatime shared:1 - {{}} server:/x rw"
    assert network_file_system(str(tmp_path), lambda: line.format("nfs4")) == "nfs4"
    assert network_file_system(str(tmp_path), lambda: line.format("ext4")) == ""
    assert network_file_system(str(tmp_path), lambda: "") == ""


def test_a_removed_database_is_not_silently_begun_anew(store: SQLiteStore, path: Path) -> None:
    assert store.claim(entry_of("k"))
    path.unlink()
    for call in (lambda: store.claim(entry_of("l")), lambda: store.get("k"), store.list):
        with pytest.raises(StoreError, match="was removed while it was in use"):
            call()
    assert not path.exists()


def test_a_database_that_was_replaced_while_in_use_is_refused(path: Path, tmp_path: Path) -> None:
    """The other file may know nothing of what this one says was sent."""
    store = SQLiteStore(path)
    assert store.claim(entry_of("old"))
    with other_connection(path) as connection:
        connection.execute(f"VACUUM INTO '{tmp_path / 'copy.db'}'")
    assert store.claim(entry_of("after the copy"))
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"ledger.db{suffix}").unlink()
    os.replace(tmp_path / "copy.db", path)
    for call in (lambda: store.claim(entry_of("after the copy")), lambda: store.get("old"), store.list):
        with pytest.raises(UnsafeStoreError, match=r"was replaced while it was in use: .* restart"):
            call()
    assert SQLiteStore(path).get("old") is not None


def test_a_database_replaced_while_the_store_was_closed_is_refused_too(path: Path, tmp_path: Path) -> None:
    store = SQLiteStore(path)
    assert store.claim(entry_of("old"))
    store.close()
    SQLiteStore(tmp_path / "backup.db").close()
    os.replace(tmp_path / "backup.db", path)
    with pytest.raises(UnsafeStoreError, match="was replaced"):
        store.claim(entry_of("old"))


@pytest.mark.parametrize("gone", [("-wal",), ("-wal", "-shm"), ("-shm",)])
def test_a_log_that_was_removed_while_in_use_stops_the_store(path: Path, tmp_path: Path, gone: tuple[str, ...]) -> None:
    """What only the log holds is seen by no other process, which would send it again."""
    store = SQLiteStore(path)
    assert store.claim(entry_of("k"))
    for suffix in gone:
        (tmp_path / f"ledger.db{suffix}").unlink()
    for call in (lambda: store.claim(entry_of("l")), lambda: store.get("k"), store.list):
        with pytest.raises(UnsafeStoreError, match=rf"ledger.db{gone[0]} was removed"):
            call()
    store.close()
    if gone == ("-shm",):
        with pytest.raises(UnsafeStoreError, match=r"ledger.db-shm was removed"):
            SQLiteStore(path).get("k")  # in this process it would still use what others do not
    else:
        assert SQLiteStore(path).get("k") is not None  # closing in order put it into the database


@pytest.mark.parametrize("first_looks", [True, False])
def test_a_log_whose_index_was_removed_lets_no_two_programs_send_for_one_key(
    path: Path, tmp_path: Path, first_looks: bool
) -> None:
    """The locks lie in it: a second program makes another, and both would take the write lock at once. And who
    closes last deletes the log, with what the other wrote."""
    first = subprocess.Popen(
        [sys.executable, "-c", ONCE_FOR_EACH_LINE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert told(first, "opened") == "sent"
    (tmp_path / "ledger.db-shm").unlink()
    second = [sys.executable, "-c", ONCE_FOR_EACH_LINE, str(path)]
    assert subprocess.run(second, input="k\n", capture_output=True, text=True, timeout=60).stdout == "sent\n"
    if first_looks:
        assert told(first, "k") == "UnsafeStoreError"
        assert told(first, "k") == "UnsafeStoreError"
    first.communicate(timeout=60)
    after = subprocess.run(second, input="k\nopened\n", capture_output=True, text=True, timeout=60).stdout
    assert after == "duplicate\nduplicate\n"


def told(process: subprocess.Popen[str], key: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{key}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_the_log_of_another_that_closes_is_no_removed_one(path: Path) -> None:
    """The last connection to close takes the log away; the next makes another."""
    store = SQLiteStore(path)
    for n in range(3):
        assert store.claim(entry_of(f"k{n}"))
        assert len(store.list()) == n + 1
        store.close()
        with other_connection(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            assert store.claim(entry_of(f"l{n}"))
            connection.execute("DELETE FROM send_once WHERE key LIKE 'l%'")


def test_someone_elses_long_transaction_is_waited_for_and_then_named(path: Path) -> None:
    """Node, or a shell, does not stand in the queue; SQLite's own lock still counts."""
    store = SQLiteStore(path, timeout_seconds=0.05)
    with other_connection(path) as other:
        other.execute("BEGIN IMMEDIATE")
        for call in _writes(store):
            with pytest.raises(LockTimeoutError, match=r"Nothing was written; .*timeout_seconds"):
                call()
        assert store.get("k") is None
        other.execute("COMMIT")
    assert store.claim(entry_of("k"))
    store.close()


def _writes(store: SQLiteStore) -> list[Callable[[], object]]:
    entry = entry_of("k")
    return [
        lambda: store.claim(entry),
        lambda: store.claim_or_get(entry),
        lambda: store.claim_many([entry]),
        lambda: store.transition(entry, settled(entry, "sent")),
        lambda: store.transition_many([(entry, settled(entry, "sent"))]),
    ]


def test_a_duplicate_is_answered_while_someone_else_holds_the_lock(path: Path) -> None:
    store = SQLiteStore(path, timeout_seconds=0.05)
    ledger = Ledger(store)
    ledger.once("k", lambda: "id")
    with other_connection(path) as other:
        other.execute("BEGIN IMMEDIATE")
        assert ledger.once("k", lambda: "id").outcome == "duplicate"
    store.close()


def test_an_error_in_a_batch_leaves_nothing_and_no_open_transaction(store: SQLiteStore, path: Path) -> None:
    """Defect D12 of a peer: an error inside the claim left the transaction open, and everybody locked out."""
    with other_connection(path) as other:
        other.execute(
            "CREATE TRIGGER t BEFORE INSERT ON send_once WHEN NEW.key = 'b' BEGIN SELECT RAISE(ROLLBACK, 'no'); END"
        )
        other.execute(
            "CREATE TRIGGER u BEFORE INSERT ON send_once WHEN NEW.key = 'c' BEGIN SELECT RAISE(FAIL, 'no'); END"
        )
        for bad in "bc":
            with pytest.raises(StoreError, match="SQLite could not do this"):
                store.claim_many([entry_of("a"), entry_of(bad), entry_of("z")])
            with pytest.raises(StoreError):
                store.claim(entry_of(bad))
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        assert other.execute("SELECT count(*) FROM send_once").fetchone() == (0,)
    assert store.claim(entry_of("a"))


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that another account may look into, but not write."""
    folder = Path(tempfile.mkdtemp(prefix="so-ro-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_database_that_this_account_may_not_write_is_refused(public_folder: Path) -> None:
    path = public_folder / "ledger.db"
    SQLiteStore(path).close()
    path.chmod(0o444)
    public_folder.chmod(0o555)
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            SQLiteStore(path).claim(entry_of("k"))
        except UnsafeStoreError as error:
            os._exit(7 if "read-only" in str(error) else 8)
        except BaseException as error:
            print(repr(error), flush=True)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    public_folder.chmod(0o755)


def test_a_row_that_holds_no_entry_is_an_error_not_an_absent_key(store: SQLiteStore, path: Path) -> None:
    with other_connection(path) as connection:
        connection.execute("INSERT INTO send_once VALUES ('k', 'sent', 'x', '', '')")
    for call in (lambda: store.get("k"), store.list, lambda: store.claim_or_get(entry_of("k"))):
        with pytest.raises(StoreError, match="holds no entry but 'x'"):
            call()


def test_the_queue_file_may_be_used_by_whoever_may_write_the_database(path: Path) -> None:
    path.touch()
    path.chmod(0o664)
    store = SQLiteStore(path)
    assert store.claim(entry_of("k"))
    assert stat.S_IMODE(os.stat(f"{path}-queue").st_mode) == 0o664
    store.close()


def test_a_closed_store_opens_again_when_it_is_used(store: SQLiteStore, path: Path) -> None:
    assert store.claim(entry_of("k"))
    store.close()
    assert not Path(f"{path}-wal").exists()
    assert store.get("k") == entry_of("k")
    assert not store.claim(entry_of("k"))


def test_a_table_of_another_name_is_another_ledger(store: SQLiteStore, path: Path) -> None:
    other = SQLiteStore(path, table="other")
    assert store.claim(entry_of("k"))
    assert other.claim(entry_of("k"))
    other.close()


@pytest.mark.parametrize("look", [identity_of, identity_in_passing])
@pytest.mark.parametrize("has_statx", [True, False])
def test_files_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[str], object], has_statx: bool
) -> None:
    if not has_statx:
        monkeypatch.setattr("send_once.stores.identities._statx", None)
    file, other, link = tmp_path / "file", tmp_path / "other", tmp_path / "link"
    file.touch()
    other.touch()
    link.symlink_to(file)
    for missing in (tmp_path / "no", file / "below"):
        assert look(str(missing)) == NOWHERE
    assert look(str(file)) == look(str(link)) != look(str(other))
    other.replace(file)
    assert look(str(link)) == look(str(file))
