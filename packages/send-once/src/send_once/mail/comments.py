"""Comments in address headers: `Support (Billing) <a@example.com>`.

By RFC 5322 "(Billing)" is a comment and no part of the name, and parsers drop it without a word.
Whoever wrote it meant it to be read, so it is kept as part of the name.
"""

from __future__ import annotations

from collections.abc import Iterator
from email.policy import EmailPolicy
from typing import Final

from send_once.errors import InvalidInputError
from send_once.mail.fields import Field

_UNFOLDED: Final = EmailPolicy(utf8=True, max_line_length=0)
"""`str()` of an address header has lost its comments; written by this policy it has them."""


def names_with_comments(field: Field) -> list[str]:
    """The display names of all addresses of `field`, each with the comments that stood beside it.

    Raises InvalidInputError where a comment cannot be told to belong to one address.
    """
    names = [address.display_name for address in field.header.addresses]
    comments = [list(comments_in(mailbox)) for mailbox in split_mailboxes(_written(field))]
    if not any(comments) or all(text in name for text, name in _pairs(comments, names)):
        return names
    if len(comments) != len(names):
        raise InvalidInputError(
            f"{field.name}: holds a comment in parentheses, which mail programs drop. Put the name in quotes, or use "
            "email.headerregistry.Address(display_name=…, addr_spec=…).",
            field=field.name,
        )
    return [_with_comments(name, texts) for name, texts in zip(names, comments, strict=True)]


def _with_comments(name: str, comments: list[str]) -> str:
    """`a@example.com (Ana)` is how names were written before RFC 822 had angle brackets."""
    if not name and len(comments) == 1:
        return comments[0][1:-1].strip()
    return " ".join([*([name] if name else []), *comments])


def _written(field: Field) -> str:
    text: str = field.header.fold(policy=_UNFOLDED)
    return text.partition(":")[2].strip()


def split_mailboxes(text: str) -> list[str]:
    """`text` cut at the commas outside quotes, comments and angle brackets."""
    parts = [""]
    for char, depth in _scan(text):
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def comments_in(mailbox: str) -> Iterator[str]:
    """The comments of one mailbox, with their parentheses."""
    current = ""
    for char, depth in _scan(mailbox):
        if depth.startswith("("):
            current += char
        elif current:
            yield current
            current = ""
    if current:
        yield current


def _pairs(comments: list[list[str]], names: list[str]) -> Iterator[tuple[str, str]]:
    """Each comment with the names it may already be part of: decoding a quoted or encoded name
    takes its quotes away, so that its parentheses look like a comment."""
    joined = " ".join(names)
    return ((text, joined) for texts in comments for text in texts)


def _scan(text: str) -> Iterator[tuple[str, str]]:
    """Each character with the brackets it stands in, itself included: '' outside of all."""
    open_: list[str] = []
    escaped = False
    for char in text:
        inner = open_[-1] if open_ else ""
        closing = not escaped and (inner, char) in {('"', '"'), ("(", ")"), ("<", ">")}
        opening = not escaped and not closing and _opens(inner, char)
        if opening:
            open_.append(char)
        yield char, "".join(open_)
        if closing:
            open_.pop()
        escaped = char == "\\" and not escaped and inner in {'"', "("}


def _opens(inner: str, char: str) -> bool:
    return char == "(" if inner == "(" else char in '"(<' if not inner else char in '"(' and inner == "<"
