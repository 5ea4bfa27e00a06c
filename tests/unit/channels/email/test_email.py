"""A mailbox on a real IMAP server is read once, and answers leave through a real SMTP server."""

import asyncio
import imaplib
import smtplib
from collections.abc import Iterator
from dataclasses import replace
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any
from uuid import uuid4

import imap_tools
import pytest

from attached_files import png
from hostile import slow_mail
from mail_servers import AGENT, AUTH_SERVER, PASSWORD, Dovecot, Post, mail_servers, text_of
from nexus.channels.adapter import Delivery, DeliveryError, File
from nexus.channels.email import Account, Email, Server, mailbox
from nexus.testing.adapter import AdapterContract, RecordingInbox, running, until

_HANA = "hana@home.example"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Dovecot, Post]]:
    with mail_servers() as made:
        yield made


def _email(servers: tuple[Dovecot, Post], poll_s: float = 60, **more: Any) -> Email:
    dovecot, post = servers
    account = Account(
        address=AGENT,
        user=AGENT,
        password=PASSWORD,
        imap=Server(host="127.0.0.1", port=dovecot.port, tls=False),
        smtp=Server(host="127.0.0.1", port=post.port, tls=False),
        auth_server=AUTH_SERVER,
    )
    return Email(replace(account, **more), poll_s=poll_s)


def _send(post: Post, text: str, *, login: str = _HANA, data: bytes | None = None, id_: str = "") -> None:
    mail = EmailMessage()
    mail["From"], mail["To"] = _HANA, AGENT
    if id_:
        mail["Message-ID"] = id_
    mail.set_content(text)
    with smtplib.SMTP("127.0.0.1", post.port) as client:
        if login:
            client.login(login, PASSWORD)
        client.sendmail(_HANA, [AGENT], data or mail.as_bytes(policy=SMTP))


async def test_new_mail_is_handed_over_as_it_comes_and_old_mail_is_left_alone(
    servers: tuple[Dovecot, Post],
) -> None:
    _, post = servers
    await asyncio.to_thread(_send, post, "long ago")
    inbox = RecordingInbox()
    async with running(_email(servers), inbox):
        await asyncio.to_thread(_send, post, "one")
        await until(lambda: inbox.texts() == ["one"])
        await asyncio.to_thread(_send, post, "two", login="")
        await until(lambda: inbox.texts() == ["one", "two"])
    assert [message.is_verified for message in inbox.messages] == [True, False]


async def test_what_came_while_nobody_read_is_handed_over_once(servers: tuple[Dovecot, Post]) -> None:
    _, post = servers
    inbox = RecordingInbox()
    async with running(_email(servers), inbox):
        pass
    for text in ("one", "two"):
        await asyncio.to_thread(_send, post, text)
    async with running(_email(servers), inbox):
        await until(lambda: len(inbox.messages) == 2)
    async with running(_email(servers), inbox):
        await asyncio.to_thread(_send, post, "three")
        await until(lambda: len(inbox.messages) == 3)
    assert inbox.texts() == ["one", "two", "three"]


async def test_a_mail_whose_place_was_not_kept_has_the_same_id_again(servers: tuple[Dovecot, Post]) -> None:
    """As after a kill between recording a mail and remembering how far was read."""
    _, post = servers
    inbox = RecordingInbox()
    async with running(_email(servers), inbox):
        before = inbox.kept
        await asyncio.to_thread(_send, post, "one", id_="<once@home.example>")
        await until(lambda: inbox.messages)
    inbox.kept = before
    async with running(_email(servers), inbox):
        await until(lambda: len(inbox.messages) == 2)
    assert inbox.messages[0] == inbox.messages[1]
    assert inbox.messages[0].id == "once@home.example"


async def test_a_server_that_numbers_its_mail_anew_loses_nothing(servers: tuple[Dovecot, Post]) -> None:
    dovecot, post = servers
    inbox = RecordingInbox()
    async with running(_email(servers), inbox):
        await asyncio.to_thread(_send, post, "before")
        await until(lambda: inbox.messages)
    await asyncio.to_thread(_send, post, "meanwhile")
    was = inbox.kept["validity"]
    dovecot.stop()
    dovecot.forget_numbers()
    await asyncio.to_thread(dovecot.start)
    inbox.messages.clear()
    async with running(_email(servers), inbox):
        await until(lambda: "meanwhile" in inbox.texts())
    assert inbox.kept["validity"] != was


async def test_a_server_that_goes_away_ends_the_adapter_for_the_supervisor(
    servers: tuple[Dovecot, Post],
) -> None:
    dovecot, _ = servers
    inbox = RecordingInbox()
    task = asyncio.create_task(_email(servers).run(inbox))
    await asyncio.wait_for(inbox.ready.wait(), 60)
    dovecot.stop()
    with pytest.raises((OSError, imaplib.IMAP4.error, imap_tools.ImapToolsError)):
        await asyncio.wait_for(task, 60)
    await asyncio.to_thread(dovecot.start)


async def test_a_wrong_password_is_told(servers: tuple[Dovecot, Post]) -> None:
    with pytest.raises(DeliveryError, match=f"Can't log in as {AGENT}: .*AUTHENTICATIONFAILED"):
        await asyncio.wait_for(_email(servers, password="wrong").run(RecordingInbox()), 60)
    with pytest.raises(DeliveryError, match=r"server 127\.0\.0\.1 refused the password \(535 ") as refused:
        await _email(servers, password="wrong").check_sending()
    assert "app password" in refused.value.hint
    with pytest.raises(DeliveryError, match="Can't open the mail folder on the IMAP server"):
        await _email(servers, folder="Nowhere").newest_auth_server()


