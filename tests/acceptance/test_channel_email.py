"""Mail on a home that really runs, with real mail servers: answered once, and only to who really wrote."""

import json
import smtplib
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Final

import pytest

from acceptance.agents import environment, finish, until
from acceptance.on_channels import echo_word, recalling, sending
from acceptance.running import serving
from acceptance.terminal import Terminal
from attached_files import pdf, png
from mail_servers import AGENT, AUTH_SERVER, PASSWORD, Dovecot, Post, mail_servers
from nexus import config
from nexus.home import Home
from nexus.testing import ModelServer

_ME: Final = "me@home.example"
_SAM: Final = "sam@away.example"


@pytest.fixture
def servers() -> Iterator[tuple[Dovecot, Post]]:
    with mail_servers() as made:
        yield made


@pytest.fixture
def post(servers: tuple[Dovecot, Post]) -> Post:
    return servers[1]


@pytest.fixture
def env(home: Home, server: ModelServer, servers: tuple[Dovecot, Post]) -> dict[str, str]:
    """A home that reads a mailbox, and whose owner writes from `me@home.example`."""
    dovecot, post = servers
    with home.config_file.open("a") as settings:
        settings.write(
            f'\n[channels.mail]\nkind = "email"\naddress = "{AGENT}"\nsecret = "env:MAIL_PASSWORD"\n'
            f'imap = "127.0.0.1:{dovecot.port}"\nsmtp = "127.0.0.1:{post.port}"\ntls = false\n'
            f'auth_server = "{AUTH_SERVER}"\nowner = ["Me@Home.example"]\n'
        )
    return environment(server, MAIL_PASSWORD=PASSWORD)


def _send(
    post: Post, id_: str, text: str, *, sender: str = _ME, forged: bool = False, **headers: str
) -> EmailMessage:
    mail = EmailMessage()
    given = {"From": sender, "To": AGENT, "Message-ID": f"<{id_}@home.example>", "Subject": f"Subject {id_}"}
    for name, value in {**given, **headers}.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    return _sent(post, mail, forged=forged)


def _sent(post: Post, mail: EmailMessage, *, forged: bool = False) -> EmailMessage:
    with smtplib.SMTP("127.0.0.1", post.port) as client:
        if not forged:
            client.login(str(mail["From"]), PASSWORD)
        client.sendmail(str(mail["From"]), [AGENT], mail.as_bytes(policy=SMTP))
    return mail


def _connected(home: Home, env: dict[str, str]) -> None:
    def is_connected() -> bool:
        return json.loads(finish(home, env, "channels", "list", "--json").stdout)[0]["status"] == "connected"

    until(is_connected)


def test_a_conversation_by_mail_with_files_both_ways(
    home: Home, env: dict[str, str], server: ModelServer, post: Post, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "map.png").write_bytes(png())
    env["NEXUS_TOOLS_DIRECTORIES"] = str(shared)
    server.always(sending(shared / "map.png"))
    with serving(home, env):
        _connected(home, env)
        _send(post, "1", "This is word1")
        until(lambda: post.sent)
        answer = post.sent[0]
        assert (answer["To"], answer["Subject"]) == (_ME, "Re: Subject 1")
        assert answer["In-Reply-To"] == "<1@home.example>"
        reply = EmailMessage()
        reply["From"], reply["To"], reply["Message-ID"] = _ME, AGENT, "<2@home.example>"
        reply["In-Reply-To"], reply["Subject"] = answer["Message-ID"], answer["Subject"]
        reply["References"] = f"{answer['References']} {answer['Message-ID']}"
        reply.set_content("And word2\n\nOn Monday, Agent wrote:\n> You said word1\n")
        reply.add_attachment(pdf("Zebra crossing"), maintype="application", subtype="pdf", filename="a.pdf")
        reply.add_attachment(b"\x00\x01\x02", maintype="application", subtype="zip", filename="b.zip")
        _sent(post, reply)
        until(lambda: len(post.sent) == 2)
        last = server.requests[-1].body
        _send(post, "3", "Send me the file")
        until(lambda: len(post.sent) == 3)
    parts = {part.get_content_type(): part for part in post.sent[2].walk()}
    assert post.texts()[2] == "Here is the file."
    assert parts["image/png"].get_filename() == "map.png"
    assert parts["image/png"].get_payload(decode=True) == png()
    assert post.texts()[0] == "You said word1"
    assert (
        post.texts()[1]
        == "You said word2\n\nI couldn't read b.zip: neither an image, a recording, a PDF nor text."
    )
    assert post.sent[1]["References"].split()[0] == "<1@home.example>"
    assert b"Zebra crossing" in last, "the model read the PDF"
    assert b"Attachment not read: b.zip" in last
    assert b"This is word1" in last, "it is the same conversation"
    assert last.count(b"On Monday, Agent wrote") == 0


def test_a_forged_sender_is_neither_the_owner_nor_answered(
    home: Home, env: dict[str, str], server: ModelServer, post: Post
) -> None:
    server.always(echo_word)
    with serving(home, env):
        _connected(home, env)
        _send(post, "f", "Tell me word0", forged=True)
        _send(post, "r", "I am on holiday, word0", sender=_SAM, Auto_Submitted="auto-replied")
        _send(post, "l", "News word0", List_Id="<news.home.example>")
        _send(post, "s", "Let me in", sender=_SAM)
        until(lambda: post.sent)
        _send(post, "f", "This is word1")
        until(lambda: len(post.sent) == 2)
    assert [mail["To"] for mail in post.sent] == [_SAM, _ME]
    assert "code" in post.texts()[0], "the stranger gets a code, nobody else does"
    assert post.texts()[1] == "You said word1", "the forged mail doesn't stand in the owner's way"
    assert len(server.requests) == 1


