"""`audit` and `resolve` against what the reference printed: text, JSON, exit codes, lines written.

Where we answer otherwise, one row of DEVIATIONS says what, why, and exactly how. The rows are shown in
docs/explanation/deviations-cli.md; `python tests/test_cli_vectors.py` prints that page.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from send_once.cli import main

VECTORS = Path(__file__).parent / "vectors"
PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "deviations-cli.md"
NOW = datetime(2026, 9, 27, 20, 0, 0, tzinfo=UTC)
USER = pwd.getpwuid(os.getuid()).pw_name
USAGE, STACK = "<USAGE>", "<STACK>"

CLI: dict[str, Any] = json.loads((VECTORS / "cli.json").read_text())
LEDGERS: dict[str, dict[str, Any]] = {
    folder.name: json.loads((folder / "expected.json").read_text())
    for folder in sorted((VECTORS / "ledger_files").iterdir())
    if folder.is_dir()
}


@dataclass(frozen=True)
class Run:
    """One run: what was asked, and what came of it."""

    args: tuple[str, ...]
    exit: int
    stdout: str
    stderr: str

    @property
    def is_json(self) -> bool:
        return "--json" in self.args


Change = Callable[[Run], Run]


@dataclass(frozen=True)
class Deviation:
    """Where we differ. `changes` turns the reference's run into ours, by ledger or command line."""

    about: str
    reference: str
    here: str
    why: str
    changes: dict[str, Change]


def escaped(changes: dict[str, str]) -> Change:
    """The text with these characters written out; in JSON, their `\\u` escapes."""

    def change(run: Run) -> Run:
        stdout = run.stdout
        if run.is_json:
            return replace(run, stdout=stdout.translate({code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}))
        for theirs, ours in changes.items():
            stdout = stdout.replace(theirs, ours)
        return replace(run, stdout=stdout)

    return change


HAND_OVER = """\
  Each of these was claimed and never confirmed. The send may have reached
  the provider or may not. send-once will not send them again on its own.
  Check each one with the provider, then record what happened:
    send-once resolve ledger.jsonl <key> sent
    send-once resolve ledger.jsonl <key> failed

"""


def not_hidden(claimed_at: str, age_ms: int | None, claimed_line: str, *, except_for: str = "") -> Change:
    """The pending entry is listed instead of being counted as young."""
    key = "a" * 64

    def change(run: Run) -> Run:
        if "audit" not in run.args or except_for in run.args:
            return run
        if run.is_json:
            report = json.loads(run.stdout)
            entry = {"key": key, "claimedAt": claimed_at, "ageMs": age_ms, "attempts": 1, "meta": None, "error": None}
            report |= {"unknown": [entry], "inFlight": 0}
            return replace(run, exit=1, stdout=json.dumps(report, indent=2) + "\n")
        before, _, rest = run.stdout.partition("  1 more pending entry was claimed less than")
        assert rest, "the reference hides it"
        before = before.replace(
            "OK  Nothing unresolved in ledger.jsonl", "UNKNOWN  1 send may or may not have gone out"
        )
        return replace(run, exit=1, stdout=f"{before}  {key}\n      {claimed_line}, attempt 1\n\n{HAND_OVER}")

    return change


def with_damage(count: int) -> Change:
    """A paragraph more at the end, or a member more."""
    subject = "One line is" if count == 1 else f"{count} lines are"
    note = (
        f"  {subject} damaged in a way that no crash explains, and may have been a\n"
        "  claim. New claims are refused until someone has looked: send-once doctor\n"
        "  ledger.jsonl\n\n"
    )

    def change(run: Run) -> Run:
        if "audit" not in run.args:
            return run
        if run.is_json:
            return replace(run, stdout=run.stdout.removesuffix("\n}\n") + f',\n  "damagedLines": {count}\n}}\n')
        return replace(run, stdout=run.stdout + note)

    return change


def attempt_one(run: Run) -> Run:
    return replace(run, stdout=run.stdout.replace("attempt undefined", "attempt 1"))


