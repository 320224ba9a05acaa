"""A command line that is wrong: what it is told, in text and in JSON, and that nothing is done."""

from __future__ import annotations

import itertools
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cli_runs import line, mark, run
from send_once.commands.registry import ALL_OPTIONS, COMMANDS, Command
from send_once.commands.rules import Excludes, Needs
from send_once.error_table import explained


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("l.jsonl")
    path.write_text(line("k", "pending", claim=mark()) + line("s", "sent"))
    return path


UNKNOWN_OPTION = "Unknown option {}. A key or file that begins with a dash goes after --, as in: send-once resolve -- LEDGER -KEY sent"

COUNTS = [("list", "--limit"), ("audit", "--watch-count")]
NO_COUNTS = ["0", "-1", "-0", "1.5", "many", "", "1e3", "+1", " 1", "1_000", "٣", "9" * 30, "1000000001"]


@pytest.mark.parametrize(("command", "option"), COUNTS)
@pytest.mark.parametrize("number", NO_COUNTS)
def test_a_number_that_is_no_count_is_refused(command: str, option: str, number: str) -> None:
    watch = ["--watch"] if command == "audit" else []
    for words in ([f"{option}={number}"], [option, number]):
        ran = run(command, "l.jsonl", *watch, *words)
        assert (ran.exit, ran.stdout) == (2, "")
        assert ran.stderr == f"{option} must be a whole number from 1 to 1000000000, got {number or 'nothing'}.\n"


def test_every_option_that_is_a_number_is_known_to_be_one() -> None:
    assert {f"--{option.name}" for option in ALL_OPTIONS.values() if option.number} == {
        *(option for _, option in COUNTS),
        "--watch",
    }


DURATIONS = [command for command in COMMANDS if any(option.value == "DURATION" for option in command.options)]


@pytest.mark.parametrize("command", DURATIONS, ids=lambda command: command.name)
@pytest.mark.parametrize("duration", ["36526d", "1000000000000d", "3155760000001s"])
def test_a_duration_over_a_century_is_a_slip_of_the_hand(command: Command, duration: str) -> None:
    ran = run(command.name, "l.jsonl", "--older-than", duration)
    assert (ran.exit, ran.stdout) == (2, "")
    assert ran.stderr == f"--older-than must be at most 100 years (36525d), got {duration}.\n"
    assert run("list", "l.jsonl", "--older-than", "36525d").exit == 0


@pytest.mark.parametrize("command", DURATIONS, ids=lambda command: command.name)
@pytest.mark.parametrize("duration", ["", "1", "1w", "-1h", "1h30m", "soon"])
def test_what_is_no_duration_is_told_what_one_is(command: Command, duration: str) -> None:
    ran = run(command.name, "l.jsonl", f"--older-than={duration}")
    assert (ran.exit, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f'--older-than: Not a duration: "{duration}". Use a number and a unit')


def positionals(command: Command) -> list[str]:
    texts = {"LEDGER": "l.jsonl", "KEY": "k", "sent|failed": "sent", "SOURCE": "l.jsonl", "[CODE]": "sent"}
    return [texts[word] for word in command.arguments.split()]


def written(name: str) -> str:
    return f"--{name}=x" if ALL_OPTIONS[name].value else f"--{name}"


PINNED = {("audit", "by"), ("audit", "note"), ("resolve", "older-than")}
"""The reference takes these without a use for them."""
NOT_TAKEN = [
    (command, name)
    for command, name in itertools.product(COMMANDS, ALL_OPTIONS)
    if name not in {option.name for option in command.options} | {"help", "version", "no-colour", "no-color"}
    and (command.name, name) not in PINNED
]


@pytest.mark.parametrize(("command", "name"), NOT_TAKEN, ids=lambda part: getattr(part, "name", part))
def test_an_option_without_a_use_is_refused(command: Command, name: str) -> None:
    ran = run(command.name, *positionals(command), written(name))
    assert ran.exit == 2
    assert ran.stderr.startswith(f"{command.name} does not take --{name}.\n")


RULES = [(command, rule) for command in COMMANDS for rule in command.rules]