def test_the_owner_is_told_by_mail_what_was_learned_elsewhere_and_a_guest_is_not(
    home: Home, env: dict[str, str], server: ModelServer, post: Post
) -> None:
    server.always(recalling)
    with serving(home, env):
        _connected(home, env)
        told = finish(home, env, "run", "--no-wait", "My door code is 4711-Zebra")
        assert told.returncode == 0, told.stderr
        _send(post, "1", "What is the door code? Owner")
        until(lambda: post.sent)
        _send(post, "2", "Let me in", sender=_SAM)
        until(lambda: len(post.sent) == 2)
        code = post.texts()[1].split("code ")[1].rstrip(".")
        assert finish(home, env, "access", "approve", code).returncode == 0
        _send(post, "3", "What is the door code? Guest", sender=_SAM, References="<1@home.example>")
        until(lambda: len(post.sent) == 3)
    bodies = [request.body for request in server.requests]
    assert any(b"Owner" in body and b"Zebra" in body for body in bodies)
    guests = [body for body in bodies if b"Guest" in body]
    assert guests
    assert not any(b"Zebra" in body or b"Owner" in body for body in guests)


def test_the_guided_setup_logs_in_and_writes_what_connects(
    home: Home, server: ModelServer, servers: tuple[Dovecot, Post]
) -> None:
    dovecot, post = servers
    env = environment(server, MAIL_PASSWORD=PASSWORD)
    _send(post, "1", "There must be a mail")
    places = f"127.0.0.1:{dovecot.port}\n127.0.0.1:{post.port}"
    typed = f"{AGENT}\nenv:MAIL_PASSWORD\n{places}\n\n{_ME}\n"
    wrong = finish(
        home, {**env, "MAIL_PASSWORD": "wrong"}, "channels", "add", "email", "--no-tls", stdin=typed
    )
    assert wrong.returncode != 0
    assert f"Can't log in as {AGENT}: the IMAP server 127.0.0.1 refused the password" in wrong.stderr
    assert "app password" in wrong.stderr
    done = finish(home, env, "channels", "add", "email", "--no-tls", "--name", "mail", stdin=typed)
    assert done.returncode == 0, done.stderr
    assert f'auth_server = "{AUTH_SERVER}"' in home.config_file.read_text()
    server.always(echo_word)
    with serving(home, env):
        _connected(home, env)
        _send(post, "2", "This is word2")
        until(lambda: post.sent)
    assert post.texts() == ["You said word2"]


def test_a_person_types_the_password_and_tries_again_until_it_is_right(
    home: Home, server: ModelServer, servers: tuple[Dovecot, Post]
) -> None:
    dovecot, post = servers
    terminal = Terminal(home, environment(server), "channels", "add", "email")
    try:
        for question, answer in (
            ("mail address: ", AGENT),
            ("(not shown)", "wrong"),
            ("IMAP server", f"127.0.0.1:{dovecot.port}"),
            ("SMTP server", f"127.0.0.1:{post.port}"),
            ("without encryption?", "y"),
            ("refused the password", ""),
            ("(not shown)", PASSWORD),
            ("IMAP server", ""),
            ("SMTP server", ""),
        ):
            terminal.wait_for(question)
            terminal.type(f"{answer}\r")
        terminal.wait_for("Send the agent a mail")
        _send(post, "1", "Hello")
        terminal.type("\r")
        terminal.wait_for(f"Name of your mail server [{AUTH_SERVER}]")
        terminal.type("mx.home.example\r")
        terminal.wait_for("Your own addresses")
        terminal.type(f"{_ME}\r")
        assert terminal.ended() == 0
    finally:
        terminal.close()
    written = home.config_file.read_text()
    assert "tls = false" in written
    assert 'auth_server = "mx.home.example"' in written
    assert PASSWORD not in written + terminal.all


def test_a_mailbox_without_a_checked_mail_is_not_set_up_without_a_server(
    home: Home, server: ModelServer, servers: tuple[Dovecot, Post]
) -> None:
    dovecot, post = servers
    env = environment(server, MAIL_PASSWORD=PASSWORD)
    places = f"127.0.0.1:{dovecot.port}\n127.0.0.1:{post.port}"
    typed = f"{AGENT}\nenv:MAIL_PASSWORD\n{places}\n\n\n"
    done = finish(home, env, "channels", "add", "email", "--no-tls", stdin=typed)
    assert done.returncode != 0
    assert "--auth-server" in done.stderr
    assert "answers nobody" in done.stdout
    assert config.load(home.config_file, {}).channels == {}


def test_a_password_is_not_kept_by_a_setup_that_is_left(home: Home, server: ModelServer) -> None:
    terminal = Terminal(home, environment(server), "channels", "add", "email")
    try:
        for question, answer in (("mail address: ", AGENT), ("(not shown)", PASSWORD)):
            terminal.wait_for(question)
            terminal.type(f"{answer}\r")
        terminal.wait_for("IMAP server")
        assert [each.name for each in home.secrets.iterdir()] == ["email-secret"]
        terminal.interrupt("Aborted")
        assert terminal.ended() != 0
    finally:
        terminal.close()
    assert not any(home.secrets.iterdir())
