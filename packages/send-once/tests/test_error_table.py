"""The table of codes covers whatever the source can say, and the command line shows it."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import send_once
from cli_runs import run
from send_once.entry import Status
from send_once.error_table import HEADINGS, TABLE, as_markdown, explained
from send_once.errors import SendError, SendOnceError
from send_once.mail.errors import SMTPFailure
from send_once.mail.stages import Stage
from send_once.metrics import NO_PROCESS
from send_once.outcomes import ClaimOutcome, DispatchOutcome
from send_once.owner import Liveness

SOURCE = Path(send_once.__file__).parent


def trees() -> Iterator[ast.AST]:
    """The source, without the suites that others run."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "testing" not in path.parts:
            yield ast.parse(path.read_text())


def text_of(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def codes_in(tree: ast.AST) -> Iterator[str | None]:
    """Every code a module names: as a class's `code` or `outcome`, as a message's finding, or to the
    command line's ways of saying no."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id="code")], value=value):
                yield text_of(value)
            case ast.AnnAssign(target=ast.Name(id="code" | "outcome"), value=value):
                yield text_of(value)
            case ast.Call(func=ast.Name(id="error" | "warning"), args=[first, *_]):
                yield text_of(first)
            case ast.Call(func=ast.Attribute(attr="failed" | "_tell"), args=[first, *_]):
                yield text_of(first)
            case ast.Call(func=ast.Name(id="Refusal"), args=[_, _, third, *_]):
                yield text_of(third)


def codes_in_the_source() -> set[str]:
    return {code for tree in trees() for code in codes_in(tree) if code}


def exceptions(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__.startswith("send_once."):
            yield from exceptions(below)


def test_every_code_in_the_source_is_explained_and_every_row_has_a_use() -> None:
    codes = codes_in_the_source()
    assert {"lock_timeout", "payload_changed", "missing_header", "os_error", "still_running"} <= codes
    assert sorted(code for code in codes if explained(code) is None) == []
    words = {*(status.value for status in Status), *get_args(Liveness), NO_PROCESS, *Stage}
    names = {kind.__name__ for kind in exceptions(SendError)}
    assert {row.code for row in TABLE} <= codes | words | names
    assert len({row.code for row in TABLE}) == len(TABLE)
    assert {row.kind for row in TABLE} == set(HEADINGS)


def test_every_status_outcome_and_word_about_a_process_is_explained() -> None:
    outcomes = [
        getattr(kind, "__origin__", None) or kind for kind in (*get_args(ClaimOutcome), *get_args(DispatchOutcome))
    ]
    words = [*Status, *(kind.outcome for kind in outcomes), *get_args(Liveness), NO_PROCESS, "rejected"]
    words += Stage
    assert [word for word in words if explained(word) is None] == []


def test_every_exception_is_explained_by_its_name() -> None:
    for module in ("send_once.mail", "send_once.stores.postgresql"):
        importlib.import_module(module)
    kinds = [*exceptions(SendOnceError), *exceptions(SendError), SMTPFailure]
    assert len(kinds) > 20
    assert [kind.__name__ for kind in kinds if explained(kind.__name__) is None] == []
    assert run("explain", "LockTimeoutError").stdout.startswith("lock_timeout (error)\n")
    assert run("explain", "smtprejectederror").stdout.startswith("RejectedSendError (send error)\n")


def test_pending_and_unknown_are_told_apart() -> None:
    assert "`unknown`" in run("explain", "pending").stdout
    assert "pending" in run("explain", "unknown").stdout


def test_a_word_of_two_needs_no_quotes() -> None:
    assert run("explain", "process", "gone").stdout == run("explain", "process gone").stdout


def test_every_row_says_what_why_and_what_to_do_in_whole_sentences() -> None:
    assert [row.code for row in TABLE for text in row[2:] if not text.endswith((".", "`."))] == []


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.code)
def test_each_code_is_explained(row: object) -> None:
    assert hasattr(row, "code")
    ran = run("explain", row.code)
    assert ran.exit == 0
    assert ran.stdout.startswith(f"{row.code} (")
    assert "  What to do: " in ran.stdout


def test_a_code_that_nearly_exists_is_named() -> None:
    ran = run("explain", "lock_timeot")
    assert (ran.exit, ran.stderr) == (2, "No such code: lock_timeot. Did you mean lock_timeout?\n")


def test_the_page_names_every_code() -> None:
    page = as_markdown()
    assert [code for row in TABLE if (code := f"### `{row.code}`\n") not in page] == []


def test_without_a_code_all_are_listed_below_what_they_are() -> None:
    text = run("explain").stdout
    places = [text.find(f"\n  {row.code}  ") for row in TABLE]
    assert -1 not in places
    assert all(f"{heading}\n" in text for heading in HEADINGS.values())
    assert max(map(len, text.splitlines())) < 80