async def test_what_is_no_mail_is_set_aside(servers: tuple[Dovecot, Post]) -> None:
    dovecot, _ = servers
    inbox = RecordingInbox()
    async with running(_email(servers), inbox):
        await asyncio.to_thread(dovecot.append, b"Subject: from nobody\r\n\r\nHello\r\n")
        await until(lambda: inbox.put_aside)
    assert inbox.put_aside == ["The mail has no sender"]


async def test_a_mail_that_takes_too_much_is_set_aside_and_the_next_one_comes(
    servers: tuple[Dovecot, Post],
) -> None:
    dovecot, post = servers
    inbox = RecordingInbox()
    async with running(_email(servers), inbox):
        await asyncio.to_thread(dovecot.append, slow_mail())
        await asyncio.to_thread(_send, post, "the next one")
        await until(lambda: inbox.messages)
    assert inbox.put_aside == ["The mail can't be read: it takes too much"]
    assert inbox.texts() == ["the next one"]


async def test_a_very_large_mail_is_cut_off(
    servers: tuple[Dovecot, Post], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "_MAX_MAIL_BYTES", 4_000_000)
    _, post = servers
    inbox = RecordingInbox()
    mail = EmailMessage()
    mail["From"], mail["To"] = _HANA, AGENT
    mail.set_content("See the film.")
    mail.add_attachment(b"\0" * 5_000_000, maintype="video", subtype="mp4", filename="film.mp4")
    async with running(_email(servers), inbox):
        await asyncio.to_thread(_send, post, "", data=mail.as_bytes(policy=SMTP))
        await until(lambda: inbox.messages)
    assert inbox.texts() == ["See the film."]
    assert sum(len(file.data) for file in inbox.messages[0].files) < 4_000_000


async def test_an_answer_joins_the_conversation_and_says_that_a_program_wrote_it(
    servers: tuple[Dovecot, Post],
) -> None:
    _, post = servers
    post.sent.clear()
    delivery = Delivery(
        key="evt_1",
        thread=f"{_HANA} 1@home.example",
        title="Trip",
        text="**Two** trains:\n\n- 10:00\n\n![x](https://evil.example/?q=secret)",
        reply_to="3@home.example",
        to=_HANA,
        files=(File(name="map.png", media_type="image/png", data=png()),),
    )
    for _ in range(2):
        assert await _email(servers).deliver(delivery) == "evt_1@nexus.example"
    mail, again = post.sent
    assert mail["Message-ID"] == again["Message-ID"] == "<evt_1@nexus.example>"
    assert (mail["To"], mail["From"], mail["Subject"]) == (_HANA, AGENT, "Re: Trip")
    assert mail["In-Reply-To"] == "<3@home.example>"
    assert mail["References"].split() == ["<1@home.example>", "<3@home.example>"]
    assert mail["Auto-Submitted"] == "auto-replied"
    assert text_of(mail) == delivery.text
    parts = {part.get_content_type(): part.get_payload(decode=True) for part in mail.walk()}
    html = parts["text/html"]
    assert isinstance(html, bytes)
    assert b"<strong>Two</strong>" in html
    assert b"<img" not in html
    assert parts["image/png"] == png()


async def test_a_refused_answer_is_tried_again_only_where_that_helps(servers: tuple[Dovecot, Post]) -> None:
    _, post = servers
    delivery = Delivery(key="evt_2", thread=f"{_HANA} 1@home.example", text="Hello")
    for refusing, final in (("451 Try later", False), ("554 No such user", True)):
        post.refusing = refusing
        with pytest.raises(DeliveryError, match=refusing[4:]) as caught:
            await _email(servers).deliver(delivery)
        assert caught.value.final is final
    post.refusing = ""
    with pytest.raises(DeliveryError) as caught:
        await _email(servers).deliver(replace(delivery, thread="1@home.example"))
    assert caught.value.final, "nobody is named"


async def test_the_mail_server_is_recognized_for_the_setup(servers: tuple[Dovecot, Post]) -> None:
    _, post = servers
    await asyncio.to_thread(_send, post, "Hello")
    adapter = _email(servers)
    assert await adapter.newest_auth_server() == AUTH_SERVER
    await adapter.check_sending()


async def test_without_idle_the_server_is_asked_again_and_again(
    servers: tuple[Dovecot, Post], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nexus.channels.email.mailbox import Mailbox

    opening = Mailbox.open

    def without_idle(self: Mailbox, login: Any) -> Mailbox:
        opened = opening(self, login)
        opened.can_idle = False
        return opened

    monkeypatch.setattr(Mailbox, "open", without_idle)
    inbox = RecordingInbox()
    async with running(_email(servers, poll_s=0.05), inbox):
        await asyncio.to_thread(_send, servers[1], "polled")
        await until(lambda: inbox.texts() == ["polled"])


class TestContract(AdapterContract):
    """The published checks."""

    @pytest.fixture(autouse=True)
    def service(self, servers: tuple[Dovecot, Post]) -> None:
        self._servers = servers
        servers[1].sent.clear()

    def adapter(self) -> Email:
        return _email(self._servers)

    async def write(self, text: str) -> None:
        headers = f"From: {_HANA}\r\nTo: {AGENT}\r\nReferences: <root@home.example>\r\n"
        headers += f"Message-ID: <{uuid4()}@home.example>\r\n"
        data = f"{headers}\r\n{text}\r\n".encode()
        await asyncio.to_thread(_send, self._servers[1], "", data=data)

    async def sent(self) -> list[str]:
        return self._servers[1].texts()

    async def sent_files(self) -> list[bytes]:
        parts = [part for mail in self._servers[1].sent for part in mail.walk() if part.get_filename()]
        return [bytes(part.get_payload(decode=True) or b"") for part in parts]  # pyright: ignore[reportArgumentType] - the standard library's types
