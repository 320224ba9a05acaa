"""PostgresStore and AsyncPostgresStore on a real server that is stopped, killed and talked out of answering."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from send_once import AsyncLedger, Ledger
from send_once.errors import (
    InvalidInputError,
    LockTimeoutError,
    NotALedgerError,
    SendOnceError,
    StoreError,
    UnsafeStoreError,
)
from send_once.stores.postgres import AsyncPostgresStore, PostgresStore
from send_once.stores.statements import SCHEMA
from send_once.testing import entry_of
from servers.pooler import Pooler
from servers.postgres import Postgres

WAIT_SECONDS_MAX = 120.0

RACE = """
import os, sys
from send_once import Ledger
from send_once.stores.postgres import PostgresStore
url, log, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = Ledger(PostgresStore(url))
print("ready", flush=True)
sys.stdin.readline()
fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for key in range(keys):
    ledger.once(str(key), lambda: os.write(fd, b"%d\\n" % key))
"""


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(postgres_url)
    yield opened
    opened.close()


def with_option(url: str, setting: str) -> str:
    return f"{url}?options=-c%20{setting.replace('=', '%3D')}"


def end_other_sessions(admin: psycopg.Connection[Any]) -> None:
    admin.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def in_loop(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(work())


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("synchronous_commit=off", "synchronous_commit is off"),
        ("default_transaction_read_only=on", "read-only"),
    ],
)
def test_a_session_on_which_a_claim_could_be_lost_is_refused(postgres_url: str, setting: str, problem: str) -> None:
    url = with_option(postgres_url, setting)
    with pytest.raises(UnsafeStoreError, match=problem):
        PostgresStore(url).claim(entry_of("k"))

    async def work() -> None:
        with pytest.raises(UnsafeStoreError, match=problem):
            await AsyncPostgresStore(url).claim(entry_of("k"))

    in_loop(work)


@pytest.mark.parametrize("setting", ["synchronous_commit=local", "default_transaction_isolation=serializable"])
def test_other_settings_do_no_harm(postgres_url: str, setting: str) -> None:
    store = PostgresStore(with_option(postgres_url, setting))
    assert store.claim(entry_of("k"))
    assert store.claim_or_get(entry_of("k", claim_id="c2")) == entry_of("k")


ONE_UNLOGGED_PARTITION = (
    " PARTITION BY HASH (key); CREATE UNLOGGED TABLE half PARTITION OF {table} FOR VALUES WITH (MODULUS 1, REMAINDER 0)"
)
VIEW = SCHEMA.replace("{table}", "behind") + "; CREATE VIEW {table} AS SELECT * FROM behind"


@pytest.mark.parametrize(
    ("table", "problem", "error"),
    [
        (SCHEMA.replace("CREATE TABLE", "CREATE UNLOGGED TABLE"), "UNLOGGED", UnsafeStoreError),
        (SCHEMA + ONE_UNLOGGED_PARTITION, "UNLOGGED", UnsafeStoreError),
        (VIEW, "is a view", UnsafeStoreError),
        (SCHEMA.replace("entry TEXT", "entry JSONB"), "Make it TEXT", UnsafeStoreError),
        (SCHEMA.replace("key TEXT", "key CHAR(80)"), "must be of type TEXT", UnsafeStoreError),
        (SCHEMA.replace(" PRIMARY KEY", ""), "could be claimed twice", UnsafeStoreError),
        ("CREATE TABLE {table} (key TEXT PRIMARY KEY)", "lacks status, entry, claimed_at, updated_at", NotALedgerError),
    ],
)
def test_a_table_on_which_a_claim_could_be_lost_is_refused(
    admin: psycopg.Connection[Any], store: PostgresStore, table: str, problem: str, error: type[Exception]
) -> None:
    admin.execute(table.format(table="send_once"))
    with pytest.raises(error, match=problem):
        store.claim(entry_of("k"))


def test_a_missing_table_is_made_unless_that_is_not_wanted(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    with pytest.raises(NotALedgerError, match=r"create_table\(\)"):
        PostgresStore(postgres_url, create=False).get("k")
    store = PostgresStore(postgres_url)
    assert store.claim(entry_of("k"))
    admin.execute("DROP TABLE send_once")
    with pytest.raises(NotALedgerError, match="Nothing was written"):
        store.claim(entry_of("k"))
    end_other_sessions(admin)
    with pytest.raises(UnsafeStoreError, match="dropped while it was in use"):
        store.claim(entry_of("k"))
    assert not admin.execute("SELECT to_regclass('send_once')").fetchone()[0]  # type: ignore[index]  # one row
    store.create_table()
    assert store.claim(entry_of("k"))


def test_the_table_may_lie_in_a_schema(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    admin.execute("CREATE SCHEMA ops")
    assert PostgresStore(postgres_url, table="ops.sends").claim(entry_of("k"))
    assert admin.execute("SELECT count(*) FROM ops.sends").fetchone() == (1,)


def test_many_processes_make_the_table_at_once(postgres_url: str, tmp_path: Path) -> None:
    log = tmp_path / "sent"
    command = [sys.executable, "-c", RACE, postgres_url, str(log), "25"]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline()
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        _, errors = racer.communicate(timeout=WAIT_SECONDS_MAX)
        assert racer.returncode == 0, errors
    assert Counter(log.read_text().split()) == Counter(map(str, range(25)))


def test_a_connection_inside_a_transaction_is_refused(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        store = PostgresStore(connection)
        assert store.claim(entry_of("k"))
        with connection.transaction(), pytest.raises(UnsafeStoreError, match="inside a transaction"):
            store.claim(entry_of("l"))
        assert store.get("l") is None
        connection.autocommit = False
        with pytest.raises(UnsafeStoreError, match="not in autocommit"):
            store.claim(entry_of("l"))
    with pytest.raises(StoreError, match="is closed"):
        store.claim(entry_of("l"))


def test_a_pool_of_the_callers_is_used_and_left_to_him(postgres_url: str) -> None:
    with ConnectionPool(postgres_url, min_size=1, kwargs={"autocommit": True, "row_factory": dict_row}) as pool:
        ledger = Ledger(PostgresStore(pool))
        assert ledger.once("k", lambda: "id").outcome == "sent"
        assert ledger.once("k", lambda: "id").outcome == "duplicate"
        ledger.close()
        with pool.connection() as connection:
            rows: list[Any] = list(connection.execute("SELECT status FROM send_once"))
        assert rows == [{"status": "sent"}]
    with (
        ConnectionPool(postgres_url, min_size=1) as manual,
        pytest.raises(UnsafeStoreError, match=r"kwargs=\{'autocommit': True\}"),
    ):
        PostgresStore(manual).claim(entry_of("k"))


def test_an_async_pool_and_connection_of_the_callers_are_used(postgres_url: str) -> None:
    async def work() -> None:
        async with AsyncConnectionPool(postgres_url, min_size=1, kwargs={"autocommit": True}, open=False) as pool:
            ledger = AsyncLedger(AsyncPostgresStore(pool))
            assert (await ledger.once("k", _sends)).outcome == "sent"
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
            store = AsyncPostgresStore(connection)
            assert not await store.claim(entry_of("k"))
            async with connection.transaction():
                with pytest.raises(UnsafeStoreError, match="inside a transaction"):
                    await store.claim(entry_of("l"))

    in_loop(work)


async def _sends() -> str:
    return "id"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"source": 7}, "source"),
        ({"source": "not a = conninfo = string"}, "conninfo"),
        ({"table": "a b"}, "table"),
        ({"pool_size": 0}, "pool_size"),
        ({"pool_size": True}, "pool_size"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(arguments: dict[str, Any], field: str) -> None:
    for kind in (PostgresStore, AsyncPostgresStore):
        with pytest.raises(InvalidInputError) as refused:
            kind(**{"source": "postgresql://h/d", **arguments})
        assert refused.value.field == field


def test_nothing_is_opened_before_it_is_needed() -> None:
    PostgresStore("postgresql://nowhere.invalid/d")
    AsyncPostgresStore("postgresql://nowhere.invalid/d")


def test_without_the_driver_the_message_names_the_extra() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from send_once.stores.postgres import AsyncPostgresStore, PostgresStore\n"
        "for kind in (PostgresStore, AsyncPostgresStore):\n"
        "    try: kind('postgresql://h/d')\n"
        "    except ImportError as error: assert 'send-once[postgres]' in str(error), error\n"
        "    else: raise SystemExit('not refused')\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_server_that_is_not_there_is_an_error_of_the_store(postgres: Postgres, postgres_url: str) -> None:
    postgres.stop()
    with pytest.raises(StoreError, match="Could not connect to Postgres"):
        PostgresStore(postgres_url).claim(entry_of("k"))

    async def work() -> None:
        with pytest.raises(StoreError, match="Could not connect to Postgres"):
            await AsyncPostgresStore(postgres_url).claim(entry_of("k"))

    in_loop(work)
    postgres.start()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_restarted_server_goes_unnoticed(postgres: Postgres, store: PostgresStore, how: signal.Signals) -> None:
    """Idle connections that the server closed are seen to be dead, and nothing is lost or repeated."""
    ledger = Ledger(store)
    sends: list[str] = []
    assert ledger.once("a", lambda: sends.append("a")).outcome == "sent"
    postgres.restart(how)
    assert ledger.once("a", lambda: sends.append("a")).outcome == "duplicate"
    assert ledger.once("b", lambda: sends.append("b")).outcome == "sent"
    assert sends == ["a", "b"]


def test_idle_connections_that_were_closed_go_unnoticed_in_async_code(
    postgres_url: str, admin: psycopg.Connection[Any]
) -> None:
    async def work() -> None:
        ledger = AsyncLedger(AsyncPostgresStore(postgres_url))
        assert (await ledger.once("a", _sends)).outcome == "sent"
        end_other_sessions(admin)
        assert (await ledger.once("a", _sends)).outcome == "duplicate"
        await ledger.close()

    in_loop(work)


def test_a_session_that_ends_in_the_middle_of_a_claim_leaves_no_doubt(
    store: PostgresStore, admin: psycopg.Connection[Any], postgres_url: str
) -> None:
    """The claim waits for a lock, its session is ended, and the store repeats the claim on another connection."""
    assert store.claim(entry_of("other"))
    answers: list[bool] = []
    claimer = threading.Thread(target=lambda: answers.append(store.claim(entry_of("k"))))
    with psycopg.connect(postgres_url) as locker:
        locker.execute("LOCK TABLE send_once IN SHARE MODE")
        claimer.start()
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT%%'"
        while not (pids := admin.execute(waiting).fetchall()):
            pass
        admin.execute("SELECT pg_terminate_backend(%s, 5000)", pids[0])
        while admin.execute(waiting).fetchall() in ([], pids):
            pass
    claimer.join(WAIT_SECONDS_MAX)
    assert answers == [True]
    assert store.get("k") == entry_of("k")


def test_a_statement_timeout_is_certain(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    store = PostgresStore(with_option(postgres_url, "statement_timeout=200"))
    assert store.claim(entry_of("other"))
    with psycopg.connect(postgres_url) as locker:
        locker.execute("LOCK TABLE send_once IN SHARE MODE")
        with pytest.raises(StoreError, match=r"57014.*Nothing was written"):
            store.claim(entry_of("k"))
    assert store.get("k") is None
    assert store.claim(entry_of("k"))


def test_a_lock_timeout_is_named(postgres_url: str) -> None:
    store = PostgresStore(with_option(postgres_url, "lock_timeout=100"))
    assert store.claim(entry_of("other"))
    with psycopg.connect(postgres_url) as locker:
        locker.execute("LOCK TABLE send_once IN SHARE MODE")
        with pytest.raises(LockTimeoutError, match="Nothing was written"):
            store.claim(entry_of("k"))
    assert store.claim(entry_of("k"))


def test_batches_that_overlap_in_any_order_do_not_fail_each_other(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    names = [str(number) for number in range(200)]
    answers: list[Any] = []

    def claim_batch(names: list[str], claim_id: str) -> None:
        answers.append(store.claim_many([entry_of(name, claim_id=claim_id) for name in names]))

    threads = [threading.Thread(target=claim_batch, args=(names[:: 1 - 2 * (n % 2)], f"c{n}")) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS_MAX)
    assert sum(sum(answer) for answer in answers) == len(names)


def test_collisions_of_serializable_sessions_are_repeated(postgres_url: str) -> None:
    store = PostgresStore(with_option(postgres_url, "default_transaction_isolation=serializable"))
    ledger = Ledger(store)
    sends: list[int] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        for key in range(6):
            barrier.wait()
            ledger.once(str(key), lambda key=key: sends.append(key))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS_MAX)
    assert Counter(sends) == Counter(range(6))


def test_a_forked_child_leaves_its_parents_sessions_alone(store: PostgresStore) -> None:
    assert store.claim(entry_of("before"))
    child = os.fork()
    if child == 0:
        try:
            assert store.claim(entry_of("child"))
            store.close()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    idle = store._pool._idle._kept  # type: ignore[attr-defined]  # the parent's own connection
    assert len(idle) == 1
    assert store.get("child") is not None
    assert not idle[0][0].closed


def test_a_connection_of_the_callers_is_refused_in_a_forked_child(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        store = PostgresStore(connection)
        assert store.claim(entry_of("k"))
        child = os.fork()
        if child == 0:
            try:
                store.get("k")
            except UnsafeStoreError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert store.get("k") is not None


def test_a_cancelled_call_returns_no_dirty_connection(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    async def work() -> None:
        store = AsyncPostgresStore(postgres_url, pool_size=1)
        assert await store.claim(entry_of("other"))
        with psycopg.connect(postgres_url) as locker:
            locker.execute("LOCK TABLE send_once IN SHARE MODE")
            claim = asyncio.create_task(store.claim(entry_of("k")))
            while not admin.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchall():  # noqa: ASYNC110  # the event is in the server
                await asyncio.sleep(0)
            claim.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claim
        assert await store.claim(entry_of("l"))
        found = await store.claim_or_get(entry_of("k"))
        assert found is True or found == entry_of("k")
        await store.close()

    in_loop(work)


def test_a_store_is_used_from_one_event_loop_after_another(postgres_url: str) -> None:
    store = AsyncPostgresStore(postgres_url)
    assert in_loop(lambda: store.claim(entry_of("k")))
    assert not in_loop(lambda: store.claim(entry_of("k")))
    in_loop(store.close)


def test_more_tasks_than_connections_wait_for_one_and_say_so_when_there_is_none(postgres_url: str) -> None:
    async def work() -> None:
        store = AsyncPostgresStore(postgres_url, pool_size=2)
        claims = [store.claim(entry_of("k", claim_id=str(number))) for number in range(20)]
        assert sum(await asyncio.gather(*claims)) == 1
        small = AsyncPostgresStore(postgres_url, pool_size=1, timeout_seconds=0.05)
        held = await small._pool.lend()
        with pytest.raises(StoreError, match="pool_size"):
            await small.get("k")
        await small._pool.give_back(held)
        await store.close()

    in_loop(work)
    single = PostgresStore(postgres_url, pool_size=1, timeout_seconds=0.05)
    with lent_in_another_thread(single), pytest.raises(StoreError, match="pool_size"):
        single.get("k")
    assert single.get("k") is not None


@contextlib.contextmanager
def lent_in_another_thread(store: PostgresStore) -> Iterator[None]:
    taken, wanted_back = threading.Event(), threading.Event()

    def hold() -> None:
        connection = store._pool.lend()
        taken.set()
        wanted_back.wait(60)
        store._pool.give_back(connection)

    holder = threading.Thread(target=hold)
    holder.start()
    assert taken.wait(60)
    try:
        yield
    finally:
        wanted_back.set()
        holder.join()


def test_a_role_without_rights_is_told_which(
    postgres_url: str, store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    assert store.claim(entry_of("k"))
    admin.execute("DROP ROLE IF EXISTS reader")
    admin.execute("CREATE ROLE reader LOGIN")
    admin.execute("GRANT SELECT ON send_once TO reader")
    reader = PostgresStore(postgres_url.replace("postgres@", "reader@"))
    assert reader.get("k") is not None
    with pytest.raises(StoreError, match=r"permission denied.*grant SELECT, INSERT and UPDATE"):
        reader.claim(entry_of("l"))
    reader.close()


def test_statements_are_prepared_only_in_a_session_that_is_ours_alone(postgres_url: str) -> None:
    """Behind a transaction pooler a prepared name may stand for somebody else's statement."""

    def prepared(connection: psycopg.Connection[Any], url: str) -> list[str]:
        ledger = Ledger(PostgresStore(connection))
        ledger.once(url, lambda: "id")
        rows = connection.execute("SELECT statement FROM pg_prepared_statements", prepare=False).fetchall()
        return [row[0][:6] for row in rows]

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        assert prepared(connection, "direct") == ["WITH c", "UPDATE"]
    with psycopg.connect(postgres_url, autocommit=True, prepare_threshold=None) as connection:
        assert prepared(connection, "unwanted") == []
    with Pooler(postgres_url, 1) as pooler, psycopg.connect(pooler.url, autocommit=True) as connection:
        assert prepared(connection, "pooler") == []


