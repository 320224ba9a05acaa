"""What the check of a message's bytes reports, before they are handed over."""

from __future__ import annotations

from typing import Final

from send_once.commands.codes import Code

_REPORT: Final = "Set the header from plain text. Where it was, please report this: the bytes are the library's."


def _finding(code: str, title: str, cause: str, remedy: str) -> Code:
    return Code(code, "mail", title, cause, remedy)


MAIL: Final = (
    _finding(
        "missing_header",
        "A header that a message must have is missing.",
        "RFC 5322 and receivers' filters want From, To, Date, Message-ID, Subject and MIME-Version.",
        "Set it; the finding says to what. `derive_message_id(key, domain)` gives the Message-ID.",
    ),
    _finding(
        "empty_header",
        "From, To or Date is there and empty.",
        "It was set from a value that was empty.",
        "Give it its value before the send.",
    ),
    _finding(
        "duplicate_header",
        "A header that may stand once stands more often.",
        "`message[name] = value` adds a header, and replaces none.",
        "Delete the old one first: `del message[name]`.",
    ),
    _finding(
        "hidden_header",
        "Bcc would show its recipients to the others.",
        "The header stands in the bytes that were to be handed over.",
        "Let `SMTPSender` make the bytes, which leaves it out, or delete it.",
    ),
    _finding(
        "message_id",
        "The Message-ID is not like `<left@right>`.",
        "It was set by hand, or from a key as it is.",
        "Set it to `derive_message_id(key, domain)`.",
    ),
    _finding(
        "sender",
        "From names several authors, and no Sender says who of them sends it.",
        "RFC 5322 3.6.2 wants one address that answers for the message.",
        "Set Sender to one of them, or name one author.",
    ),
    _finding(
        "recipient",
        "The message does not name the one it goes to.",
        "To, Cc and Bcc hold other addresses than the recipient of this send.",
        "Put the recipient into To, or into Bcc, which is not transmitted.",
    ),
    _finding(
        "other_recipients",
        "The message names others too, who do not get this copy. A warning; it is sent.",
        "One send goes to one recipient.",
        "Send each of them theirs, under a key of its own.",
    ),
    _finding(
        "one_click",
        "List-Unsubscribe-Post has no https address to post to.",
        "RFC 8058 wants one in List-Unsubscribe.",
        "Add `<https://…>` to List-Unsubscribe, or leave List-Unsubscribe-Post out.",
    ),
    _finding(
        "encoded_word",
        "A header's encoded word would not be read back.",
        "It is too long, touches its neighbour, or cuts a character in two (RFC 2047).",
        "Set the header from plain text, and let the library encode it.",
    ),
    _finding(
        "long_line",
        "A line is longer than 998 octets.",
        "A header without a space to break it at, or a body that is transmitted as it is.",
        "Shorten the value, or give the body another transfer encoding: `set_content(text, cte='quoted-printable')`.",
    ),
    _finding(
        "long_encoded_line",
        "A line of an encoded body is longer than 76 characters.",
        "The part was encoded by other means than `set_content`.",
        "Let `set_content` or `add_attachment` encode it.",
    ),
    _finding(
        "bare_line_end",
        "A CR or LF stands alone.",
        "Servers differ in whether it ends a line, and one message may be read as two.",
        "Give the body as text, whose line ends are made whole, or as base64.",
    ),
    _finding(
        "nul",
        "The message has a NUL octet.",
        "Servers refuse the message, or cut it there.",
        "Take it out, or attach the content as base64.",
    ),
    _finding(
        "blank_line",
        "A header has a line of white space only.",
        "Some servers take it for the end of the headers.",
        "Take line breaks and runs of spaces out of the value.",
    ),
    _finding(
        "broken_header",
        "The headers cannot be read back from the bytes.",
        "A name or value holds what no header can hold.",
        "Look at the place the finding names.",
    ),
    _finding(
        "injected_header",
        "The bytes have a header that the message has not.",
        "A value held a line break and what looks like a header, perhaps on purpose.",
        "Find out where the value comes from, and refuse line breaks there.",
    ),
    _finding("lost_header", "A header of the message is not in its bytes.", "Making the bytes lost it.", _REPORT),
    _finding(
        "changed_header",
        "A header would arrive with another meaning.",
        "Making the bytes changed it, for instance an address or a word that is not ASCII.",
        _REPORT,
    ),
    _finding(
        "changed_body",
        "A part of the body would arrive changed.",
        "Its transfer encoding does not hold its content.",
        "Let `set_content` choose the encoding.",
    ),
    _finding(
        "structure",
        "The body's parts would arrive as other parts.",
        "A boundary stands inside a part, or parts were put together by hand.",
        "Build the parts with `set_content`, `add_alternative` and `add_attachment`.",
    ),
)
