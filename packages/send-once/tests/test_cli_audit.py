"""`send-once audit`, beyond the recorded runs: who claimed, metrics, watching, and the world around it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_runs import Terminal, line, mark, process, run
from send_once import Ledger
from send_once.owner import this_owner
from send_once.stores.file import FileStore


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("l.jsonl")


def here() -> dict[str, Any]:
    owner = this_owner()
    return mark(host=owner.host, pid=owner.pid, start=owner.start)


def test_an_audit_says_where_the_process_behind_each_unknown_is(ledger: Path) -> None:
    boot, namespace, _ = this_owner().start.split(".")
    claims = {
        "mine": here(),
        "dead": {**here(), "start": f"{boot}.{namespace}.1"},
        "restarted": {**here(), "start": f"00000000.{namespace}.1"},
        "far": mark(),
        "boxed": {**here(), "start": f"{boot}.{int(namespace) + 1}.1"},
        "unclear": mark(start=""),
    }
    ledger.write_text("".join(line(key, "pending", claim=claim) for key, claim in claims.items()))
    text = run("audit", "l.jsonl").stdout
    said = dict(re.findall(r"^  (\w+)\n.*\n      claimed by process \d+ on \S+: (.+)$", text, re.MULTILINE))
    assert said == {
        "mine": "still running here",
        "dead": "gone",
        "restarted": "gone with a restart, or elsewhere",
        "far": "on another host",
        "boxed": "in another container",
        "unclear": "not known from here",
    }
    states = {one["key"]: one["process"]["state"] for one in run("audit", "l.jsonl", "--json").json["unknown"]}
    assert states["mine"] == "running here"
    assert states["dead"] == "process gone"


def test_a_claim_of_the_reference_adds_nothing(ledger: Path) -> None:
    ledger.write_text(line("k", "pending"))
    assert "claimed by" not in run("audit", "l.jsonl").stdout
    assert "process" not in run("audit", "l.jsonl", "--json").json["unknown"][0]


SAMPLE = re.compile(r'^([a-z_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\[\\n"])*",?)*)\} (-?[0-9.e+]+|NaN)$')


def samples(text: str) -> dict[str, float]:
    """The samples of a text in the exposition format, strictly read."""
    found: dict[str, float] = {}
    for text_line in text.splitlines():
        if not text_line.startswith("#"):
            match = SAMPLE.match(text_line)
            assert match, text_line
            found[f"{match[1]}{{{match[2]}}}"] = float(match[3])
    return found


def test_metrics_count_what_the_audit_counts(ledger: Path) -> None:
    old = line("a", "pending") + line("b", "pending", claim=mark())
    young = line("c", "pending").replace("T16:00", "T19:59")
    ledger.write_text(old + young + line("d", "sent") + line("e", "failed") + '{"key":"torn')
    ran = run("audit", "l.jsonl", "--metrics", "--older-than", "10m")
    assert ran.exit == 0, "a failing exit code would look like a failed measurement"
    found = samples(ran.stdout)
    of = 'ledger="l.jsonl"'
    assert found[f'send_once_entries{{{of},status="pending"}}'] == 3
    assert found[f"send_once_unknown{{{of}}}"] == 2
    assert found[f'send_once_unknown_by_process{{{of},process="another host"}}'] == 1
    assert found[f'send_once_unknown_by_process{{{of},process="not recorded"}}'] == 1
    assert found[f"send_once_unknown_oldest_age_seconds{{{of}}}"] == 4 * 3600
    assert found[f"send_once_in_flight{{{of}}}"] == 1
    assert found[f"send_once_skipped_lines{{{of}}}"] == 1
    assert found[f"send_once_damaged_lines{{{of}}}"] == 0


def test_every_metric_is_described_once(ledger: Path) -> None:
    ledger.write_text(line("a", "sent"))
    text = run("audit", "l.jsonl", "--metrics").stdout
    described = re.findall(r"^# TYPE (\S+) gauge$", text, re.MULTILINE)
    assert described == re.findall(r"^# HELP (\S+) \S", text, re.MULTILINE)
    assert set(described) == {name.partition("{")[0] for name in samples(text)}
    assert len(described) == len(set(described))


def test_a_ledgers_odd_name_is_escaped_in_metrics(ledger: Path) -> None:
    name = 'a"b\\c\x1b\n.jsonl'
    Path(name).write_text(line("a", "sent"))
    text = run("audit", name, "--metrics").stdout
    assert samples(text)
    assert "\x1b" not in text
    assert r'ledger="a\"b\\c\\x1b\\n.jsonl"' in text


def test_watching_looks_again_and_sees_what_changed(ledger: Path) -> None:
    ledger.write_text(line("k", "pending"))

    class SettlesAfterTheFirstLook(io.StringIO):
        def write(self, text: str) -> int:
            with ledger.open("a") as file:
                file.write(line("k", "sent"))
            return super().write(text)

    ran = run("audit", "l.jsonl", "--watch=0.05", "--watch-count", "2", stdout=SettlesAfterTheFirstLook())
    assert ran.exit == 0, "the last look decides"


def test_watching_into_a_pipe_prints_one_report_after_another(ledger: Path) -> None:
    ledger.write_text(line("k", "pending"))
    ran = run("audit", "l.jsonl", "--watch=0.05", "--watch-count", "3")
    assert (ran.exit, ran.stdout.count("UNKNOWN  1 send"), ran.stdout.count("\x1b")) == (1, 3, 0)


def test_watching_on_a_terminal_draws_over_the_last_report(ledger: Path) -> None:
    ledger.write_text(line("k", "pending"))
    screen = Terminal()
    ran = run("audit", "l.jsonl", "--watch", "0.05", "--watch-count", "2", stdout=screen)
    assert ran.stdout.count("\x1b[H\x1b[2J") == 2
    assert "every 0.05 s, Ctrl-C ends" in ran.stdout


def test_watching_a_ledger_that_was_taken_away_does_not_call_it_well(ledger: Path) -> None:
    ledger.write_text(line("k", "pending"))

    class TakesItAway(io.StringIO):
        def write(self, text: str) -> int:
            ledger.unlink(missing_ok=True)
            return super().write(text)

    ran = run("audit", "l.jsonl", "--watch=0.05", "--watch-count", "3", stdout=TakesItAway())
    assert (ran.exit, ran.stderr) == (2, "No such ledger: l.jsonl\n")
    assert ran.stdout.count("UNKNOWN") == 1
    assert "Nothing unresolved" not in ran.stdout


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "1e9"])
def test_watching_without_a_pause_is_refused(ledger: Path, seconds: str) -> None:
    ledger.write_text(line("k", "sent"))
    ran = run("audit", "l.jsonl", f"--watch={seconds}")
    assert (ran.exit, ran.stderr) == (2, f"--watch must be a number of seconds from 0.05 to 86400, got {seconds}.\n")


def test_ctrl_c_ends_watching_without_a_traceback(ledger: Path) -> None:
    ledger.write_text(line("k", "pending"))
    child = subprocess.Popen(
        [sys.executable, "-m", "send_once", "audit", "l.jsonl", "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert any("resolve l.jsonl <key> failed" in printed for printed in child.stdout)
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=30)
    assert (child.returncode, stderr) == (130, "")


def test_a_reader_that_goes_away_is_no_error(ledger: Path) -> None:
    ledger.write_text("".join(line(f"key-{number}", "pending") for number in range(3_000)))
    reading, writing = os.pipe()
    os.close(reading)
    child = subprocess.run(
        [sys.executable, "-m", "send_once", "audit", "l.jsonl"], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (child.returncode, child.stderr) == (141, "")


def test_a_closed_standard_output_is_no_error(ledger: Path) -> None:
    ledger.write_text(line("k", "sent"))
    command = f"exec {sys.executable} -m send_once audit l.jsonl >&-"
    child = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert (child.returncode, child.stderr) == (0, "")


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1", "C.UTF-8"])
def test_the_output_is_utf8_in_any_locale(ledger: Path, locale: str) -> None:
    ledger.write_text(line("ключ🎉", "pending"))
    ran = process("audit", "l.jsonl", env={"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert "\n  ключ🎉\n" in ran.stdout


CLAIM_WITHOUT_END = """
import itertools, sys
from send_once import Ledger
from send_once.stores.file import FileStore
ledger = Ledger(FileStore(sys.argv[1]))
for number in itertools.count():
    print(number, flush=True)
    ledger.once(f"k{number}", lambda: "m")
