"""A lesson version becomes a message: HTML with its styles inlined, a text twin, headers, and the checks on the
bytes that go out. Pure: nothing here reads a clock, a database or the network.

    Lesson, Mailing ── page, plaintext, message ──► EmailMessage ── send_once.mail ──► bytes ── preflight ──► findings
"""

from cadensend.rendering.lesson import Citation, Direction, Lesson, LessonError
from cadensend.rendering.message import Mailing, build_message
from cadensend.rendering.page import html_page
from cadensend.rendering.plaintext import text_part
from cadensend.rendering.preflight import CLIPPED_BYTES, Preflight, preflight

__all__ = [
    "CLIPPED_BYTES",
    "Citation",
    "Direction",
    "Lesson",
    "LessonError",
    "Mailing",
    "Preflight",
    "build_message",
    "html_page",
    "preflight",
    "text_part",
]