@pytest.mark.parametrize(
    ("command", "rule"), RULES, ids=lambda part: getattr(part, "name", getattr(part, "option", ""))
)
def test_options_that_do_not_go_together_are_named_both(command: Command, rule: Needs | Excludes, ledger: Path) -> None:
    given = [written(rule.option), *([written(rule.other)] if isinstance(rule, Excludes) else [])]
    before = ledger.read_bytes()
    ran = run(command.name, *positionals(command), *given)
    assert ran.exit == 2
    first = ran.stderr.splitlines()[0]
    assert f"--{rule.option} " in first
    assert f"--{rule.other}" in first
    assert ledger.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("audit l.jsonl --json --metrics", "--json and --metrics exclude each other"),
        ("audit l.jsonl --watch-count 3", "--watch-count goes only with --watch."),
        ("doctor l.jsonl --by ana", "--by goes only with --accept-damage."),
        ("doctor l.jsonl --note x", "--note goes only with --accept-damage."),
        ("resolve l.jsonl k failed --dry-run", "--dry-run goes only with --from-export."),
        ("resolve l.jsonl k sent --sent-when ok", "--sent-when goes only with --from-export."),
        ("resolve l.jsonl k sent --even-if-running", "--even-if-running goes only with the status failed"),
        ("resolve l.jsonl --from-export e.csv --provider-id x", "--provider-id and --from-export exclude each other"),
        ("resolve l.jsonl k sent --from-export e.csv", "resolve takes one ledger, and no key, beside --from-export."),
        (
            "resolve l.jsonl --from-export e.csv --key-column a --status-column a",
            "--key-column and --status-column name",
        ),
        ("resolve l.jsonl --from-export=", "--from-export must be a text that is not empty, got nothing."),
        ("resolve l.jsonl k sent --provider-id=", "--provider-id must be a text that is not empty, got nothing."),
        ("list l.jsonl --grep=", "--grep must be a text that is not empty, got nothing."),
        ("export l.jsonl --format=", "--format must be jsonl or csv, got nothing."),
    ],
)
def test_what_would_be_ignored_is_refused_and_nothing_is_written(args: str, message: str, ledger: Path) -> None:
    before = ledger.read_bytes()
    ran = run(*args.split())
    assert (ran.exit, ran.stderr.startswith(message)) == (2, True), ran.stderr
    assert ledger.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        ("list", ["list takes one ledger.", "Usage: send-once list LEDGER [options]", "See `send-once list --help`."]),
        (
            "adit l.jsonl",
            ["Unknown command: adit", "Usage: send-once COMMAND LEDGER ...", "Did you mean send-once audit?",
             "See `send-once --help`."],
        ),
        (
            "l.jsonl",
            ["Unknown command: l.jsonl", "Usage: send-once COMMAND LEDGER ...",
             "A command comes first: send-once audit l.jsonl", "See `send-once --help`."],
        ),
        (
            "stats l.jsonl --jsn",
            [UNKNOWN_OPTION.format("--jsn"), "Usage: send-once stats LEDGER [options]", "Did you mean --json?",
             "See `send-once stats --help`."],
        ),
        (
            "export l.jsonl --json",
            ["export does not take --json.", "Usage: send-once export LEDGER [options]",
             "--format jsonl, the default, prints JSON Lines.", "See `send-once export --help`."],
        ),
    ],
)  # fmt: skip
def test_the_message_comes_first_and_the_help_is_named_not_printed(args: str, lines: list[str]) -> None:
    ran = run(*args.split())
    assert (ran.exit, ran.stderr.splitlines()) == (2, lines)


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        ("lst l.jsonl", "Did you mean send-once list?"),
        ("hlep", "Did you mean send-once help?"),
        ("help lst", "Did you mean send-once list?"),
        ("lst stats", "Usage: send-once COMMAND LEDGER ..."),
        ("AUDIT l.jsonl", "Did you mean send-once audit?"),
        ("-json audit l.jsonl", "Did you mean --json?"),
        ("list l.jsonl --limt 2", "Did you mean --limit?"),
        ("list l.jsonl --status pendign", "Did you mean pending?"),
        ("list l.jsonl --status FAILED", "Did you mean failed?"),
        ("export l.jsonl --format cvs", "Did you mean csv?"),
        ("resolve l.jsonl k snet", "Did you mean sent?"),
        ("explain lock_timeot", "Did you mean lock_timeout?"),
        ("explain SMTPRejctedError", "Did you mean SMTPRejectedError?"),
    ],
)
def test_what_was_nearly_right_is_asked_for(args: str, meant: str) -> None:
    ran = run(*args.split())
    assert (ran.exit, meant in ran.stderr) == (2, True), ran.stderr


@pytest.mark.parametrize("command", ["list", "export"])
def test_who_asks_for_unknown_is_told_what_is_stored(command: str) -> None:
    ran = run(command, "l.jsonl", "--status", "unknown")
    assert (ran.exit, "--status pending." in ran.stderr) == (2, True)


WRONG = [
    ("adit", "usage"),
    ("list", "usage"),
    ("list l.jsonl --limit 0", "usage"),
    ("list l.jsonl --bogus", "usage"),
    ("list l.jsonl --status unknown", "usage"),
    ("explain nothing_like_it", "usage"),
    ("show l.jsonl nobody", "not_found"),
    ("history l.jsonl nobody", "not_found"),
    *((f"{command} no.jsonl", "no_such_ledger") for command in ("audit", "list", "stats", "doctor", "compact")),
    ("resolve no.jsonl k sent", "no_such_ledger"),
    ("list x.csv", "not_a_ledger"),
    ("stats x.csv", "not_a_ledger"),
    ("import new.jsonl x.csv", "not_a_ledger"),
    ("compact l.jsonl", "not_confirmed"),
    ("compact sqlite:l.db", "not_supported"),
    ("audit dir", "store_error"),
    ("list redis://h", "invalid_input"),
    ("resolve l.jsonl --from-export no.csv", "os_error"),
]


