"""Entries as JSON Lines and CSV, and rows of a provider's export. Pure: text and values in and out."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from send_once import jsontext
from send_once.entry import Entry, Json, Status
from send_once.errors import InvalidInputError
from send_once.jsnumbers import js_number
from send_once.settings import Settlement
from send_once.terminal import printable

CSV_COLUMNS: Final = (
    "key", "status", "attempts", "claimed_at", "updated_at", "sent_at", "provider_id", "error", "uncertain", "meta",
    "resolved_by", "resolved_note", "resolved_at",
)  # fmt: skip

# What a spreadsheet takes for a formula (OWASP, "CSV Injection").
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def as_json_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Each entry's text as stored: the result is a ledger file itself, one line a key."""
    return (printable(_on_one_line(entry)) + "\n" for entry in entries)


def as_csv(entries: Iterable[Entry]) -> Iterator[str]:
    """For people and spreadsheets (RFC 4180, UTF-8). A text that a spreadsheet would take for a formula
    gets an apostrophe before it; :func:`read_rows` takes that away again."""
    yield _csv_line(CSV_COLUMNS)
    for entry in entries:
        yield _csv_line([_guarded(cell) for cell in _cells(entry)])


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of an export say what."""

    key: str
    status: str
    provider_id: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What an export says: one settlement a key, and the words nobody has given a meaning, by key."""

    settlements: Sequence[Settlement]
    without_meaning: Mapping[str, str]
    rows: int


def plan(rows: Sequence[Mapping[str, str]], columns: Columns, words: Mapping[str, Status], *, source: str) -> Plan:
    """What the rows settle. Only words in `words` count. Where rows of one key contradict each other,
    sent wins: it only ever prevents a send."""
    settled: dict[str, Settlement] = {}
    without_meaning: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        key, word = _cell(row, columns.key, number), _cell(row, columns.status, number).strip()
        status = words.get(word.lower())
        if status is None:
            without_meaning.setdefault(key, word)
        elif key and (key not in settled or status is Status.SENT):
            provider_id = row.get(columns.provider_id) if columns.provider_id else None
            settled[key] = Settlement(key, status, f"{source}, row {number}: {word}", provider_id or None)
    left = {key: word for key, word in without_meaning.items() if key and key not in settled}
    return Plan(tuple(settled.values()), left, len(rows))


def read_rows(text: str, *, name: str) -> list[dict[str, str]]:
    """The rows of an export: JSON (an array), JSON Lines, or CSV with a heading (comma, semicolon or
    tab). Members of nested objects are named with dots. InvalidInputError for anything else."""
    text = text.removeprefix("\ufeff")
    start = text.lstrip()[:1]
    if start == "[":
        return [_flat(value, number, name) for number, value in enumerate(_json(text, 1, name), 1)]
    if start == "{":
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        return [_flat(_json(line, number, name), number, name) for number, line in lines]
    return _csv_rows(text, name)


def _on_one_line(entry: Entry) -> str:
    """A row of a table may have been laid out over several lines."""
    text = entry.text
    if "\n" in text or "\r" in text:
        return jsontext.stringify(entry.to_json(), where="entry", infinity_as_null=True)
    return text


def _csv_rows(text: str, name: str) -> list[dict[str, str]]:
    heading = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=heading.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restkey="", restval="")
    try:
        rows = [{column: _unguarded(cell) for column, cell in row.items() if column} for row in reader]
    except csv.Error as error:
        raise InvalidInputError(f"{name}, line {reader.line_num}: {error}.", field="export") from None
    if not rows:
        raise InvalidInputError(f"{name} has no rows; a heading and at least one row are needed.", field="export")
    return rows


def _cell(row: Mapping[str, str], column: str, number: int) -> str:
    value = row.get(column)
    if value is None:
        columns = ", ".join(row)
        raise InvalidInputError(f"Row {number} has no column {column!r}. It has: {columns}.", field=column)
    return value


def _json(text: str, number: int, name: str) -> Json:
    try:
        return jsontext.parse(text)
    except ValueError as error:
        raise InvalidInputError(f"{name}, line {number} is not JSON: {error}.", field="export") from None


def _flat(value: Json, number: int, name: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InvalidInputError(f"{name}, row {number} is no JSON object.", field="export")
    flat: dict[str, str] = {}
    nested = [("", value)]
    while nested:
        prefix, members = nested.pop()
        for member, inner in members.items():
            if isinstance(inner, dict):
                nested.append((f"{prefix}{member}.", inner))
            else:
                flat[prefix + member] = _text(inner)
    return flat


def _text(value: Json) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return jsontext.stringify(value, where="value", infinity_as_null=True)


def _cells(entry: Entry) -> Iterator[str]:
    resolution = entry.resolution or {}
    yield from (entry.key, entry.status.value, js_number(entry.attempts), entry.claimed_at, entry.updated_at or "")
    yield from (entry.sent_at or "", entry.provider_id or "", entry.error or "", "yes" if entry.uncertain else "")
    yield "" if entry.meta is None else jsontext.stringify(entry.meta, where="meta", infinity_as_null=True)
    yield from (_text(resolution.get(name)) for name in ("by", "note", "at"))


def _csv_line(cells: Iterable[str]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerow(list(map(printable, cells)))
    return buffer.getvalue()


def _guarded(cell: str) -> str:
    return f"'{cell}" if cell.startswith((*_FORMULA_STARTS, "'")) else cell


def _unguarded(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and cell[1:2] in (*_FORMULA_STARTS, "'") else cell