def test_rows_that_hold_no_entry_are_an_error_not_an_absent_key(
    store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    store.create_table()
    admin.execute("INSERT INTO send_once VALUES ('k', 'sent', 'x', '', '')")
    calls: list[Callable[[], object]] = [lambda: store.get("k"), store.list, lambda: store.claim_or_get(entry_of("k"))]
    for call in calls:
        with pytest.raises(StoreError, match="holds no entry but 'x'"):
            call()


def test_entries_are_ordered_by_their_octets_whatever_the_language(
    postgres_url: str, admin: psycopg.Connection[Any]
) -> None:
    store = PostgresStore(postgres_url)
    for number, stamp in enumerate(("2026-09-27T12:00:00.000Z", "+010000-01-01T00:00:00.000Z", "2026-09-27T12:00:00Z")):
        assert store.claim(entry_of(str(number), claimed_at=stamp))
    assert [entry.claimed_at[:1] for entry in store.list()] == ["+", "2", "2"]
    assert [entry.key for entry in store.list()] == ["1", "0", "2"]


def test_errors_are_ours(store: PostgresStore, admin: psycopg.Connection[Any]) -> None:
    store.create_table()
    admin.execute("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$")
    admin.execute("CREATE TRIGGER t BEFORE INSERT ON send_once FOR EACH ROW EXECUTE FUNCTION no()")
    with pytest.raises(SendOnceError, match=r"Postgres refused: no \(SQLSTATE P0001\). Nothing was written"):
        store.claim(entry_of("k"))
    admin.execute("DROP TRIGGER t ON send_once")
    assert store.claim(entry_of("k"))
