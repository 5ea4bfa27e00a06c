"""Providers over TLS: one with a certificate that nobody vouches for is not talked to."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from certificates import certify
from nexus.broker.agent.clients import ssl_context
from nexus.config import Config
from nexus.errors import ModelError
from nexus.testing import ModelServer
from unit.broker.agent.test_providers import KINDS, ProviderRun

pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence")
# Azure's client is made by the agent library, with certificates of its own.
_KINDS = sorted(KINDS.keys() - {"azure"})


@dataclass
class TlsRun(ProviderRun):
    """A run on a provider that is reached over TLS."""

    url: str = ""

    @property
    def config(self) -> Config:
        found = super().config
        there = replace(found.providers["it"], base_url=f"{self.url}{self.path}")
        return replace(found, providers={"it": there})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls") / "certificate.pem"
    certify(made, made.with_name("key.pem"))
    return made


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def url(server: ModelServer, certificate: Path) -> AsyncIterator[str]:
    """The model server, behind TLS."""
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(certificate, certificate.with_name("key.pem"))
    port = int(server.url.rpartition(":")[2])

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, back), pass_on(there, writer))

    front = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=served)
    yield f"https://127.0.0.1:{front.sockets[0].getsockname()[1]}"
    front.close()


@pytest.fixture
def fresh() -> Iterator[None]:
    """What this process trusts is read anew, before and after."""
    ssl_context.cache_clear()
    yield
    ssl_context.cache_clear()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("kind", _KINDS)
async def test_certificate_that_the_system_trusts(
    server: ModelServer,
    url: str,
    certificate: Path,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server.always("It snows in Bern.")
    outcome = await TlsRun(server, tmp_path, kind=kind, path=KINDS[kind], url=url)()
    assert outcome.text == "It snows in Bern."


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("kind", _KINDS)
async def test_certificate_that_nobody_vouches_for(
    server: ModelServer, url: str, kind: str, tmp_path: Path
) -> None:
    server.always("It snows in Bern.")
    with pytest.raises(ModelError):
        await TlsRun(server, tmp_path, kind=kind, path=KINDS[kind], url=url)()
    assert not server.requests
