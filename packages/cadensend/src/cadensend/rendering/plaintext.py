"""The text part: the author's own, or one derived from the body, in which rows stay rows and links are readable."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import lxml.html
from inscriptis import Inscriptis
from inscriptis.css_profiles import CSS_PROFILES
from inscriptis.model.config import ParserConfig

from cadensend.rendering.lesson import Citation, Lesson
from cadensend.rendering.markdown import html_fragment

if TYPE_CHECKING:
    from cadensend.rendering.message import Mailing


def text_part(lesson: Lesson, mailing: Mailing) -> str:
    """The whole text part, with what the HTML part says at its foot as well."""
    parts = [lesson.text.strip() if lesson.text else derived_text(lesson.body), _sources(lesson.citations, mailing)]
    foot = f"-- \n{mailing.reason}\n{mailing.words.unsubscribe}: {mailing.unsubscribe_url}"
    return "\n\n".join([*filter(None, parts), foot]) + "\n"


def derived_text(markdown: str) -> str:
    """The body as prose. A link's address stands behind its text, unless the text is the address."""
    fragment = html_fragment(markdown)
    if not fragment.strip():
        return ""
    tree = lxml.html.fromstring(f"<div>{fragment}</div>")
    for link in tree.iter("a"):
        _show_address(link)
    for image in tree.iter("img"):
        image.tail = f"[{image.get('alt')}]{image.tail or ''}" if image.get("alt") else image.tail
    lines = Inscriptis(tree, _config()).get_text().splitlines()
    return _without_empty_runs([line.rstrip() for line in lines])


def _show_address(link: lxml.html.HtmlElement) -> None:
    address, text = link.get("href") or "", link.text_content()
    if address and address not in (text, f"mailto:{text}"):
        link.tail = f" <{address}>{link.tail or ''}"


def _sources(citations: tuple[Citation, ...], mailing: Mailing) -> str:
    if not citations:
        return ""
    lines = [
        f"{number}. {citation.label}{f' <{citation.url}>' if citation.url else ''}"
        for number, citation in enumerate(citations, start=1)
    ]
    return "\n".join([f"{mailing.words.sources}:", *lines])


def _without_empty_runs(lines: list[str]) -> str:
    kept = [line for place, line in enumerate(lines) if line or (place > 0 and lines[place - 1])]
    return "\n".join(kept).strip("\n")


@cache
def _config() -> ParserConfig:
    return ParserConfig(css=CSS_PROFILES["strict"].copy(), table_cell_separator="  ")
