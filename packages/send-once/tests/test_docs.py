"""What the documentation shows is what happens: the Python blocks of a page run in order, as one program.

A page that speaks of HOST and PORT gets a mail server, one that speaks of DATABASE_URL a fresh database. A
block whose first line is `# not run: <reason>` is only compiled. A page that defines test classes is given
to pytest as well. Console blocks are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Sink

from send_once import FileStore, Ledger
from sending import raising
from servers.ports import free_port

ROOT = Path(__file__).parents[3]
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("packages/*/*.md"), *ROOT.glob("docs/**/*.md")})
LANGUAGES = {"python", "console", "text", "json", "sql", "toml", "yaml", "bash"}
"""Every block says which it is, so that none escapes the tests by a slip of the pen."""
NOT_RUN = re.compile(r"# not run: \S+")
SECONDS_MAX = 120

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")


@dataclass(frozen=True)
class Block:
    """One fenced block. `line` is the number of its first line of code, counted from 1."""

    language: str
    line: int
    lines: tuple[str, ...]

    @property
    def runs(self) -> bool:
        return self.language == "python" and not NOT_RUN.match(self.lines[0] if self.lines else "")


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        if opening := _FENCE.match(line):
            indent, fence = len(opening["indent"]), opening["fence"]
            inside: list[str] = []
            for _, code in lines:
                if code.strip() == fence:
                    break
                inside.append(code[indent:] if not code[:indent].strip() else code)
            found.append(Block((opening["info"].split() or [""])[0], number + 1, tuple(inside)))
    return found


def program_of(text: str, variables: str = "") -> str:
    """The page as a program: its code at the line numbers of the page, blank lines for all else, and the
    variables in the first line, where a page has its title."""
    lines = [""] * len(text.splitlines())
    for block in blocks_of(text):
        if block.runs:
            lines[block.line - 1 : block.line - 1 + len(block.lines)] = block.lines
    assert not variables or not lines[0], "the page's first line is code, and its variables need a place"
    return "\n".join([variables, *lines[1:], ""])


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def mail_server() -> Iterator[Controller]:
    controller = Controller(Sink(), hostname="127.0.0.1", port=free_port())
    controller.start()
    yield controller
    controller.stop()


def variables_of(text: str, request: pytest.FixtureRequest) -> str:
    values: dict[str, object] = {}
    if re.search(r"\bHOST\b", text):
        controller = request.getfixturevalue("mail_server")
        values["HOST"], values["PORT"] = controller.hostname, controller.port
    if "DATABASE_URL" in text:
        values["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    return "; ".join(f"{name} = {value!r}" for name, value in values.items())


def run(program: Path, *command: str) -> None:
    done = subprocess.run(
        [sys.executable, *command, program.name],
        cwd=program.parent,
        env={**os.environ, "PYTHONDEVMODE": "", "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(b.runs for b in blocks_of(page.read_text()))], ids=name_of
)
def test_the_code_of_the_page_runs(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = page.read_text()
    program = tmp_path / f"{page.stem.lower().replace('-', '_')}_page.py"
    program.write_text(program_of(text, variables_of(text, request)))
    run(program)
    if re.search(r"^class Test", program.read_text(), re.MULTILINE):
        run(program, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_block_names_its_language_and_is_python_where_it_says_so(page: Path) -> None:
    for block in blocks_of(page.read_text()):
        assert block.language in LANGUAGES, f"{name_of(page)}:{block.line - 1}: {block.language or 'no language'}"
        if block.language == "python":
            compile("\n" * (block.line - 1) + "\n".join(block.lines), str(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_link_to_a_file_leads_to_a_file(page: Path) -> None:
    targets = _LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_a_page_becomes_a_program_with_the_lines_of_the_page() -> None:
    page = "# Title\n\n```python\na = 1\n```\n\n- in a list\n\n  ```python\n  b = a\n  ```\n\n```console\n$ x\n```\n"
    page += "```python\n# not run: needs a moon\nraise SystemExit\n```\n"
    assert program_of(page, "X = 1").rstrip().splitlines() == ["X = 1", "", "", "a = 1", "", "", "", "", "", "b = a"]


def test_a_page_whose_code_is_wrong_is_caught(tmp_path: Path) -> None:
    program = tmp_path / "page.py"
    program.write_text(program_of("# Title\n\n```python\nassert 1 == 2\n```\n"))
    with pytest.raises(AssertionError, match="line 4"):
        run(program)


def test_the_cron_line_is_silent_until_a_send_is_unresolved(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/cron.md").read_text()
    (line,) = (block.lines[0] for block in blocks_of(page) if block.language == "bash")
    ledger = tmp_path / "digest.jsonl"
    command = line.split(None, 5)[5].replace("/srv/app/.venv/bin/send-once", f"{sys.executable} -m send_once")
    command = command.replace("/var/lib/app/digest.jsonl", str(ledger)).replace("30m", "0s")

    def printed() -> str:
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False).stdout

    Ledger(FileStore(ledger)).once("k", lambda: "msg_1")
    assert printed() == ""
    Ledger(FileStore(ledger)).once("open", raising(TimeoutError()))
    assert "UNKNOWN" in printed()
    ledger.unlink()
    ledger.mkdir()
    assert "digest.jsonl" in printed()
