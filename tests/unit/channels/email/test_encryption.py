"""Mail servers that insist on TLS, with a certificate that must be trusted first, and on access tokens."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Literal

import pytest

from mail_servers import AGENT, AUTH_SERVER, PASSWORD, TOKEN, Dovecot, Post, Tokens
from nexus.channels.adapter import Delivery, DeliveryError
from nexus.channels.email import Account, Email, Server
from nexus.testing.adapter import RecordingInbox, running, until

_HANA = "hana@home.example"
_MAIL = f"From: {_HANA}\r\nTo: {AGENT}\r\nMessage-ID: <1@home.example>\r\n\r\nHello\r\n".encode()


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    with closing(Tokens()) as tokens, closing(Dovecot(tls=True, tokens=tokens.url)) as made:
        made.start()
        yield made


@pytest.fixture(params=["starttls", "implicit"])
def account(request: pytest.FixtureRequest, dovecot: Dovecot) -> Iterator[tuple[Account, Post]]:
    kind: Literal["starttls", "implicit"] = request.param
    with closing(Post(dovecot, kind)) as post:
        post.start()
        is_starttls = kind == "starttls"
        imap_port = dovecot.port if is_starttls else dovecot.tls_port
        yield (
            Account(
                address=AGENT,
                user=AGENT,
                password=PASSWORD,
                imap=Server(host="127.0.0.1", port=imap_port, starttls=is_starttls),
                smtp=Server(host="127.0.0.1", port=post.port, starttls=is_starttls),
                auth_server=AUTH_SERVER,
            ),
            post,
        )


@pytest.fixture
def trusted(dovecot: Dovecot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(dovecot.certificate))


async def _talks(email: Email, dovecot: Dovecot, post: Post) -> None:
    inbox = RecordingInbox()
    async with running(email, inbox):
        await asyncio.to_thread(dovecot.append, _MAIL)
        await until(lambda: inbox.messages)
        delivery = Delivery(key="evt_1", thread=f"{_HANA} 1@home.example", text="Hello back")
        await email.deliver(delivery)
    assert post.texts() == ["Hello back"]


@pytest.mark.usefixtures("trusted")
async def test_mail_over_tls_with_a_password(account: tuple[Account, Post], dovecot: Dovecot) -> None:
    settings, post = account
    await _talks(Email(settings), dovecot, post)


@pytest.mark.usefixtures("trusted")
async def test_mail_over_tls_with_an_access_token(account: tuple[Account, Post], dovecot: Dovecot) -> None:
    settings, post = account
    command = (sys.executable, "-c", f"print({TOKEN!r})")
    with_token = replace(settings, password="", token_command=command)
    await _talks(Email(with_token), dovecot, post)
    wrong = Email(replace(with_token, token_command=(sys.executable, "-c", "print('old')")))
    with pytest.raises(Exception, match=r"(?i)auth"):
        await wrong.run(RecordingInbox())
    with pytest.raises(DeliveryError, match="535"):
        await wrong.check_sending()
    for broken in (["false"], ["/no/such/program"]):
        with pytest.raises(DeliveryError, match="token_command"):
            await Email(replace(with_token, token_command=broken)).check_sending()


async def test_a_certificate_that_nobody_trusts_is_refused(account: tuple[Account, Post]) -> None:
    settings, post = account
    with pytest.raises(DeliveryError, match="certificate"):
        await Email(settings).run(RecordingInbox())
    with pytest.raises(DeliveryError, match="certificate"):
        await Email(settings).check_sending()
    assert post.sent == []