"""


def test_beside_a_busy_writer_the_counts_of_a_report_agree(ledger: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", CLAIM_WITHOUT_END, "l.jsonl"], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert any(printed == "5\n" for printed in writer.stdout)
    try:
        for _ in range(40):
            report = run("audit", "l.jsonl", "--json").json
            counts = report["counts"]
            assert counts["pending"] == len(report["unknown"]) + report["inFlight"]
            assert counts["total"] == counts["sent"] + counts["failed"] + counts["pending"]
            assert report["inFlight"] >= 0
    finally:
        writer.kill()
        writer.communicate()


def test_an_unreadable_ledger_is_one_line_and_in_json_an_object(ledger: Path) -> None:
    Path("dir").mkdir()
    ran = run("audit", "dir", "--json")
    assert ran.exit == 2
    assert ran.json["error"]["code"] == "store_error"
    assert ran.stderr.startswith("Error: ")
    assert ran.stderr.endswith("[store_error]\n")
    assert ran.stderr.count("\n") == 1


def test_importing_the_library_does_not_load_the_command_line() -> None:
    code = "import sys, send_once; print([m for m in sys.modules if 'send_once.c' in m and 'li' in m or 'audit' in m])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"


def test_an_audit_of_a_database_reads_as_one_of_a_file(ledger: Path) -> None:
    source = Ledger(FileStore(ledger))
    source.once("a", lambda: "m")
    source.claim("b")
    assert run("import", "sqlite:l.db", "l.jsonl").exit == 0
    in_file, in_table = (run("audit", name, "--json").json for name in ("l.jsonl", "sqlite:l.db"))
    assert {**in_table, "ledger": "l.jsonl"} == in_file
    assert json.dumps(in_table["unknown"]) == json.dumps(in_file["unknown"])