def stderr_is(text: str) -> Change:
    return lambda run: replace(run, stderr=text)


NINES = "9" * 400
NEEDS = "needs a value, and"
DASH = "A key or file that begins with a dash goes after --, as in: send-once resolve -- LEDGER -KEY sent"
NO_DIRECTORY = "Error: {cwd}/dir cannot be used as a ledger: it is a directory; name a file inside it. [store_error]\n"

DEVIATIONS = (
    Deviation(
        "a pending entry whose time lies in the future or cannot be read",
        'counts it as young whatever the limit: "Nothing unresolved", exit 0',
        "lists it, exit 1. A time ahead counts by its distance, like a time behind",
        "A clock that was set back, or a line of another tool, must not hide a send that may have gone out.",
        {
            "future_claimed_at": not_hidden(
                "2026-09-28T16:00:00.000Z",
                -72_000_000,
                "claimed 2026-09-28T16:00:00.000Z, 20h in the future",
                except_for="1d",
            ),
            "invalid_claimed_at": not_hidden("not a date", None, "claimed at a time that cannot be read (not a date)"),
        },
    ),
    Deviation(
        "control characters, marks that reorder text, and line breaks in stored text",
        "prints them raw",
        "prints them as escapes (`\\x1b`, `\\n`); in JSON as `\\u` escapes of the same value",
        "A key or a provider's error text could otherwise clear the screen, hide a line of the report or fake one.",
        {
            "terminal_escapes": escaped(
                {
                    "  k\x1b[31m\n": "  k\\x1b[31m\n",
                    "x: \x1b]0;title\x07\n": "x: \\x1b]0;title\\x07\n",
                    "bad\x1b[2J: v": "bad\\x1b[2J: v",
                    "a\x1b[0mb\b\n": "a\\x1b[0mb\\b\n",
                }
            ),
            "odd_keys": escaped({"  a\nb\n": "  a\\nb\n"}),
            "wrapping": escaped({"f\x85g": "f\\x85g"}),
            "other_line_separators": escaped({"z\x85w": "z\\x85w"}),
        },
    ),
    Deviation(
        "lines that are damaged, not torn",
        "counts them among the skipped lines",
        "the same, and says in one more paragraph (JSON: `damagedLines`) that claims are refused until someone has looked",
        "Such a line may have been a claim; a report that says OK while every send is refused would mislead.",
        {
            "blank_for_python_only": with_damage(4),
            "bom": with_damage(1),
            "foreign_lines": with_damage(14),
            "lone_cr": with_damage(1),
            "many_skipped": with_damage(2),
            "other_line_separators": with_damage(1),
            "python_only_json": with_damage(3),
        },
    ),
    Deviation(
        "an entry without a number of attempts",
        '"attempt undefined"',
        '"attempt 1" (JSON, as there, leaves the member out)',
        "An entry exists only after at least one claim.",
        {"minimal_entries": attempt_one},
    ),
    Deviation(
        "a directory, an endless duration, an empty key",
        "a stack trace, exit 2",
        "one line that says what to do, exit 2",
        "A stack trace is for those who wrote the program.",
        {
            "audit dir": stderr_is(NO_DIRECTORY),
            "resolve dir p sent": stderr_is(NO_DIRECTORY),
            f"audit l.jsonl --older-than {NINES}d": stderr_is(
                "--older-than: A duration must be zero or more milliseconds, got Infinity.\n"
            ),
            "resolve l.jsonl  sent": stderr_is("Error: A key must be a non-empty string. [invalid_input]\n"),
        },
    ),
    Deviation(
        "options that are unknown or malformed",
        "the words of its runtime, and the usage; exit 2",
        "our words, in one line that names the usage; exit 2",
        "The texts come from Node, not from the reference.",
        {
            "audit l.jsonl --json=true": stderr_is(f"--json takes no value.\n{USAGE}"),
            "audit l.jsonl --no-json": stderr_is(f"Unknown option --no-json. {DASH}\n{USAGE}"),
            "audit l.jsonl -j": stderr_is(f"Unknown option -j. {DASH}\n{USAGE}"),
            "audit l.jsonl --bogus": stderr_is(f"Unknown option --bogus. {DASH}\n{USAGE}"),
            "audit l.jsonl --older-than": stderr_is(f"--older-than needs a value: --older-than DURATION.\n{USAGE}"),
            "audit l.jsonl --older-than -1h": stderr_is(
                f"--older-than {NEEDS} -1h looks like an option. If it is the value, write --older-than=-1h.\n{USAGE}"
            ),
            "resolve l.jsonl p sent --by": stderr_is(f"--by needs a value: --by NAME.\n{USAGE}"),
            "resolve l.jsonl p sent --by --note x": stderr_is(
                f"--by {NEEDS} --note looks like an option. If it is the value, write --by=--note.\n{USAGE}"
            ),
            "resolve l.jsonl -dash sent": stderr_is(f"Unknown option -d. {DASH}\n{USAGE}"),
        },
    ),
)


