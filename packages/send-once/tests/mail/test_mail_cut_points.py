"""Wherever a dialogue is cut, the client never says `not accepted` of a message the server has taken."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mail.samples import TO, message, sender
from send_once.mail import Accepted, SMTPFailure, SMTPRejectedError, SMTPRetryLaterError
from servers.smtp_acts import Act, Say
from servers.smtp_server import SMTPServer

OCTETS_OUT_MAX = 330
"""A little more than the server says in a whole dialogue."""
OCTETS_IN_MAX = 700
"""A little more than the client says."""

ANSWERS: dict[str, Act] = {
    "250": Say("250 2.0.0 Ok: queued as CUT1", accept=True),
    "250, two lines": Say("250-2.0.0 Ok\r\n250 2.0.0 queued", accept=True),
    "252": Say("252 2.0.0 perhaps", accept=True),
    "451": Say("451 4.3.0 no"),
    "554": Say("554 5.7.1 no"),
    "nonsense, taken": Say("hm", accept=True),
}

cuts = st.fixed_dictionaries(
    {
        "cut_after_octets_out": st.none() | st.integers(0, OCTETS_OUT_MAX),
        "cut_after_octets_in": st.none() | st.integers(0, OCTETS_IN_MAX),
        "cut_by_reset": st.booleans(),
    }
)


def verdict(server: SMTPServer) -> str:
    try:
        ended: Accepted | SMTPFailure = sender(server.port).send(message(), to=TO)
    except SMTPFailure as failure:
        ended = failure
    if isinstance(ended, Accepted):
        return "accepted"
    return "not accepted" if isinstance(ended, SMTPRejectedError | SMTPRetryLaterError) else "unknown"


def check_cut(cut: dict[str, int | bool | None], answer: Act) -> None:
    with SMTPServer(at={"dot": answer}, **cut) as server:  # type: ignore[arg-type]  # a dict of different values
        said = verdict(server)
        server.join()
    assert len(server.accepted) <= 1
    if server.accepted:
        assert said != "not accepted"
    else:
        assert said != "accepted"


@given(cuts, st.sampled_from(sorted(ANSWERS)))
@settings(max_examples=150, deadline=None)
def test_a_cut_anywhere_never_calls_a_taken_message_refused(cut: dict[str, int | bool | None], answer: str) -> None:
    check_cut(cut, ANSWERS[answer])


@pytest.mark.full
@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("answer", ANSWERS)
def test_every_single_cut_never_calls_a_taken_message_refused(answer: str, reset: bool) -> None:
    for octets in range(OCTETS_OUT_MAX):
        check_cut({"cut_after_octets_out": octets, "cut_by_reset": reset}, ANSWERS[answer])
    for octets in range(OCTETS_IN_MAX):
        check_cut({"cut_after_octets_in": octets, "cut_by_reset": reset}, ANSWERS[answer])


def test_the_cuts_reach_from_the_greeting_to_the_reply_to_quit() -> None:
    """The ranges above cover a whole dialogue; if it grows beyond them, they must grow too."""
    with SMTPServer() as server:
        assert verdict(server) == "accepted"
        server.join()
    assert len(server.wire) < OCTETS_IN_MAX
    with SMTPServer(cut_after_octets_out=OCTETS_OUT_MAX) as server:
        assert verdict(server) == "accepted"
        server.join()
    assert server.verbs[-1] == "QUIT"


def test_a_client_that_calls_every_lost_reply_a_refusal_would_be_caught() -> None:
    """The control: the rule of clients that judge by the exception and not by the stage."""
    with SMTPServer(at={"dot": ANSWERS["250"]}, cut_after_octets_out=200) as server:
        said = verdict(server)
        server.join()
    assert len(server.accepted) == 1
    assert said == "unknown"
