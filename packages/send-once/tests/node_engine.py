"""Asks Node.js, whose runtime the reference runs on, for its own answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, Final, TypeVar

import pytest

NODE: Final = shutil.which("node")
_Test = TypeVar("_Test", bound=Callable[..., None])

_PROGRAM: Final = """
const [inputs] = [JSON.parse(require("fs").readFileSync(0, "utf8"))];
const answer = (input) => { try { return (%s)(input); } catch { return null; } };
process.stdout.write(JSON.stringify(inputs.map(answer)));
"""


def needs_node(test: _Test) -> _Test:
    """Marks a comparison with the runtime itself. The recorded vectors and the properties beside it run anywhere."""
    absent = pytest.mark.skipif(NODE is None, reason="Node.js is not on PATH, so its runtime could not be asked")
    marked: _Test = pytest.mark.node(absent(test))
    return marked


def ask_node(function: str, inputs: list[Any], *, zone: str = "UTC") -> list[Any]:
    """What a JavaScript function answers to each input; None where it throws."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, "-e", _PROGRAM % function],
        input=json.dumps(inputs),
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "TZ": zone},
        check=True,
        timeout=120,
    )
    answers: list[Any] = json.loads(done.stdout)
    return answers
