"""A host with homes on a model server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from nexus.hosting import homes
from nexus.hosting.host import Host, HostSettings
from nexus.hosting.local import LocalRegistry
from nexus.hosting.pool import Bounds
from nexus.testing import ModelServer

LEASE_MS = 30_000


def write_settings(folder: Path, server: ModelServer, more: str = "") -> Path:
    """A file with the settings of a home whose models are on that server."""
    file = folder / "home.toml"
    file.write_text(
        f"""[models]
manager = ["test/large"]
writer = "none"

[providers.test]
kind = "anthropic"
base_url = "{server.url}"
max_retries = 0

[agents]
outage_ms = 0
{more}"""
    )
    return file


def make_homes(root: Path, settings: Path, *names: str) -> dict[str, str]:
    """Homes of a host that does not run; returns their ids."""
    with LocalRegistry(root) as registry:
        return {name: homes.add(registry, name, settings).id for name in names}


@asynccontextmanager
async def host_on(
    root: Path, bounds: Bounds | None = None, copies: str = "", scrape_token: str = ""
) -> AsyncGenerator[Host]:
    """A host that runs. On a busy machine its process is not taken for dead."""
    settings = HostSettings(
        root=root, bounds=bounds or Bounds(), lease_ms=LEASE_MS, copies=copies, scrape_token=scrape_token
    )
    async with Host(settings) as host:
        yield host