@pytest.mark.parametrize(("args", "code"), WRONG)
def test_every_error_is_a_sentence_and_with_json_one_object_too(args: str, code: str) -> None:
    Path("x.csv").write_text("a,b\n")
    Path("dir").mkdir()
    sqlite3.connect("l.db").close()
    text, ran = run(*args.split()), run(*args.split(), "--json")
    assert ran.exit == text.exit in (1, 2)
    assert ran.stderr.splitlines()[0]
    assert (text.stdout, text.stderr) == ("", ran.stderr)
    assert set(ran.json) == {"error"}
    assert set(ran.json["error"]) == {"code", "message"}
    assert (ran.json["error"]["code"], explained(code) is not None) == (code, True)
    assert ran.json["error"]["message"] in ran.stderr.replace("Error: ", "")


PINNED_SILENCE = ["audit x.csv", "resolve l.jsonl nobody sent", "resolve l.jsonl s failed"]


@pytest.mark.parametrize("args", PINNED_SILENCE)
def test_where_the_reference_prints_no_json_there_is_none(args: str) -> None:
    Path("x.csv").write_text("a,b\n")
    assert run(*args.split(), "--json").stdout == ""


def test_after_two_dashes_json_is_a_name() -> None:
    assert run("audit", "--", "--json").stdout == ""


@pytest.mark.parametrize("name", ["x.db", "file:x.db"])
@pytest.mark.parametrize("command", ["audit", "list", "stats", "export", "doctor", "compact", "resolve", "import"])
def test_a_database_named_as_a_file_is_told_its_address(command: str, name: str) -> None:
    run("import", "sqlite:x.db", "l.jsonl")
    before = Path("x.db").read_bytes()
    more = {"resolve": ["k", "sent"], "import": ["l.jsonl"]}.get(command, [])
    ran = run(command, name, *more)
    assert (ran.exit, ran.stdout) == (2, "")
    assert ran.stderr == f"{name} is a SQLite database. As a ledger it is named sqlite:x.db\n"
    assert Path("x.db").read_bytes() == before


def test_another_file_that_is_no_ledger_gets_no_such_hint() -> None:
    Path("x.db").write_text("SQLite format 3\n")
    assert "sqlite:" not in run("audit", "x.db").stderr


def test_a_ledger_file_named_as_a_database_is_told_its_name() -> None:
    ran = run("audit", "sqlite:l.jsonl")
    assert (ran.exit, ran.stderr) == (
        2,
        "sqlite:l.jsonl is not a SQLite database. A ledger file is named without sqlite: as l.jsonl\n",
    )


@pytest.mark.parametrize("prefix", ["", "sqlite:"])
def test_a_pipe_or_folder_is_refused_and_not_waited_for(prefix: str) -> None:
    os.mkfifo("pipe")
    Path("dir").mkdir()
    for command, name in itertools.product(("audit", "list", "doctor", "export"), ("pipe", "dir")):
        ran = run(command, f"{prefix}{name}")
        assert (ran.exit, ran.stdout) == (2, ""), command
        assert "directory" in ran.stderr or "pipe" in ran.stderr


AS_NOBODY = """
import os, sys
import send_once.commands.audit, send_once.stores.file, send_once.stores.readonly
from send_once.cli import main
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("shut/l.jsonl", "Cannot look at shut/l.jsonl: permission denied"),
        ("sqlite:shut/l.db", "Cannot look at sqlite:shut/l.db: permission denied"),
        ("sqlite:secret.db", "sqlite:secret.db cannot be read: permission denied"),
        ("secret.jsonl", "Permission denied"),
    ],
)
def test_a_ledger_that_this_user_may_not_read_is_not_said_to_be_missing(
    address: str, words: str, tmp_path: Path
) -> None:
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    for name in ("secret.jsonl", "secret.db"):
        Path(name).write_text("x")
        Path(name).chmod(0)
    Path("shut").mkdir(mode=0)
    ran = subprocess.run([sys.executable, "-c", AS_NOBODY, "audit", address], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, words in ran.stderr) == (2, "", True), ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("args", ["--help", "list l.jsonl", "list l.jsonl --json", "list no.jsonl --json", "explain"])
def test_output_that_cannot_be_written_is_one_line(args: str) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "send_once", *args.split()]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2
    assert ran.stderr == "Error: the output cannot be written: No space left on device [os_error]\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_an_error_that_cannot_be_written_keeps_its_exit_code() -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run([sys.executable, "-m", "send_once", "audit", "no.jsonl"], stderr=full)
    assert ran.returncode == 2, "1 would say that something is unknown"