def ours(name: str, run: Run) -> Run:
    """The reference's run as we answer it."""
    for deviation in DEVIATIONS:
        change = deviation.changes.get(name)
        run = run if change is None else change(run)
    return run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_here(args: tuple[str, ...], env: dict[str, str], stdout: io.StringIO | None = None) -> Run:
    out, err = stdout or io.StringIO(), io.StringIO()
    code = main(args, clock=lambda: NOW, stdout=out, stderr=err, env=env)
    return Run(args, code, out.getvalue(), err.getvalue())


def run_in_a_process(args: tuple[str, ...], env: dict[str, str]) -> Run:
    done = subprocess.run([sys.executable, "-m", "send_once", *args], capture_output=True, env={**os.environ, **env})
    return Run(args, done.returncode, done.stdout.decode(), done.stderr.decode())


def of_vector(recorded: dict[str, Any]) -> Run:
    stdout, stderr = (recorded[stream].replace("<USER>", USER) for stream in ("stdout", "stderr"))
    return Run(tuple(recorded["args"]), recorded["exit"], stdout, stderr)


def assert_same(got: Run, expected: Run) -> None:
    assert got.exit == expected.exit
    for text, wanted in ((got.stdout, expected.stdout), (got.stderr, expected.stderr)):
        wanted = wanted.replace("{cwd}", os.getcwd())
        if wanted.endswith(USAGE):
            before = wanted.removesuffix(USAGE)
            assert text.startswith(f"{before}Usage: send-once ")
        else:
            assert text == wanted


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files the recorded runs were made with."""

    def line(key: str, status: str, **more: Any) -> str:
        at = "2026-09-27T16:00:00.000Z"
        entry = {"key": key, "status": status, "attempts": 1, "claimedAt": at, "updatedAt": at, "meta": None, **more}
        return json.dumps(entry, separators=(",", ":")) + "\n"

    pending = line("p", "pending", meta={"to": "ana@example.com"}, error="ETIMEDOUT")
    files = {
        "l.jsonl": line("s", "sent") + pending + line("f", "failed") + line("-dash", "pending"),
        "ok.jsonl": line("s", "sent"),
        "empty.jsonl": "",
        "x.csv": "a,b",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "dir").mkdir()
    (tmp_path / "link.jsonl").symlink_to("l.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    return tmp_path


@pytest.mark.parametrize("recorded", CLI["runs"], ids=lambda run: " ".join(run["args"])[:60] or "nothing")
def test_a_command_line_answers_as_the_reference(recorded: dict[str, Any], desk: Path) -> None:
    expected = ours(" ".join(recorded["args"]), of_vector(recorded))
    assert_same(run_here(expected.args, recorded.get("env", {})), expected)


@pytest.mark.parametrize("recorded", CLI["on_a_terminal"], ids=lambda run: " ".join([*run["args"], *run["env"]]))
def test_a_terminal_gets_the_references_colours(recorded: dict[str, Any], desk: Path) -> None:
    got = run_here(tuple(recorded["args"]), recorded["env"], Terminal())
    assert got.stdout == recorded["terminal_output"]


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_is_audited_as_by_the_reference(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(VECTORS / "ledger_files" / name / "ledger.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    for recorded in LEDGERS[name]["cli"]:
        got = run_here(tuple(recorded["args"]), {"NO_COLOR": "1"})
        if "stdout_sha256" in recorded:
            assert hashlib.sha256(got.stdout.encode()).hexdigest() == recorded["stdout_sha256"]
            assert (got.exit, got.stderr) == (recorded["exit"], recorded["stderr"])
        else:
            assert_same(got, ours(name, of_vector(recorded)))
    assert os.listdir() == ["ledger.jsonl"], "an audit leaves nothing behind"


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_is_resolved_as_by_the_reference(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "ledger.jsonl"
    monkeypatch.chdir(tmp_path)
    for case in LEDGERS[name]["resolve"]:
        shutil.copy(VECTORS / "ledger_files" / name / "ledger.jsonl", ledger)
        before = ledger.read_bytes()
        for recorded in case["runs"]:
            got = run_here(tuple(recorded["args"]), {"NO_COLOR": "1"})
            if "stdout_sha256" in recorded:
                assert (got.exit, got.stderr) == (recorded["exit"], recorded["stderr"])
                assert hashlib.sha256(got.stdout.encode()).hexdigest() == recorded["stdout_sha256"]
            else:
                assert_same(got, ours(name, of_vector(recorded)))
        appended = ledger.read_bytes().removeprefix(before)
        if "appended_sha256" not in case:
            assert appended.decode() == case["appended"].replace("<USER>", USER)
        elif case["name"] != "default user":
            assert hashlib.sha256(appended).hexdigest() == case["appended_sha256"]
        assert (tmp_path / "ledger.jsonl.lock").exists() is case["lock_left"]


WHATEVER_THE_TIME = (
    "",
    "--version",
    "frobnicate",
    "audit ok.jsonl",
    "audit x.csv",
    "audit missing.jsonl",
    "audit dir",
    "resolve l.jsonl nope sent",
    "resolve l.jsonl s failed",
    "resolve l.jsonl p failed --by ops",
    "resolve --by ops -- l.jsonl -dash sent",
)


@pytest.mark.parametrize("line", WHATEVER_THE_TIME)
def test_the_program_as_a_process_answers_the_same(line: str, desk: Path) -> None:
    (recorded,) = (run for run in CLI["runs"] if " ".join(run["args"]) == line)
    got = run_in_a_process(tuple(recorded["args"]), recorded.get("env", {}))
    assert_same(got, ours(" ".join(recorded["args"]), of_vector(recorded)))


def test_every_deviation_names_a_recorded_vector() -> None:
    recorded = {" ".join(run["args"]) for run in CLI["runs"]} | set(LEDGERS)
    assert {name for deviation in DEVIATIONS for name in deviation.changes} <= recorded


def render_page() -> str:
    rows = [
        f"| {row.about} ({', '.join(f'`{short(name)}`' for name in row.changes)}) | {row.reference} | {row.here} | {row.why} |"
        for row in DEVIATIONS
    ]
    return (
        "# Where the command line differs from the reference\n\n"
        "`audit` and `resolve` print what the Node package of the same name prints, byte for byte, and end with the same\n"
        "exit code, on every recorded run but those named here. An entry's `claim` member, which the reference does not\n"
        "write, adds one line for each unknown send to the text, and a member `process` to the JSON.\n\n"
        "| about (recorded run or ledger) | reference | here | why |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def short(name: str) -> str:
    return name.replace(NINES, "999…").replace("l.jsonl  sent", 'l.jsonl "" sent').replace("|", "\\|")


def test_the_page_lists_every_deviation() -> None:
    assert PAGE.read_text() == render_page()


if __name__ == "__main__":
    sys.stdout.write(render_page())
