"""What is wrong with the very bytes that are about to go, found by reading them back.

An error keeps the lesson from going; a warning is shown, and a person decides.
"""

from __future__ import annotations

import email
import email.policy
import re
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Final
from urllib.parse import urlsplit

import lxml.html

from cadensend.rendering.lesson import Lesson
from cadensend.rendering.markdown import SCHEMES
from send_once.mail import Finding, check, render

CLIPPED_BYTES: Final = 102 * 1024
"""Of an HTML part beyond this, Gmail shows only the beginning, and a link to the rest."""
NEAR_CLIPPED_BYTES: Final = 100_000
SUBJECT_CHARS_SHOWN: Final = 60
PREHEADER_CHARS: Final = range(30, 141)

_PLACEHOLDER: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\bTODO\b|\bFIXME\b|\blorem ipsum\b|\bxxx+\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Preflight:
    """The bytes of one message, and the findings on them. `html_bytes` is the size of the HTML part, decoded."""

    raw: bytes
    findings: tuple[Finding, ...]
    html_bytes: int

    @property
    def may_go(self) -> bool:
        return all(finding.severity != "error" for finding in self.findings)


def preflight(message: EmailMessage, lesson: Lesson, *, to: str, envelope_from: str) -> Preflight:
    """Render `message` as it will be sent, and check what came out."""
    raw = render(message, to=to, envelope_from=envelope_from)
    parsed = email.message_from_bytes(raw, policy=email.policy.default)
    html, text = _part(parsed, "html"), _part(parsed, "plain")
    findings = (
        *check(raw, to=to, message=message),
        *_subject(lesson),
        *_preheader(lesson),
        *_size(len(html.encode())),
        *_twins(html, text),
        *_links(html),
        *_images(html),
        *_placeholders(lesson, text),
    )
    return Preflight(raw, findings, len(html.encode()))


def _part(message: EmailMessage, subtype: str) -> str:
    part = message.get_body((subtype,))
    content: object = part.get_content() if part is not None else ""
    return content if isinstance(content, str) else ""


def _subject(lesson: Lesson) -> list[Finding]:
    if len(lesson.subject) > SUBJECT_CHARS_SHOWN:
        return [_warning("subject_long", f"The subject has {len(lesson.subject)} characters; many lists show "
                         f"{SUBJECT_CHARS_SHOWN}.", "Subject")]  # fmt: skip
    return []


def _preheader(lesson: Lesson) -> list[Finding]:
    length = len(lesson.preheader.strip())
    if length == 0:
        return [_warning("preheader_missing", "There is no preheader: lists show how the lesson begins instead.")]
    if length not in PREHEADER_CHARS:
        return [_warning("preheader_length", f"The preheader has {length} characters; 30 to 140 are shown whole.")]
    if lesson.preheader.strip().casefold() == lesson.subject.strip().casefold():
        return [_warning("preheader_repeats", "The preheader says the same as the subject.")]
    return []


def _size(html_bytes: int) -> list[Finding]:
    if html_bytes <= NEAR_CLIPPED_BYTES:
        return []
    return [
        _warning(
            "clipped",
            f"The HTML part has {html_bytes // 1000} kB; Gmail cuts off what is beyond {CLIPPED_BYTES // 1024} kB. "
            "Shorten the lesson, or split it.",
        )
    ]


def _twins(html: str, text: str) -> list[Finding]:
    missing = [name for name, part in (("HTML", html), ("text", text)) if not part.strip()]
    return [Finding("error", "part_missing", None, f"The message has no {name} part.") for name in missing]


def _links(html: str) -> list[Finding]:
    found = []
    for link in _elements(html, "a"):
        target = (link.get("href") or "").strip()
        scheme = urlsplit(target).scheme if _splits(target) else ""
        if scheme not in SCHEMES:
            found.append(_warning("link_target", f"A link leads nowhere: {target or link.text_content()!r}."))
        elif scheme == "http":
            found.append(_warning("link_unsafe", f"A link is not encrypted: {target}."))
    return found


def _images(html: str) -> list[Finding]:
    return [
        _warning("image_alt", f"An image has no alternative text: {image.get('src')}.")
        for image in _elements(html, "img")
        if not (image.get("alt") or "").strip()
    ]


def _placeholders(lesson: Lesson, text: str) -> list[Finding]:
    found = {match[0] for part in (lesson.subject, lesson.preheader, text) for match in _PLACEHOLDER.finditer(part)}
    return [_warning("placeholder", f"This looks like a gap that was to be filled: {one}") for one in sorted(found)]


def _elements(html: str, tag: str) -> list[lxml.html.HtmlElement]:
    return list(lxml.html.fromstring(html).iter(tag)) if html.strip() else []


def _splits(target: str) -> bool:
    try:
        urlsplit(target)
    except ValueError:
        return False
    return True


def _warning(code: str, message: str, header: str | None = None) -> Finding:
    return Finding("warning", code, header, message)
