"""The commands that look into a ledger and move it: show, history, list, stats, export, import, compact."""

from __future__ import annotations

import csv
import io
import json
import shlex
import sqlite3
from pathlib import Path

import pytest

from cli_runs import Terminal, last_entry, line, mark, run
from send_once import InvalidInputError, Ledger, RejectedSendError, UncertainSendError
from send_once.entry import Entry
from send_once.stores.addresses import open_store
from send_once.stores.file import FileStore

ADDRESSES = ["l.jsonl", "sqlite:l.db"]


def refuse() -> None:
    raise RejectedSendError("550 no such user")


def lose() -> None:
    raise UncertainSendError("no reply")


@pytest.fixture(params=ADDRESSES)
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger of some history, in a file and in a database."""
    monkeypatch.chdir(tmp_path)
    name: str = request.param
    with Ledger(open_store(name)) as ledger:
        ledger.once("sent", lambda: "msg_1", {"to": "ana@example.com"})
        ledger.once("retried", refuse)
        ledger.once("retried", lose, payload={"n": 1})
        ledger.once("failed", refuse)
        ledger.claim("pending")
        ledger.resolve("pending", "sent", by="ana", note="provider log", provider_id="msg_2")
    return name


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("l.jsonl")


def test_show_tells_everything_about_a_key(address: str) -> None:
    sent, retried, resolved = (run("show", address, key).stdout for key in ("sent", "retried", "pending"))
    assert "provider id msg_1" in sent
    assert "to: ana@example.com" in sent
    assert "its send ended without an answer" in retried
    assert "earlier attempt 1: failed" in retried
    assert "payload sha256:\n" in retried
    assert "resolved as sent by ana at " in resolved
    assert ": provider log" in resolved
    assert run("show", address, "retried", "--json").json["process"] == "running here"


@pytest.mark.parametrize("command", ["show", "history"])
def test_a_key_that_is_not_there_is_said_so(address: str, command: str) -> None:
    ran = run(command, address, "no")
    assert (ran.exit, ran.stdout, ran.stderr) == (1, "", "No entry for no.\n")


def test_history_tells_what_a_key_was(address: str) -> None:
    states = run("history", address, "retried", "--json").json
    assert [(state["status"], state["attempts"]) for state in states][-1] == ("pending", 2)
    assert ("failed", 1) in [(state["status"], state["attempts"]) for state in states]
    assert "error: 550 no such user" in run("history", address, "retried").stdout


def test_list_filters_and_says_what_it_leaves_out(address: str) -> None:
    assert [row["key"] for row in run("list", address, "--json").json] == ["sent", "retried", "failed", "pending"]
    assert [row["key"] for row in run("list", address, "--json", "--status", "failed").json] == ["failed"]
    text = run("list", address, "--limit", "1").stdout
    assert text.splitlines()[0].endswith("  sent")
    assert text.splitlines()[1] == "… and 3 more"
    assert run("list", address, "--status", "gone").exit == 2


def test_list_shows_only_what_is_old_enough(ledger: Path) -> None:
    ledger.write_text(line("old", "sent") + line("new", "sent").replace("T16:00", "T19:59"))
    assert [row["key"] for row in run("list", "l.jsonl", "--older-than", "1h", "--json").json] == ["old"]


def test_errors_that_differ_in_their_message_only_are_counted_together(ledger: Path) -> None:
    texts = [f"Message-ID <{number}@mail.example>: Timeout with mail.example:25." for number in range(3)]
    ledger.write_text("".join(line(f"k{n}", "pending", error=text, uncertain=True) for n, text in enumerate(texts)))
    assert run("stats", "l.jsonl", "--json").json["errors"] == {"Timeout with mail.example:25.": 3}


def test_stats_count(address: str) -> None:
    counts = run("stats", address, "--json").json
    assert {name: counts[name] for name in ("entries", "sent", "failed", "pending", "retried", "resolvedByHand")} == {
        "entries": 4, "sent": 2, "failed": 1, "pending": 1, "retried": 1, "resolvedByHand": 1,
    }  # fmt: skip
    assert counts["errors"] == {"Delivery is unknown: no reply": 1, "550 no such user": 1}
    assert "       2  sent\n" in run("stats", address).stdout


def test_an_export_is_a_ledger_of_the_same_entries(address: str) -> None:
    Path("copy.jsonl").write_text(run("export", address).stdout)
    assert run("list", "copy.jsonl", "--json").json == run("list", address, "--json").json


def test_an_exported_entry_is_its_stored_text(ledger: Path) -> None:
    text = line("k", "pending", meta={"é": "\u2028"}, claim=mark())
    ledger.write_text(text)
    assert run("export", "l.jsonl").stdout == text


def test_an_export_to_a_terminal_is_harmless_and_means_the_same(ledger: Path) -> None:
    ledger.write_text(line("k\x9b2J", "sent"))
    shown = run("export", "l.jsonl", stdout=Terminal()).stdout
    assert "\x9b" not in shown
    assert json.loads(shown)["key"] == "k\x9b2J"


def test_csv_on_a_terminal_is_a_line_a_row_and_harmless(ledger: Path) -> None:
    ledger.write_text(line("k\x9b2J", "sent", error="a\r\nb\x1b[2J"))
    rows = run("export", "l.jsonl", "--format", "csv", stdout=Terminal()).stdout.split("\n")
    assert rows[0].startswith("key,status,") and rows[0].endswith(",resolved_at")
    assert rows[1].startswith(r"k\x9b2J,sent,") and r"a\r\nb\x1b[2J" in rows[1]
    assert rows[2:] == [""]


def test_a_row_laid_out_over_lines_is_exported_on_one(ledger: Path) -> None:
    run("import", "sqlite:l.db", str(_written(ledger, line("k", "sent", meta={"a": [1]}))))
    with sqlite3.connect("l.db") as connection:
        connection.execute("UPDATE send_once SET entry = ?", (json.dumps(json.loads(line("k", "sent")), indent=2),))
    connection.close()
    assert run("export", "sqlite:l.db").stdout == line("k", "sent")


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_csv_gives_a_spreadsheet_no_formula_and_comes_back_whole(ledger: Path) -> None:
    keys = ["=1+1", "-dash", "@x", "'quoted", "plain", 'a"b,c\nd']
    ledger.write_text("".join(line(key, "pending", error="+1") for key in keys))
    text = run("export", "l.jsonl", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert not any(cell[:1] in "=+-@" for row in rows for cell in row.values() if cell)
    settled = text.replace(",pending,", ",sent,")
    Path("settled.csv").write_text(settled, newline="")
    assert run("resolve", "l.jsonl", "--from-export", "settled.csv", "--json").json["settled"]["sent"] == len(keys)


def test_an_unknown_format_is_refused(ledger: Path) -> None:
    ledger.write_text(line("k", "sent"))
    assert run("export", "l.jsonl", "--format", "xml").stderr == "--format must be jsonl or csv, got xml.\n"


@pytest.mark.parametrize("target", ["new.jsonl", "sqlite:new.db"])
def test_import_copies_entries_whole_and_only_once(address: str, target: str) -> None:
    first = run("import", target, address, "--json").json
    counts = {"dryRun": False, "inserted": 4, "present": 0, "different": 0}
    assert first == {**counts, "sentThereNotHere": [], "refused": []}
    again = run("import", target, address, "--json").json
    assert (again["inserted"], again["present"], again["different"]) == (0, 4, 0)
    assert run("list", target, "--json").json == run("list", address, "--json").json
    assert Ledger(open_store(target)).once("sent", lambda: "again").outcome == "duplicate"


def test_import_never_overwrites_and_names_what_may_be_sent_again(ledger: Path) -> None:
    ledger.write_text(line("a", "failed") + line("b", "sent"))
    Path("other.jsonl").write_text(line("a", "sent") + line("b", "failed") + line("c", "sent"))
    ran = run("import", "l.jsonl", "other.jsonl")
    assert ran.exit == 1
    assert ran.stdout.startswith("Inserted 1; 2 were there already and stay as they are.\n2 of those differ")
    assert ran.stdout.endswith("  send-once resolve l.jsonl a sent\n")
    text = ledger.read_text()
    assert [last_entry(text, key)["status"] for key in "abc"] == ["failed", "sent", "sent"]


def test_the_command_that_import_names_can_be_pasted_into_a_shell(ledger: Path) -> None:
    keys = ["a b", "-dash", "x; touch gone", "it's"]
    name = "my ledger.jsonl"
    Path(name).write_text("".join(line(key, "failed") for key in keys))
    Path("other.jsonl").write_text("".join(line(key, "sent") for key in keys))
    commands = [text.split(maxsplit=1)[1] for text in run("import", name, "other.jsonl").stdout.splitlines()[3:]]
    assert len(commands) == len(keys)
    for command in commands:
        assert run(*shlex.split(command)).exit == 0, command
    assert {entry["status"] for entry in run("list", name, "--json").json} == {"sent"}


def test_a_ledger_with_one_damaged_line_is_said_to_have_one(ledger: Path) -> None:
    Path("other.jsonl").write_text(line("a", "sent") + "garbage\n")
    assert run("import", "l.jsonl", "other.jsonl").stderr.startswith("other.jsonl has 1 damaged line, ")


@pytest.mark.parametrize("target", ["l.jsonl", "new.jsonl", "sqlite:new.db"])
def test_a_dry_import_changes_nothing(ledger: Path, target: str) -> None:
    ledger.write_text(line("a", "failed"))
    Path("other.jsonl").write_text(line("a", "sent") + line("c", "sent"))
    files = {path.name: path.read_bytes() for path in Path().iterdir()}
    expected = 1 if target == "l.jsonl" else 2
    assert run("import", target, "other.jsonl", "--dry-run", "--json").json["inserted"] == expected
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == files


def test_a_damaged_ledger_is_not_imported_before_someone_has_looked(ledger: Path) -> None:
    Path("other.jsonl").write_text(line("a", "sent") + "garbage\n")
    ran = run("import", "l.jsonl", "other.jsonl")
    assert (ran.exit, ledger.exists()) == (2, False)
    assert "accept them first: send-once doctor other.jsonl" in ran.stderr
    run("doctor", "other.jsonl", "--accept-damage", "--by", "ana")
    assert run("import", "l.jsonl", "other.jsonl").exit == 0


def test_compact_wants_to_be_told(ledger: Path) -> None:
    ledger.write_text(line("k", "pending") + line("k", "sent"))
    before = ledger.read_bytes()
    ran = run("compact", "l.jsonl")
    assert (ran.exit, "Say --yes" in ran.stderr, ledger.read_bytes()) == (2, True, before)


def test_a_compacted_ledger_forgets_no_key(ledger: Path) -> None:
    ledger.write_text("".join(line(key, status) for key in "abc" for status in ("pending", "sent")))
    done = run("compact", "l.jsonl", "--yes", "--json").json
    assert (done["entries"], done["tombstones"]) == (3, 3)
    assert Path(done["backup"]).exists()
    assert ledger.read_text().count("\n") == 3
    assert all(Ledger(FileStore(ledger)).once(key, lambda: "again").outcome == "duplicate" for key in "abc")


def test_compact_is_for_files(ledger: Path) -> None:
    run("import", "sqlite:l.db", str(_written(ledger, line("k", "sent"))))
    ran = run("compact", "sqlite:l.db", "--yes")
    assert (ran.exit, "compact is for ledger files" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("show", "l.jsonl"), "show takes a ledger and a key.\nUsage: send-once show LEDGER KEY"),
        (("list",), "list takes one ledger.\nUsage: send-once list LEDGER"),
        (("list", "no.jsonl"), "No such ledger: no.jsonl\n"),
        (("list", "redis://h"), "Error: No store for redis://h: use a file path, file:, sqlite: or postgresql:."),
        (("stats", "l.jsonl", "--yes"), "stats does not take --yes.\n"),
        (("compact", "l.jsonl", "--older-than", "old"), '--older-than: Not a duration: "old".'),
    ],
)
def test_a_wrong_command_line_is_told_what_is_wrong(ledger: Path, args: tuple[str, ...], message: str) -> None:
    ledger.write_text(line("k", "sent"))
    ran = run(*args)
    assert (ran.exit, ran.stdout) == (2, "")
    assert ran.stderr.startswith(message)


def test_a_stored_key_cannot_drive_the_terminal_through_any_report(ledger: Path) -> None:
    key = "k\x1b[2J\u202e\r\n"
    escapes = "\x1b]0;t\x07\x9b"
    ledger.write_text(
        line(key, "pending", meta={escapes: escapes}, error=escapes, claimedAt=escapes, claim=mark(host=escapes))
        + line("x", "failed", error=escapes, resolution={"status": escapes, "by": escapes, "note": escapes})
        + f"{escapes}\n"
    )
    lines = [("audit",), ("show", key), ("show", "x"), ("history", key), ("history", "x"), ("list",), ("stats",)]
    commands = [*lines, ("doctor",), ("resolve", key, "sent"), ("resolve", key, "failed"), ("show", escapes)]
    for command, *rest in commands:
        for extra in ((), ("--json",)):
            ran = run(command, "l.jsonl", *rest, *extra)
            shown = ran.stdout + ran.stderr
            assert not {"\x1b", "\x07", "\x9b", "\u202e", "\r"} & set(shown), command


def test_entries_that_name_no_process_or_attempts_are_shown(ledger: Path) -> None:
    entry = {"key": "k", "status": "pending", "claimedAt": "not a time"}
    ledger.write_text(json.dumps(entry) + "\n")
    for command, *rest in (("audit",), ("show", "k"), ("history", "k"), ("list",), ("stats",), ("export",)):
        assert run(command, "l.jsonl", *rest).stdout, command
    assert Entry.from_text(json.dumps(entry)) is not None


ODD_KEYS = {"a\\u0000b": "a NUL character", "s\\ud800": "a lone surrogate"}


def odd_lines() -> str:
    """Keys that a file can hold and a database cannot, among others that both can."""
    return "".join(line("KEY", "sent").replace("KEY", key) for key in ["before", *ODD_KEYS, "after"])


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_import_leaves_out_keys_that_a_database_cannot_hold_and_names_them(ledger: Path, dry: tuple[str, ...]) -> None:
    ledger.write_text(odd_lines())
    ran = run("import", "sqlite:new.db", "l.jsonl", *dry)
    assert ran.exit == 1
    text = ran.stdout
    assert text.startswith("Would insert 2; 0 were" if dry else "Inserted 2; 0 were")
    assert "2 cannot be kept here and were left out:\n" in text
    assert all(why in text for why in ODD_KEYS.values())
    assert "\0" not in text
    refused = run("import", "sqlite:new.db", "l.jsonl", "--json", *dry).json["refused"]
    assert [one["key"] for one in refused] == ["a\0b", "s\ud800"]


def test_a_call_for_a_key_that_import_left_out_is_refused_before_its_send(ledger: Path) -> None:
    ledger.write_text(odd_lines())
    run("import", "sqlite:new.db", "l.jsonl")
    for key in ("a\0b", "s\ud800"):
        with pytest.raises(InvalidInputError), Ledger(open_store("sqlite:new.db")) as opened:
            opened.once(key, lambda: pytest.fail("it was sent a second time"))
    assert Ledger(open_store("sqlite:new.db")).once("after", lambda: "again").outcome == "duplicate"


def test_a_file_holds_every_key_of_a_file(ledger: Path) -> None:
    ledger.write_text(odd_lines())
    assert run("import", "new.jsonl", "l.jsonl", "--json").json["inserted"] == 4
    again = run("import", "new.jsonl", "l.jsonl", "--json").json
    assert (again["present"], again["different"], again["refused"]) == (4, 0, [])


def test_an_entry_too_large_for_the_ledger_does_not_keep_the_others_out(ledger: Path) -> None:
    large = line("large", "pending", meta="x" * 3_000_000)
    ledger.write_text(line("a", "sent") + large + line("z", "sent"))
    ran = run("import", "new.jsonl", "l.jsonl")
    assert ran.exit == 1
    assert ran.stdout.startswith("Inserted 2; ")
    assert "1 cannot be kept here and was left out:\n  The entry of large has " in ran.stdout
    assert "A call here may send it again.\n" in ran.stdout


def test_one_is_said_as_one_and_several_as_several(ledger: Path) -> None:
    ledger.write_text(line("a", "sent"))
    Path("two.jsonl").write_text(line("a", "failed") + line("b", "failed"))
    Path("e.csv").write_text("key,status\na,sent\n")
    Path("e2.csv").write_text("key,status\na,sent\nno,sent\nb,odd\n")
    said = {
        ("import", "l.jsonl", "two.jsonl"): "1 was there already and stays as it is.\n1 of those differs from",
        ("import", "two.jsonl", "l.jsonl"): "1 is recorded as sent there and not here; a call here may send it again:",
        ("resolve", "l.jsonl", "--from-export", "e.csv"): "from 1 row.\n1 was settled so already.\n",
        ("resolve", "two.jsonl", "--from-export", "e2.csv", "--dry-run"): "from 3 rows.\n1 is not in this ledger.\n",
        ("doctor", "two.jsonl"): "entries: 2 keys in 2 lines",
        ("compact", "two.jsonl", "--yes"): "2 keys, 0 of them shrunk;",
        ("compact", "x.jsonl", "--yes"): "1 key, 1 of them shrunk;",
        ("doctor", "x.jsonl"): "entries: 1 key in 1 line",
        ("doctor", "sqlite:x.db"): "entries: 1 row, each an entry",
    }
    Path("x.jsonl").write_text(line("a", "sent"))
    run("import", "sqlite:x.db", "x.jsonl")
    for args, words in said.items():
        assert words in run(*args).stdout, args
