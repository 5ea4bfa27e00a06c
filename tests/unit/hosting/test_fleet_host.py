"""A host of a fleet in this process, on a real Postgres."""

import asyncio
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from contract.postgres import Postgres
from hosts import write_settings
from new_homes import new_home
from nexus import hosted
from nexus.home import Home
from nexus.hosting.fleet import salvage
from nexus.hosting.fleet.fleet import FleetSettings
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.hosting.host import Host, HostSettings
from nexus.hosting.pool import OpenHome
from nexus.hosting.replication import Replicas
from nexus.ledgers import events, fencing
from nexus.ledgers.events import NewEvent
from nexus.testing import ModelServer


def receive(home: Home, text: str) -> None:
    """Record a message, as a host does before its process freezes or dies."""
    new = NewEvent(channel="cli", content=text, sender="owner", metadata={"session": "main"})
    with closing(apsw.Connection(str(home.ledger("events")))) as connection:
        connection.pragma("foreign_keys", 1)
        events.append(connection, [new])


async def load_contents(opened: OpenHome) -> list[str]:
    def load(connection: apsw.Connection) -> list[str]:
        found = connection.execute("SELECT content FROM events WHERE direction = 'inbound' ORDER BY seq")
        return [str(row[0]) for row in found]

    return await opened.app.ledgers.events.read(load)


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


async def test_what_reaches_a_copy_after_the_next_owner_began_with_it_is_not_lost(
    tmp_path: Path, postgres: Postgres, server: ModelServer
) -> None:
    url, copies = postgres.new_database(), f"file://{tmp_path}/copies"
    root = tmp_path / "old"
    (root / "run").mkdir(parents=True)
    with FleetRegistry(root, url, "old") as old, FleetRegistry(tmp_path / "mid", url, "mid") as mid:
        for each in (old, mid):
            assert each.join(url=f"http://{each.name}", folder_id=each.name, lease_s=3600)
        home_id = old.add("ada", write_settings(tmp_path, server).read_text()).id
        assert old.acquire(home_id, None) is not None
        home = new_home(old.home("ada").root)
        home.config_file.write_text(write_settings(tmp_path, server).read_text())
        hosted.settle(home, hosted.Place.of(root, home_id))
        old.note_epoch(home_id, 1, 0, None)
        fencing.stamp(home, 1)
        async with Replicas(root, copies) as replicas:
            await replicas.follow(f"{home_id}/1", home)
            old.note_copied(home_id, 1)
            old.leave()

            # Another host has it and may have read the copy: what comes later must stay in the folder.
            held = mid.acquire(home_id, None)
            assert held is not None
            assert (held.epoch, held.copies) == (2, (1,))
            assert not await salvage.salvage(old, replicas, home.root)
            assert home.ledger("events").exists()
            mid.leave()

            fleet = FleetSettings(url=url, name="new", internal_url="http://new", lease_s=3600)
            settings = HostSettings(root=tmp_path / "new", copies=copies, fleet=fleet)
            async with Host(settings) as host:
                # It reads its copy back, and would delete the older one, only after the message has come.
                reads = host.pool._checks  # pyright: ignore[reportPrivateUsage]
                await reads.acquire()
                async with host.pool.use(home_id) as opened:
                    assert await load_contents(opened) == []
                receive(home, "Did you hear me?")
                await replicas.leave(f"{home_id}/1")
                reads.release()
                async with asyncio.timeout(60):
                    while not old.successor(home_id, 1).is_replaced:
                        await asyncio.sleep(0.05)
                async with host.pool.use(home_id) as opened:
                    assert await load_contents(opened) == ["Did you hear me?"]
            assert not (tmp_path / "copies" / home_id / "1").exists()
