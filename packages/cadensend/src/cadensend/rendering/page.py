"""The HTML part: one column, readable in every mail program, light and dark, with its styles inlined."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Final

import css_inline

from cadensend.rendering.lesson import Citation, Lesson
from cadensend.rendering.markdown import html_fragment

if TYPE_CHECKING:
    from cadensend.rendering.message import Mailing

_FILLER: Final = "&#847;&zwnj;&nbsp;" * 90
"""After the preheader: else the list of a mail program shows how the lesson begins behind it."""


def html_page(lesson: Lesson, mailing: Mailing) -> str:
    """The whole document. All that a person wrote is escaped or cleaned; no template is evaluated."""
    language, direction = escape(lesson.language), lesson.direction
    page = f"""<!doctype html>
<html lang="{language}" dir="{direction}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>{escape(lesson.subject)}</title>
<style>{_style()}</style>
</head>
<body lang="{language}" dir="{direction}">
{_preheader(lesson.preheader)}<div class="sheet" role="article" aria-label="{escape(lesson.subject)}">
<p class="top">{escape(mailing.series_title)} · {_way_out(mailing)}</p>
{html_fragment(lesson.body)}{_sources(lesson.citations, mailing)}<hr class="rule">
<p class="foot">{escape(mailing.reason)}<br>{_way_out(mailing)}</p>
</div>
</body>
</html>
"""
    return _inliner().inline(page)


def _way_out(mailing: Mailing) -> str:
    """At the top as well: a mail program that cuts a long message off cuts the foot off."""
    return f'<a href="{escape(mailing.unsubscribe_url)}">{escape(mailing.words.unsubscribe)}</a>'


def _preheader(text: str) -> str:
    if not text.strip():
        return ""
    return f'<div class="preheader" aria-hidden="true">{escape(text)}{_FILLER}</div>\n'


def _sources(citations: tuple[Citation, ...], mailing: Mailing) -> str:
    if not citations:
        return ""
    items = "\n".join(f"<li>{_source(citation)}</li>" for citation in citations)
    return f'<h2 class="sources">{escape(mailing.words.sources)}</h2>\n<ol class="sources">\n{items}\n</ol>\n'


def _source(citation: Citation) -> str:
    label = escape(citation.label)
    return label if citation.url is None else f'<a href="{escape(citation.url)}">{label}</a>'


@cache
def _style() -> str:
    return resources.files("cadensend.rendering").joinpath("mail.css").read_text(encoding="utf-8")


@cache
def _inliner() -> css_inline.CSSInliner:
    # What depends on the screen (dark, narrow) cannot be inlined and stays in the head.
    return css_inline.CSSInliner(load_remote_stylesheets=False, keep_style_tags=False, keep_at_rules=True)
