"""A host exports the traces of all its homes, also when they close."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hosts import LEASE_MS, make_homes, write_settings
from memory_writers import quiet
from nexus.gateway.hosted import HostGateway
from nexus.gateway.listener import bind_socket
from nexus.hosting.host import Host, HostSettings
from nexus.testing import ModelServer, Turn
from unit.gateway.collectors import collecting


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    with ModelServer() as running:
        running.always(Turn("In the raspberry tin."))
        yield running


async def say(host: Host, home_id: str) -> None:
    async with host.pool.use(home_id) as opened:
        await (await opened.app.send("Where is the raspberry tea?")).result()
        await quiet(opened.app)


async def test_traces_of_all_homes_come_once_with_the_home_they_are_of(
    tmp_path: Path, server: ModelServer
) -> None:
    root = tmp_path / "host"
    ids = make_homes(root, write_settings(tmp_path, server), "ada", "bob")
    with collecting() as sink, bind_socket("127.0.0.1", 0) as listening:
        settings = HostSettings(root=root, lease_ms=LEASE_MS, otlp_url=sink.url)
        async with Host(settings) as host, HostGateway(host, listening):
            for home_id in ids.values():
                async with host.pool.use(home_id, active=False):
                    pass
            async with asyncio.timeout(120):
                # A home exports what ends after it was first looked at.
                while not all(
                    (root / "homes" / name / "state/exported-traces.json").exists() for name in ids
                ):
                    await asyncio.sleep(0.1)
            await say(host, ids["ada"])
            async with asyncio.timeout(120):
                while not sink.received:
                    await asyncio.sleep(0.1)
            assert {each["nexus.home"] for each in sink.resources} == {ids["ada"]}
            sink.status = 400
            await say(host, ids["bob"])
            await host.pool.evict(ids["bob"])
            host.engine.suspended.discard(ids["bob"])
            sink.status = 200
            async with host.pool.use(ids["bob"], active=False), asyncio.timeout(120):
                while len(sink.resources) < len(ids):
                    await asyncio.sleep(0.1)
        roots = [span.span_id for span in sink.spans if not span.parent_span_id]
        assert len(set(roots)) == len(roots) >= 2
        assert {each["nexus.home"] for each in sink.resources} == set(ids.values())
        assert all(each["service.instance.id"] for each in sink.resources)
        assert not any(b"raspberry" in each.SerializeToString() for each in sink.received)
