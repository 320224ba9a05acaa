"""TLS and sign-in: nothing goes out unprotected that should not, and every failure is a definite no."""

from __future__ import annotations

import pytest

from mail.samples import TLS, TO, message, sender, server_context, trusting_context
from send_once import InvalidInputError, certainty_of
from send_once.mail import SMTPFailure, SMTPRejectedError, SMTPRetryLaterError, SMTPSender, Stage
from servers.smtp_acts import Drop, Say, Silent
from servers.smtp_server import SMTPServer

USERS = {"app": "pässword"}
SIGNED_IN = {"username": "app", "password": USERS["app"]}


def test_starttls_is_the_default_and_the_message_goes_out_after_it() -> None:
    with SMTPServer(tls=server_context()) as server:
        SMTPSender("127.0.0.1", server.port, ssl_context=trusting_context()).send(message(), to=TO)
    assert server.verbs == ["EHLO", "STARTTLS", "EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
    assert len(server.accepted) == 1


def test_implicit_tls_speaks_no_word_in_clear() -> None:
    with SMTPServer(tls=server_context(), implicit_tls=True) as server:
        sender(server.port, security="tls", ssl_context=trusting_context()).send(message(), to=TO)
    assert server.verbs == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]


def test_a_stripped_starttls_is_refused_before_anything_is_sent() -> None:
    with SMTPServer(users=USERS) as server, pytest.raises(SMTPRejectedError, match="STARTTLS") as caught:
        sender(server.port, security="starttls", **SIGNED_IN).send(message(), to=TO)
    assert caught.value.stage is Stage.TLS
    assert server.verbs == ["EHLO", "QUIT"]


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize("certificate", ["server", "other"])
def test_an_unknown_certificate_is_refused(security: str, certificate: str) -> None:
    with SMTPServer(tls=server_context(certificate), implicit_tls=security == "tls", users=USERS) as server:
        with pytest.raises(SMTPRejectedError, match="certificate") as caught:
            sender(server.port, security=security, **SIGNED_IN).send(message(), to=TO)
        server.join()
    assert caught.value.stage is Stage.TLS
    assert "AUTH" not in server.verbs


def test_a_trusted_certificate_of_another_host_is_refused() -> None:
    context = trusting_context()
    context.load_verify_locations(cafile=str(TLS / "other.pem"))
    with SMTPServer(tls=server_context("other")) as server, pytest.raises(SMTPRejectedError, match="certificate"):
        sender(server.port, security="starttls", ssl_context=context).send(message(), to=TO)


def test_what_was_slipped_in_before_the_handshake_is_not_taken_for_the_servers_word() -> None:
    """Replies sent in clear behind the 220 would be read as protected ones afterwards."""
    injected = Say("220 go\r\n250-mx.test\r\n250 AUTH PLAIN")
    with SMTPServer(tls=server_context(), at={"starttls": injected}, users=USERS) as server:
        with pytest.raises(SMTPRejectedError) as caught:
            sender(server.port, security="starttls", ssl_context=trusting_context(), **SIGNED_IN).send(message(), to=TO)
    assert caught.value.stage is Stage.TLS
    assert "AUTH" not in server.verbs


@pytest.mark.parametrize(
    ("at", "error", "code"),
    [
        ({"starttls": Say("454 4.7.0 TLS not available")}, SMTPRetryLaterError, 454),
        ({"starttls": Say("501 no")}, SMTPRejectedError, 501),
        ({"starttls": Drop()}, SMTPRetryLaterError, None),
        ({"tls": Drop()}, SMTPRetryLaterError, None),
        ({"tls": Drop(reset=True)}, SMTPRetryLaterError, None),
    ],
)
def test_a_failed_starttls_is_a_definite_no(
    at: dict[str, Say | Drop], error: type[SMTPFailure], code: int | None
) -> None:
    with SMTPServer(tls=server_context(), at=at) as server, pytest.raises(SMTPFailure) as caught:
        sender(server.port, security="starttls", ssl_context=trusting_context()).send(message(), to=TO)
    assert type(caught.value) is error
    assert (caught.value.stage, caught.value.reply_code) == (Stage.TLS, code)
    assert not server.accepted


def test_a_server_that_never_shakes_hands_is_given_up() -> None:
    with SMTPServer(tls=server_context(), implicit_tls=True, at={"tls": Silent()}) as server:
        with pytest.raises(SMTPRetryLaterError) as caught:
            sender(server.port, security="tls", connect_timeout_seconds=0.3).send(message(), to=TO)
    assert caught.value.stage is Stage.TLS


