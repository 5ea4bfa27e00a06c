"""A mail server that can't be used is explained: what failed, why, and what to do."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

import pytest

from certificates import certify
from nexus.channels import email as channel
from nexus.channels.adapter import DeliveryError
from nexus.channels.email import Account, Email, Server, explain, mailbox
from nexus.channels.email.mailbox import Login
from ports import free_port

_HOST = "127.0.0.1"
Listen = Callable[[Path], AbstractAsyncContextManager[Server]]


@asynccontextmanager
async def _listen(
    context: ssl.SSLContext | None = None, says: bytes = b"* What?\r\n", greeting: bytes = b""
) -> AsyncGenerator[Server]:
    """A server that says nothing first."""

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            writer.write(greeting)
            while await reader.read(1_000):
                if context is None:
                    writer.write(says)

    port = free_port()
    async with await asyncio.start_server(wait, _HOST, port, ssl=context):
        yield Server(host=_HOST, port=port)


@asynccontextmanager
async def _unknown(folder: Path) -> AsyncGenerator[Server]:
    yield Server(host="mail.invalid", port=993)


@asynccontextmanager
async def _closed(folder: Path) -> AsyncGenerator[Server]:
    yield Server(host=_HOST, port=free_port())


@asynccontextmanager
async def _silent(folder: Path) -> AsyncGenerator[Server]:
    async with _listen() as server:
        yield Server(host=_HOST, port=server.port, tls=False)


@asynccontextmanager
async def _untrusted(folder: Path) -> AsyncGenerator[Server]:
    certify(folder / "cert.pem", folder / "key.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    async with _listen(context) as server:
        yield server


@asynccontextmanager
async def _alerting(folder: Path) -> AsyncGenerator[Server]:
    # The alert "handshake failure".
    async with _listen(says=b"\x15\x03\x03\x00\x02\x02\x28") as server:
        yield server


@asynccontextmanager
async def _plain(folder: Path) -> AsyncGenerator[Server]:
    async with _listen() as server:
        yield server


@pytest.mark.parametrize("protocol", ["IMAP", "SMTP"])
@pytest.mark.parametrize(
    ("listen", "message", "hint"),
    [
        (_unknown, "Can't reach the {} server mail.invalid: the host name can't be resolved", "name"),
        (_closed, "Can't reach the {} server 127.0.0.1: port {} refused the connection", "STARTTLS"),
        (_silent, "Can't reach the {} server 127.0.0.1: no answer on port {}", "firewall"),
        (_untrusted, "Can't trust the {} server 127.0.0.1: self", "isn't signed by a trusted authority"),
        (_alerting, "The TLS handshake with the {} server 127.0.0.1 failed: sslv3 alert handshake", "port"),
        (
            _plain,
            "Can't encrypt the connection: the {} server 127.0.0.1 has no TLS on port {}",
            "without encr",
        ),
    ],
    ids=[
        "unknown host",
        "refused connection",
        "no answer",
        "untrusted certificate",
        "failed handshake",
        "no TLS",
    ],
)
async def test_a_server_that_cannot_be_used_is_explained(
    listen: Listen, message: str, hint: str, protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if listen is _silent:
        monkeypatch.setattr(mailbox, "_TIMEOUT_S", 0.2)
        monkeypatch.setattr(channel, "_SMTP_TIMEOUT_S", 0.2)
    async with listen(tmp_path) as server:
        email = Email(Account(address="a@b.example", user="a", password="p", imap=server, smtp=server))
        with pytest.raises(DeliveryError) as raised:
            await (email.newest_auth_server() if protocol == "IMAP" else email.check_sending())
    assert raised.value.message.startswith(message.format(protocol, server.port))
    assert hint in raised.value.hint


async def test_a_mail_server_that_refuses_the_connection_is_quoted() -> None:
    async with _listen(greeting=b"554 5.7.1 No mail from your network\r\n") as listening:
        server = Server(host=_HOST, port=listening.port, tls=False)
        email = Email(Account(address="a@b.example", user="a", password="p", imap=server, smtp=server))
        with pytest.raises(DeliveryError) as raised:
            await email.check_sending()
    said = "The SMTP server 127.0.0.1 refused the connection: 554 5.7.1 No mail from your network"
    assert raised.value.message == said


@pytest.mark.parametrize(
    ("code", "hint"),
    [(10, "has expired"), (20, "isn't signed by a trusted authority"), (62, "Use the name"), (9, "Ask")],
    ids=["expired", "unknown issuer", "another name", "not valid yet"],
)
def test_what_to_do_depends_on_what_is_wrong_with_the_certificate(code: int, hint: str) -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "the reason"
    explained = explain(error, Server(host=_HOST, port=993), Login(user="a"), "IMAP")
    assert explained.message == "Can't trust the IMAP server 127.0.0.1: the reason"
    assert hint in explained.hint
