"""The text of one lesson version, as it was published."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Direction = Literal["ltr", "rtl"]

SUBJECT_CHARS_MAX: Final = 400
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LINE_BREAK: Final = re.compile(r"[\r\n\u2028\u2029]")
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_RIGHT_TO_LEFT: Final = frozenset(
    {"ar", "arc", "ckb", "dv", "fa", "he", "ku", "nqo", "ps", "sd", "syr", "ug", "ur", "yi"}
)


class LessonError(ValueError):
    """A part of a lesson that cannot be sent as it is. `field` names it."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Citation:
    """What a statement rests on: a label a reader sees, and where it can be looked up, if anywhere."""

    label: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Lesson:
    """Subject, preheader, Markdown body and citations, with the language they are in.

    `text` is a text part that the author wrote; without it one is derived from the body. Raises
    LessonError for what no mail program would show as it was written: line breaks in the subject or
    preheader, control characters anywhere, a language that is no BCP 47 tag.
    """

    subject: str
    preheader: str
    body: str
    citations: tuple[Citation, ...] = ()
    language: str = "en"
    text: str | None = None

    def __post_init__(self) -> None:
        for field in ("subject", "preheader"):
            if _LINE_BREAK.search(getattr(self, field)):
                raise LessonError(f"The {field} must be one line.", field=field)
        for field in ("subject", "preheader", "body", "text"):
            _refuse_control_characters(getattr(self, field) or "", field)
        if not self.subject.strip():
            raise LessonError("A lesson needs a subject.", field="subject")
        if len(self.subject) > SUBJECT_CHARS_MAX:
            raise LessonError(f"The subject is longer than {SUBJECT_CHARS_MAX} characters.", field="subject")
        if not _LANGUAGE.fullmatch(self.language):
            raise LessonError(f"{self.language!r} is no language tag, such as en or pt-BR.", field="language")

    @property
    def direction(self) -> Direction:
        """Which way the language is written."""
        return "rtl" if self.language.partition("-")[0].lower() in _RIGHT_TO_LEFT else "ltr"


def _refuse_control_characters(text: str, field: str) -> None:
    found = _CONTROL.search(text)
    if found:
        raise LessonError(
            f"The {field} holds a control character (U+{ord(found[0]):04X}) at position {found.start() + 1}. "
            "Remove it.",
            field=field,
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise LessonError(f"The {field} holds half a character (a lone surrogate).", field=field) from None
