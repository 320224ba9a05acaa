"""The recorded answers of the reference, and the values its recordings describe in words."""

from __future__ import annotations

import json
import math
import re
from collections import UserString
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

VECTORS: Final = Path(__file__).parent / "vectors"
DEVIATIONS_PAGE: Final = Path(__file__).parents[3] / "docs" / "explanation" / "deviations-text.md"

_TWINS: Final[dict[str, Callable[[], object]]] = {
    "undefined": lambda: None,
    "NaN": lambda: math.nan,
    "Infinity": lambda: math.inf,
    "-Infinity": lambda: -math.inf,
    "-0": lambda: -0.0,
    "bigint 7": lambda: 7,
    "Date 2026-09-27T00:00:00Z": lambda: datetime(2026, 9, 27, tzinfo=UTC),
    'String object "email"': lambda: UserString("email"),
}


def recorded(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


def value_of(described: Any) -> Any:
    """The value a recording means: `{"$num": "7.0"}` and `{"$js": "NaN"}` stand for what JSON cannot hold."""
    if isinstance(described, dict) and set(described) == {"$num"}:
        text = described["$num"]
        return int(text) if re.fullmatch("-?[0-9]+", text) else float(text)
    if isinstance(described, dict) and set(described) == {"$js"}:
        return _TWINS[described["$js"]]()
    return described


def documented_deviations(file: str) -> set[str]:
    """The names listed for one vector file in the page on deviations."""
    rows = re.findall(r"^\| `?([a-z_]+\.json)`? \| (.+?) \|", DEVIATIONS_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name.strip("`") for found, name in rows if found == file}
