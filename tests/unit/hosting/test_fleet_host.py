"""A host of a fleet in this process, on a real Postgres."""

import asyncio
from pathlib import Path

import pytest

from contract.postgres import Postgres
from nexus.hosting.fleet.fleet import FleetSettings
from nexus.hosting.host import Host, HostSettings


async def test_a_host_that_starts_before_its_postgres_waits_for_it(
    tmp_path: Path, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = FleetSettings(url=postgres.new_database(), name="one", internal_url="http://one", lease_s=60)
    settings = HostSettings(root=tmp_path / "host", copies=f"file://{tmp_path}/copies", fleet=fleet)

    async def serve() -> bool:
        async with Host(settings) as host:
            return host.fleet is not None and host.fleet.is_member

    await asyncio.to_thread(postgres.pause)
    try:
        serving = asyncio.create_task(serve())
        async with asyncio.timeout(60):
            while "waiting for the fleet's Postgres" not in caplog.text and not serving.done():
                await asyncio.sleep(0.05)
    finally:
        await asyncio.to_thread(postgres.resume)
    assert await serving
