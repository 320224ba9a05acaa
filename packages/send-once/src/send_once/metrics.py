"""An audit as Prometheus metrics, in the text exposition format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from send_once.audit import PROCESS_WORDS, Audit
from send_once.jsnumbers import js_number
from send_once.terminal import harmless


class Metric(NamedTuple):
    """One gauge: its name, what it says, and a value for each set of labels."""

    name: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], float]]


def as_metrics(report: Audit) -> str:
    """Gauges about one ledger. All carry the label `ledger`."""
    return "".join(f"{line}\n" for metric in _metrics(report) for line in _lines(metric, report.name))


def _metrics(report: Audit) -> Iterator[Metric]:
    yield Metric(
        "send_once_entries",
        "Keys in the ledger by status.",
        [({"status": status.value}, count) for status, count in report.counts.items()],
    )
    yield Metric(
        "send_once_unknown",
        "Pending sends older than the limit: nobody knows whether they went out.",
        [({}, len(report.unknown))],
    )
    yield Metric(
        "send_once_unknown_by_process",
        "Unknown sends by where the process that claimed them is.",
        [({"process": word}, count) for word, count in _by_process(report).items()],
    )
    yield Metric(
        "send_once_unknown_oldest_age_seconds",
        "Age of the oldest unknown send whose time can be read; 0 without one.",
        [({}, max([0.0, *(unknown.age_ms or 0.0 for unknown in report.unknown)]) / 1000)],
    )
    yield Metric("send_once_in_flight", "Pending sends younger than the limit.", [({}, report.in_flight)])
    yield Metric("send_once_older_than_seconds", "The limit.", [({}, report.older_than_ms / 1000)])
    yield Metric("send_once_skipped_lines", "Lines of the file that are no entry.", [({}, report.skipped)])
    yield Metric(
        "send_once_damaged_lines", "Damaged lines nobody has accepted; claims are refused.", [({}, report.damaged)]
    )
    yield Metric("send_once_audit_timestamp_seconds", "When the ledger was read.", [({}, report.checked_at_ms / 1000)])


NO_PROCESS: Final = "not recorded"


def _by_process(report: Audit) -> Mapping[str, int]:
    words = [NO_PROCESS if one.process is None else one.process for one in report.unknown]
    return {word: words.count(word) for word in (*PROCESS_WORDS, NO_PROCESS)}


def _lines(metric: Metric, ledger: str) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} gauge"
    for labels, value in metric.samples:
        shown = ",".join(f'{name}="{_label(text)}"' for name, text in {"ledger": ledger, **labels}.items())
        yield f"{metric.name}{{{shown}}} {js_number(float(value))}"


def _label(text: str) -> str:
    """A label's value. The format knows three escapes only; other controls are written out first."""
    return harmless(text).replace("\\", r"\\").replace('"', r"\"")
