"""The message: both parts and every header, as an EmailMessage that `send_once.mail` renders and checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

from cadensend.rendering.lesson import Lesson
from cadensend.rendering.page import html_page
from cadensend.rendering.plaintext import text_part


@dataclass(frozen=True, slots=True)
class Words:
    """The few words of ours that a reader sees."""

    unsubscribe: str = "Unsubscribe"
    sources: str = "Sources"
    test: str = "Test"


@dataclass(frozen=True, slots=True)
class Mailing:
    """Who mails one lesson to whom, and under what name.

    `unsubscribe_url` leads to a page with a button, `one_click_url` takes the POST of RFC 8058 (both https
    or, on this machine, http). `list_id` names the series (RFC 2919), `message_id` derives from the key.
    `date` is an aware datetime. A `test` is marked in its subject.
    """

    sender_name: str
    sender_address: str
    reader_address: str
    series_title: str
    reason: str
    list_id: str
    message_id: str
    date: datetime
    unsubscribe_url: str
    one_click_url: str
    reader_name: str = ""
    reply_to: str | None = None
    test: bool = False
    words: Words = field(default_factory=Words)


def build_message(lesson: Lesson, mailing: Mailing) -> EmailMessage:
    """One message to one reader: text and HTML, and no other recipient in any field.

    Raises LessonError or ValueError for what cannot stand in a header.
    """
    message = EmailMessage()
    message["From"] = _address(mailing.sender_name, mailing.sender_address)
    message["To"] = _address(mailing.reader_name, mailing.reader_address)
    if mailing.reply_to:
        message["Reply-To"] = _address("", mailing.reply_to)
    message["Subject"] = f"[{mailing.words.test}] {lesson.subject}" if mailing.test else lesson.subject
    message["Date"] = format_datetime(mailing.date)
    message["Message-ID"] = mailing.message_id
    message["List-Id"] = f"<{mailing.list_id}>"
    message["List-Unsubscribe"] = f"<{mailing.one_click_url}>"
    message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text_part(lesson, mailing))
    message.add_alternative(html_page(lesson, mailing), subtype="html")
    message["Content-Language"] = lesson.language  # last: giving a message its content clears such headers
    return message


def _address(name: str, address: str) -> Address:
    try:
        return Address(display_name=name, addr_spec=address)
    except (IndexError, HeaderParseError) as error:  # what the parser raises for an empty and for an odd one
        raise ValueError(f"{address!r} is no address of one mailbox.") from error
