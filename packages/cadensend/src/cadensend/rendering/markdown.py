"""Markdown to HTML that may stand in a mail: CommonMark with tables; raw HTML in it is shown as text."""

from __future__ import annotations

from functools import cache
from typing import Final

import nh3
from markdown_it import MarkdownIt

SCHEMES: Final = frozenset({"http", "https", "mailto", "tel"})
"""Where links may lead. Others stay as text."""

_TEXT: Final = {"a", "blockquote", "br", "code", "del", "em", "hr", "img", "p", "pre", "strong"}
_HEADINGS: Final = {"h1", "h2", "h3", "h4", "h5", "h6"}
_LISTS_AND_TABLES: Final = {"li", "ol", "ul", "table", "tbody", "td", "th", "thead", "tr"}
_TAGS: Final = frozenset(_TEXT | _HEADINGS | _LISTS_AND_TABLES)
_ATTRIBUTES: Final = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title"},
    "ol": {"start"},
    "td": {"style"},
    "th": {"style"},
}
_STYLES: Final = {"text-align"}


def html_fragment(markdown: str) -> str:
    """Safe HTML. Whatever the text holds, nothing in it runs, submits or loads a frame."""
    return nh3.clean(
        _parser().render(markdown),
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        filter_style_properties=set(_STYLES),
        url_schemes=set(SCHEMES),
        link_rel=None,
    )


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "typographer": False}).enable(["table", "strikethrough"])