def test_tls_to_a_server_without_it_is_a_definite_no() -> None:
    with SMTPServer() as server, pytest.raises(SMTPFailure) as caught:
        sender(server.port, security="tls").send(message(), to=TO)
    assert caught.value.stage is Stage.TLS
    assert certainty_of(caught.value) == "failed"


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
def test_sign_in_with_each_mechanism(mechanism: str) -> None:
    other = {"PLAIN": "LOGIN", "LOGIN": "PLAIN"}[mechanism]
    with SMTPServer(tls=server_context(), users=USERS, auth=[mechanism]) as server:
        sender(server.port, security="starttls", ssl_context=trusting_context(), **SIGNED_IN).send(message(), to=TO)
    assert f"AUTH {mechanism}" in " ".join(server.commands)
    assert f"AUTH {other}" not in " ".join(server.commands)
    assert len(server.accepted) == 1


@pytest.mark.parametrize(
    ("reply", "error", "code"),
    [
        ("454 4.7.0 Temporary authentication failure", SMTPRetryLaterError, 454),
        ("535 5.7.8 Authentication credentials invalid", SMTPRejectedError, 535),
        ("534 5.7.9 mechanism too weak", SMTPRejectedError, 534),
        ("421 4.7.0 closing", SMTPRetryLaterError, 421),
        ("334 more", SMTPRejectedError, 334),
    ],
)
def test_a_failed_sign_in_is_a_definite_no(reply: str, error: type[SMTPFailure], code: int) -> None:
    with SMTPServer(tls=server_context(), users=USERS, at={"auth": Say(reply)}) as server:
        with pytest.raises(SMTPFailure) as caught:
            sender(server.port, security="starttls", ssl_context=trusting_context(), **SIGNED_IN).send(message(), to=TO)
    assert type(caught.value) is error
    assert (caught.value.stage, caught.value.reply_code) == (Stage.AUTH, code)
    assert "MAIL" not in server.verbs


@pytest.mark.parametrize("place", ["auth", "auth2", "auth3"])
def test_a_connection_lost_in_sign_in_is_a_definite_no(place: str) -> None:
    with SMTPServer(tls=server_context(), users=USERS, auth=["LOGIN"], at={place: Drop()}) as server:
        with pytest.raises(SMTPRetryLaterError) as caught:
            sender(server.port, security="starttls", ssl_context=trusting_context(), **SIGNED_IN).send(message(), to=TO)
    assert caught.value.stage is Stage.AUTH


def test_a_server_without_a_known_mechanism_is_refused() -> None:
    with SMTPServer(tls=server_context(), users=USERS, auth=["CRAM-MD5", "XOAUTH2"]) as server:
        with pytest.raises(SMTPRejectedError, match="CRAM-MD5, XOAUTH2"):
            sender(server.port, security="starttls", ssl_context=trusting_context(), **SIGNED_IN).send(message(), to=TO)
    assert "AUTH" not in server.verbs


def test_the_offer_made_in_clear_is_forgotten_after_tls() -> None:
    """RFC 3207 4.2: a mechanism offered before the handshake counts for nothing."""
    with SMTPServer(tls=server_context(), users=USERS, auth=[], auth_in_clear=["PLAIN"]) as server:
        with pytest.raises(SMTPRejectedError, match="neither AUTH"):
            sender(server.port, security="starttls", ssl_context=trusting_context(), **SIGNED_IN).send(message(), to=TO)


def test_credentials_in_clear_need_an_explicit_word() -> None:
    with pytest.raises(InvalidInputError, match="allow_cleartext_auth") as caught:
        sender(25, security="none", **SIGNED_IN)
    assert caught.value.field == "security"
    with SMTPServer(users=USERS) as server:
        sender(server.port, security="none", allow_cleartext_auth=True, **SIGNED_IN).send(message(), to=TO)
    assert len(server.accepted) == 1


def test_the_password_is_in_no_text() -> None:
    with SMTPServer(tls=server_context(), users={"app": "other"}) as server:
        client = sender(server.port, security="starttls", ssl_context=trusting_context(), **SIGNED_IN)
        with pytest.raises(SMTPRejectedError) as caught:
            client.send(message(), to=TO)
    for text in (str(caught.value), repr(caught.value), repr(client), repr(client._settings)):
        assert USERS["app"] not in text


def test_check_signs_in_and_sends_nothing() -> None:
    with SMTPServer(tls=server_context(), users=USERS) as server:
        ready = sender(server.port, security="starttls", ssl_context=trusting_context(), **SIGNED_IN).check()
    assert server.verbs == ["EHLO", "STARTTLS", "EHLO", "AUTH", "QUIT"]
    assert ready.extensions["8BITMIME"] == ""
    assert ready.greeting == "mx.test ESMTP ready"


def test_check_fails_like_a_send() -> None:
    with SMTPServer(at={"greeting": Say("554 5.3.2 no service")}) as server, pytest.raises(SMTPRejectedError) as caught:
        sender(server.port).check()
    assert caught.value.stage is Stage.GREETING
