"""What may be committed, and what a fresh clone must find."""

from __future__ import annotations

import re
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SIZE_MAX = 1_000_000
RECORDED = "packages/send-once/tests/vectors/"
"""Recorded data, kept byte for byte."""

LOCK_FILE = re.compile(r"\.lock$|^pylock\.|lock\.json$|lock\.ya?ml$", re.IGNORECASE)
# Written so that this file does not contain what it looks for.
INDEX = re.compile(
    r"\bpypi[.]org|pythonhosted[.]org|npmjs[.](?:org|com)|-[-](?:extra-)?index-url|-[-]find-links|index-url[ ]*="
)
SOMEBODYS_PATH = re.compile(r"/(?:home|Users)/[A-Za-z][\w.-]*/|(?<![\w.])/(?:root|work)/")
REQUIREMENT = re.compile(r"^[a-z0-9][a-z0-9.-]*==[^\s;]+(?: ; [^\\]+)?(?: --hash=sha256:[0-9a-f]{64})+$")


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """Files that are committed or would be: git's own list, so that what it ignores does not count."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout, so there is no list of what is committed")
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in sorted(set(listed.stdout.split("\0"))) if name and (path := ROOT / name).is_file()]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _lines_with(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    return [
        f"{_name(path)}:{number}: {line.strip()[:120]}"
        for path in files
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_lock_file_is_committed(tracked: list[Path]) -> None:
    assert [_name(path) for path in tracked if LOCK_FILE.search(path.name) and RECORDED not in _name(path)] == []


def test_no_file_names_a_package_index(tracked: list[Path]) -> None:
    assert _lines_with(INDEX, tracked) == []


def test_no_file_names_a_path_on_somebodys_machine(tracked: list[Path]) -> None:
    assert _lines_with(SOMEBODYS_PATH, [path for path in tracked if RECORDED not in _name(path)]) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (INDEX, "--index" + "-url https" + "://example.org/simple"),
        (INDEX, "https://files." + "pythonhosted" + ".org/packages"),
        (SOMEBODYS_PATH, "open('/home/" + "ana/ledger.jsonl')"),
        (SOMEBODYS_PATH, "cd /roo" + "t/project"),
        (LOCK_FILE, "uv.lock"),
        (LOCK_FILE, "package-lock.json"),
    ],
)
def test_what_is_looked_for_would_be_found(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


def test_no_file_is_large(tracked: list[Path]) -> None:
    assert {_name(path): path.stat().st_size for path in tracked if path.stat().st_size > SIZE_MAX} == {}


def test_text_files_end_their_lines_as_unix_does(tracked: list[Path]) -> None:
    assert [_name(path) for path in tracked if RECORDED not in _name(path) and b"\r\n" in path.read_bytes()] == []


def _requirements() -> list[str]:
    joined = (ROOT / "constraints.txt").read_text().replace(" \\\n    ", " ")
    return [line for line in joined.splitlines() if line and not line.startswith("#")]


def test_every_pin_is_exact_and_hashed() -> None:
    assert [line[:80] for line in _requirements() if not REQUIREMENT.match(line)] == []


def test_everything_development_asks_for_is_pinned() -> None:
    asked = (ROOT / "dev-requirements.in").read_text().splitlines()
    names = {re.split(r"[\[<>=~ ;]", line)[0] for line in asked if line and not line.startswith("#")}
    build = tomllib.loads((ROOT / "packages/send-once/pyproject.toml").read_text())["build-system"]["requires"]
    assert names | set(build) <= {line.split("==")[0] for line in _requirements()}


def test_the_readme_names_the_commands_that_make_has() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name for page in ROOT.glob("*.md") for name in re.findall(r"(?:`|\$ )make ([a-z][a-z-]*)", page.read_text())
    }
    assert {"demo", "test", "check"} <= named <= targets


def test_the_command_for_a_fresh_machine_is_a_program_that_runs_the_tests() -> None:
    program = ROOT / ".ci" / "run"
    assert program.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", program], check=True)
    assert "make test" in program.read_text().splitlines()[-1]


def test_the_licence_in_the_package_is_that_of_the_repository() -> None:
    for package in ("send-once", "cadensend"):
        assert (ROOT / "LICENSE").read_bytes() == (ROOT / f"packages/{package}/LICENSE").read_bytes()
