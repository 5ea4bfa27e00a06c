"""What Prometheus is told about a host: totals, few names, and nothing without a token."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hosts import host_on, make_homes, write_settings
from memory_writers import quiet
from nexus.engine.settings import DEFAULT_LANES
from nexus.gateway import host_telemetry
from nexus.gateway.hosted import HostGateway
from nexus.gateway.listener import bind_socket
from nexus.hosting.host import Host
from nexus.testing import ModelServer, Turn

SCRAPE_TOKEN = "s" * 40
_ROOT = Path(__file__).parents[3]
_PRICE = '[prices."test/large"]\nfresh_usd = 1000.0\ncached_usd = 1000.0\noutput_usd = 1000.0\n'
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    with ModelServer() as running:
        running.always(Turn("Noted."))
        yield running


@asynccontextmanager
async def hosting(
    folder: Path, server: ModelServer, *names: str, copies: str = ""
) -> AsyncGenerator[tuple[Host, HostGateway]]:
    make_homes(folder / "host", write_settings(folder, server, _PRICE), *names)
    with bind_socket("127.0.0.1", 0) as listening:
        async with (
            host_on(folder / "host", copies=copies, scrape_token=SCRAPE_TOKEN) as host,
            HostGateway(host, listening) as gateway,
        ):
            yield host, gateway


async def answer(gateway: HostGateway, token: str, **headers: str) -> httpx.Response:
    given = {"authorization": f"Bearer {token}", **headers}
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.get(f"http://127.0.0.1:{gateway.port}/metrics", headers=given)


async def scraped(gateway: HostGateway) -> Samples:
    found = await answer(gateway, SCRAPE_TOKEN)
    assert found.status_code == 200, found.text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(found.text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


async def spend(host: Host, home_id: str) -> None:
    async with host.pool.use(home_id) as opened:
        await (await opened.app.send("Hello")).result()
        await quiet(opened.app)


async def test_a_host_tells_totals_and_how_homes_were_opened(tmp_path: Path, server: ModelServer) -> None:
    async with hosting(tmp_path, server, "ada", "bob") as (host, gateway):
        before = await scraped(gateway)
        assert value(before, "nexus_host_homes") == 2
        assert value(before, "nexus_host_open_homes") == 0
        assert value(before, "nexus_host_home_open_seconds_count", source="folder") == 0
        for lane in DEFAULT_LANES:
            for state in ("queued", "delayed", "running"):
                assert value(before, "nexus_host_work", lane=lane.name, state=state) == 0
            assert value(before, "nexus_host_oldest_work_seconds", lane=lane.name) == 0
        found = await asyncio.to_thread(host.registry.named, "ada")
        await spend(host, found.id)
        after = await scraped(gateway)
        assert value(after, "nexus_host_open_homes") == 1
        assert value(after, "nexus_host_home_open_seconds_count", source="folder") == 1
        assert value(after, "nexus_host_wal_bytes") > 0
        assert value(after, "nexus_host_registry_up") == 1
        assert value(after, "process_open_fds") > 0
        assert value(after, "nexus_http_requests_total", method="GET", route="/metrics", status="200") == 1
        assert "nexus_host_lease_age_seconds" not in {name for name, _ in after}
        gateway.metrics.lease_age_s = lambda: 2.5
        assert value(await scraped(gateway), "nexus_host_lease_age_seconds") == 2.5


async def test_only_the_dearest_homes_of_the_day_are_named(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_telemetry, "TOP", 2)
    names = ("ada", "bob", "eve", "zoe")
    async with hosting(tmp_path, server, *names) as (host, gateway):
        ids = {name: (await asyncio.to_thread(host.registry.named, name)).id for name in names}
        for number, name in enumerate(("zoe", "eve", "bob")):
            for _ in range(number + 1):
                await spend(host, ids[name])
        # A home that was closed still counts.
        await host.pool.evict(ids["bob"])
        assert ids["bob"] not in host.pool
        samples = await scraped(gateway)
    named = {name: dict(labels) for name, labels in samples if any(key == "home" for key, _ in labels)}
    assert set(named) == {"nexus_host_home_cost_usd_today"}
    top = {
        dict(labels)["home"]: usd
        for (name, labels), usd in samples.items()
        if name == "nexus_host_home_cost_usd_today"
    }
    assert set(top) == {"bob", "eve"}
    assert top["bob"] > top["eve"] > 0
    assert value(samples, "nexus_host_cost_usd_today") > sum(top.values())
    told = {str(label) for _, labels in samples for _, label in labels}
    assert not told & {"ada", "zoe", *ids.values()}


async def test_the_number_of_series_does_not_follow_the_number_of_homes(
    tmp_path: Path, server: ModelServer
) -> None:
    async with hosting(tmp_path, server, *(f"home-{number}" for number in range(6))) as (host, gateway):
        homes = await asyncio.to_thread(host.registry.listed)
        async with host.pool.use(homes[0].id, active=False):
            pass
        await scraped(gateway)
        one = set(await scraped(gateway))
        for home in homes:
            async with host.pool.use(home.id, active=False):
                pass
        assert set(await scraped(gateway)) == one


@pytest.mark.parametrize("kind", ["home", "made up"])
async def test_no_other_token_reads_the_metrics(tmp_path: Path, server: ModelServer, kind: str) -> None:
    async with hosting(tmp_path, server, "ada") as (host, gateway):
        ada = await asyncio.to_thread(host.registry.named, "ada")
        tokens = {"home": host.registry.new_token(ada.id, "full"), "made up": "x" * 43}
        assert (await answer(gateway, tokens[kind])).status_code == 401
        assert (await answer(gateway, host.registry.new_token(None, "admin"))).status_code == 200


async def test_the_scrape_token_reads_metrics_alone_and_at_any_address(
    tmp_path: Path, server: ModelServer
) -> None:
    async with hosting(tmp_path, server, "ada") as (_, gateway):
        assert (await answer(gateway, SCRAPE_TOKEN, host="10.0.0.7:7807")).status_code == 200
        assert (await answer(gateway, SCRAPE_TOKEN, origin="https://evil.example")).status_code == 403
        headers = {"authorization": f"Bearer {SCRAPE_TOKEN}"}
        async with httpx.AsyncClient(headers=headers, timeout=60) as client:
            at = f"http://127.0.0.1:{gateway.port}"
            assert (await client.get(f"{at}/api/homes")).status_code == 401
            at_home = {"host": f"ada.localhost:{gateway.port}"}
            assert (await client.get(f"{at}/api/home", headers=at_home)).status_code == 401
            assert (await client.get(f"{at}/metrics", headers=at_home)).status_code == 401


async def test_a_list_of_homes_that_cannot_be_read_hides_nothing_else(
    tmp_path: Path, server: ModelServer
) -> None:
    async with hosting(tmp_path, server, "ada") as (host, gateway):

        def away() -> int:
            raise OSError("no database")

        host.registry.count = away
        samples = await scraped(gateway)
    assert value(samples, "nexus_host_registry_up") == 0
    assert value(samples, "nexus_host_open_homes") == 0
    assert "nexus_host_homes" not in {name for name, _ in samples}


async def test_alerts_ask_for_metrics_that_a_host_exports(tmp_path: Path, server: ModelServer) -> None:
    alerts = yaml.safe_load((_ROOT / "deploy/fleet/alerts.yaml").read_text(encoding="utf-8"))
    asked = {
        name
        for group in alerts["groups"]
        for rule in group["rules"]
        for name in re.findall(r"\b(?:nexus|process)_[a-z_]+", rule["expr"])
    }
    async with hosting(tmp_path, server, "ada", copies=f"file://{tmp_path}/copies") as (host, gateway):
        gateway.metrics.lease_age_s = lambda: 1.0
        await spend(host, (await asyncio.to_thread(host.registry.named, "ada")).id)
        await scraped(gateway)
        text = (await answer(gateway, SCRAPE_TOKEN)).text
    declared = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert {name.removesuffix("_bucket") for name in asked} - declared == set()
    assert len(asked) > 10


async def test_a_blocked_event_loop_is_seen(tmp_path: Path, server: ModelServer) -> None:
    async with hosting(tmp_path, server, "ada") as (_, gateway):
        time.sleep(1.5)
        await asyncio.sleep(0.1)
        samples = await scraped(gateway)
        late = value(samples, "nexus_host_loop_delay_seconds_count") - value(
            samples, "nexus_host_loop_delay_seconds_bucket", le="0.5"
        )
        assert late >= 1


async def test_a_copy_that_is_not_written_falls_behind(tmp_path: Path, server: ModelServer) -> None:
    copies = tmp_path / "copies"
    async with hosting(tmp_path, server, "ada", copies=f"file://{copies}") as (host, gateway):
        ada = await asyncio.to_thread(host.registry.named, "ada")
        await spend(host, ada.id)
        samples = await scraped(gateway)
        assert value(samples, "nexus_host_copies_up") == 1
        place = copies / ada.id
        async with host.pool.use(ada.id) as opened:
            assert opened.following is not None
            await opened.following
        place.rename(tmp_path / "away")
        place.touch()
        await spend(host, ada.id)
        try:
            async with asyncio.timeout(120):
                while value(await scraped(gateway), "nexus_host_copy_lag_seconds") < 3:
                    await asyncio.sleep(0.2)
        finally:
            place.unlink()
            (tmp_path / "away").rename(place)
