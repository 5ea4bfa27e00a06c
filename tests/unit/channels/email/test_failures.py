"""A mail server that can't be used is explained: what failed, why, and what to do."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

import pytest

from certificates import certify
from nexus.channels.adapter import DeliveryError
from nexus.channels.email import Account, Email, Server, mailbox, sending
from ports import free_port

_HOST = "127.0.0.1"
Listen = Callable[[Path], AbstractAsyncContextManager[Server]]


@asynccontextmanager
async def _listen(context: ssl.SSLContext | None = None) -> AsyncGenerator[Server]:
    """A server that says nothing."""

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while await reader.read(1_000):
                if context is None:
                    writer.write(b"* What?\r\n")

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
async def _plain(folder: Path) -> AsyncGenerator[Server]:
    async with _listen() as server:
        yield server


@pytest.mark.parametrize("protocol", ["IMAP", "SMTP"])
@pytest.mark.parametrize(
    ("listen", "message", "hint"),
    [
        (_unknown, "Can't reach the {} server mail.invalid: no address is known for that name", "name"),
        (_closed, "Can't reach the {} server 127.0.0.1: port {} refused the connection", "STARTTLS"),
        (_silent, "Can't reach the {} server 127.0.0.1: no answer on port {}", "firewall"),
        (_untrusted, "Can't trust the {} server 127.0.0.1: self", "certificate"),
        (_plain, "Can't encrypt the connection: the {} server 127.0.0.1 has no TLS on port {}", "STARTTLS"),
    ],
    ids=["unknown host", "refused connection", "no answer", "untrusted certificate", "no TLS"],
)
async def test_a_server_that_cannot_be_used_is_explained(
    listen: Listen, message: str, hint: str, protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if listen is _silent:
        monkeypatch.setattr(mailbox, "_TIMEOUT_S", 0.2)
        monkeypatch.setattr(sending, "_TIMEOUT_S", 0.2)
    async with listen(tmp_path) as server:
        email = Email(Account(address="a@b.example", user="a", password="p", imap=server, smtp=server))
        with pytest.raises(DeliveryError) as raised:
            await (email.newest_auth_server() if protocol == "IMAP" else email.check_sending())
    assert raised.value.message.startswith(message.format(protocol, server.port))
    assert hint in raised.value.hint
