"""One engine for many homes: whose work is whose, whose turn it is, and what a home can name."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nexus.engine import Engine, Lane, Schedule, Settings, WorkContext
from nexus.engine.claims import Claims, Shares
from nexus.engine.errors import EngineStateError, UnknownExecutionError
from nexus.engine.forgetting import Forgetting
from nexus.engine.records import look
from nexus.engine.schedules import Schedules
from nexus.engine.shared import HomeAwayError, HomeEngine, SharedEngine


class Host:
    """Homes on one engine, each with its own code, opened when there is work."""

    def __init__(self, folder: Path, *names: str, limit: int = 4, places: int = 200) -> None:
        lanes = (Lane(name="chat", limit=places), Lane(name="background", limit=16))
        self.settings = Settings(
            database=folder / "engine.db", lanes=lanes, scope_limit=limit, poll_ms=100, lease_ms=30_000
        )
        self.engine = SharedEngine(self.settings, self.opened)
        self.homes: dict[str, HomeEngine] = {name: self.engine.of_home(name) for name in names}
        self.done: list[tuple[str, str, Any]] = []
        self.away: set[str] = set()
        for name, home in self.homes.items():
            home.register("say", self.said(name))

    def said(self, name: str) -> Any:
        async def say(context: WorkContext, payload: Any) -> str:
            self.done.append((name, context.key, payload))
            return f"{name}: {payload}"

        return say

    @asynccontextmanager
    async def opened(self, home: str, work: str) -> AsyncGenerator[HomeEngine]:
        if home in self.away:
            raise HomeAwayError("not now")
        yield self.homes[home]


async def test_each_execution_runs_with_the_code_of_its_own_home(tmp_path: Path) -> None:
    host = Host(tmp_path, "hom_a", "hom_b")
    async with host.engine:
        first, second = [
            await home.start("say", "hello", key="main", lane="chat", execution_id="exe_1")
            for home in host.homes.values()
        ]
        assert [await first.result(), await second.result()] == ["hom_a: hello", "hom_b: hello"]
        # The same id and key in both, and no home sees more than its own.
        assert first.id == second.id == "exe_1"
        assert (await host.homes["hom_a"].show("exe_1")).result == "hom_a: hello"
        assert (await host.homes["hom_b"].show("exe_1")).key == "main"


async def test_a_home_can_neither_see_nor_cancel_what_another_does(tmp_path: Path) -> None:
    host = Host(tmp_path, "hom_a", "hom_b")
    ours, theirs = host.homes.values()
    async with host.engine:
        await host.engine.drain()
        started = await ours.start("say", 1, key="main", lane="chat")
        for name in (started.id, f"hom_a/{started.id}"):
            assert await theirs.states([name]) == {}
            with pytest.raises(UnknownExecutionError):
                await theirs.show(name)
            with pytest.raises(UnknownExecutionError):
                await theirs.cancel(name)
        assert await ours.states([started.id]) == {started.id: "queued"}


async def test_a_schedule_belongs_to_its_home(tmp_path: Path) -> None:
    host = Host(tmp_path, "hom_a", "hom_b")
    schedule = Schedule(name="daily", cron="0 3 * * *", work="say", payload={"what": "good morning"})
    async with host.engine:
        await host.homes["hom_a"].schedules.put(schedule, after=datetime(2026, 1, 1, tzinfo=UTC))
        # It is not due yet, so that it cannot begin before it is removed.
        await host.homes["hom_b"].schedules.put(schedule)
        await host.homes["hom_b"].schedules.remove("daily")
        assert [row["name"] for row in await host.homes["hom_a"].schedules.list_schedules()] == ["daily"]
        assert await host.homes["hom_b"].schedules.list_schedules() == []
        async with asyncio.timeout(60):
            while not host.done:
                await asyncio.sleep(0.02)
    [(name, key, payload)] = host.done
    assert (name, key, payload["what"]) == ("hom_a", "schedule:daily", "good morning")


async def test_what_dozes_is_started_once_more_and_goes_on_when_roused(tmp_path: Path) -> None:
    host = Host(tmp_path, "hom_a")
    home = host.homes["hom_a"]
    now = datetime(2026, 1, 1, 12, 5, tzinfo=UTC)
    async with host.engine:
        await host.engine.drain()
        for name in ("memory.episodes", "automation:news"):
            cron = Schedule(name=name, cron="*/10 * * * *", work="say", payload={})
            await home.schedules.put(cron, after=now)
        await home.schedules.doze(now + timedelta(hours=1), but="automation:")
        assert await next_of(home) == {"automation:news": "12:10", "memory.episodes": "13:10"}
        start = Schedules(host.engine.database, "1").start_due
        later = int((now + timedelta(hours=2)).timestamp() * 1000)
        assert await asyncio.to_thread(start, later) == 2
        assert await next_of(home) == {"automation:news": "14:10", "memory.episodes": None}
        await home.schedules.rouse(now + timedelta(hours=3))
        assert (await next_of(home))["memory.episodes"] == "15:10"


async def next_of(home: HomeEngine) -> dict[str, str | None]:
    rows = await home.schedules.list_schedules()
    return {row["name"]: row["next_at"] and row["next_at"][11:16] for row in rows}


@pytest.mark.parametrize("keys", [1, 500])
async def test_a_home_with_much_waiting_does_not_hold_up_the_others(tmp_path: Path, keys: int) -> None:
    names = [f"hom_{number:02}" for number in range(20)]
    host = Host(tmp_path, "hom_00_greedy", *names, limit=2)
    async with host.engine:
        await host.engine.drain()
        for number in range(500):
            await host.homes["hom_00_greedy"].start("say", number, key=f"s{number % keys}", lane="chat")
        for name in names:
            await host.homes[name].start("say", 0, key="main", lane="chat")
        claims = Claims(host.engine.database, host.settings.lane("chat"), 2, Shares(set(), {}))
        turns: list[str] = []
        # One place becomes free at a time, and what took it ends before the next.
        for _ in range(60):
            claimed = await asyncio.to_thread(claims.take, "exr_1", 1)
            turns += claimed.ids
            await asyncio.to_thread(end, host, claimed.ids)
            for id_ in claimed.ids:
                claims.note_end(id_)
    homes = [turn.partition("/")[0] for turn in turns]
    # Everybody has had a turn before the greedy one has its third.
    third = [at for at, name in enumerate(homes) if name == "hom_00_greedy"][2]
    assert set(names) <= set(homes[:third])
    assert homes.count("hom_00_greedy") == 40


async def test_homes_take_turns_on_the_running_engine(tmp_path: Path) -> None:
    names = [f"hom_{number}" for number in range(5)]
    host = Host(tmp_path, "hom_0_greedy", *names, places=1)
    async with host.engine:
        await host.engine.drain()
        for number in range(60):
            await host.homes["hom_0_greedy"].start("say", number, key=f"s{number}", lane="chat")
        for name in names:
            await host.homes[name].start("say", 0, key="main", lane="chat")
    again = Host(tmp_path, "hom_0_greedy", *names, places=1)
    async with again.engine, asyncio.timeout(120):
        while len(again.done) < 65:
            await asyncio.sleep(0.02)
    order = [name for name, _, _ in again.done]
    assert set(order[:7]) == {"hom_0_greedy", *names}


async def test_a_home_has_no_more_under_way_than_its_limit(tmp_path: Path) -> None:
    host = Host(tmp_path, "hom_a", "hom_b", limit=3)
    async with host.engine:
        await host.engine.drain()
        for number in range(10):
            for home in host.homes.values():
                await home.start("say", number, key=f"s{number}", lane="chat")
        suspended: set[str] = set()
        claims = Claims(host.engine.database, host.settings.lane("chat"), 3, Shares(suspended, {}))
        claimed = await asyncio.to_thread(claims.take, "exr_1", 100)
        assert sorted(id_[:5] for id_ in claimed.ids) == ["hom_a"] * 3 + ["hom_b"] * 3
        assert (await asyncio.to_thread(claims.take, "exr_1", 100)).ids == []
        for id_ in claimed.ids:
            claims.note_end(id_)
        suspended.add("hom_a")
        again = await asyncio.to_thread(claims.take, "exr_1", 100)
        assert {id_[:5] for id_ in again.ids} == {"hom_b"}


async def test_a_running_engine_keeps_to_the_limit_of_a_home_at_each_sweep(tmp_path: Path) -> None:
    host = Host(tmp_path, "hom_a", "hom_b", limit=2)
    release, at_work = asyncio.Event(), list[str]()

    async def hold(context: WorkContext, _: Any) -> None:
        at_work.append(context.key)
        await release.wait()

    busy, quiet = host.homes.values()
    busy.register("hold", hold)
    async with host.engine, asyncio.timeout(60):
        held = [await busy.start("hold", None, key=f"s{number}", lane="chat") for number in range(6)]
        # What another home starts is taken by a sweep, which looks at this one, too.
        for number in range(4):
            await (await quiet.start("say", number, key="main", lane="chat")).result()
        assert len(at_work) == 2
        release.set()
        for one in held:
            await one.result()
    assert len(at_work) == 6


def end(host: Host, ids: list[str]) -> None:
    statement = host.engine.database.sql(
        "UPDATE {t}workflow_status SET status = 'SUCCESS' WHERE workflow_uuid IN :ids", "ids"
    )
    host.engine.database.change(statement, {"ids": ids})


async def test_work_of_a_home_that_cannot_be_opened_waits_for_it(tmp_path: Path) -> None:
    host = Host(tmp_path, "hom_a")
    host.away.add("hom_a")
    async with host.engine:
        started = await host.homes["hom_a"].start("say", "late", key="main", lane="chat")
        async with asyncio.timeout(60):
            while (await started.state()).starts < 2:
                await asyncio.sleep(0.02)
        host.away.clear()
        async with asyncio.timeout(60):
            assert await started.result() == "hom_a: late"


async def test_forgetting_and_looking_stay_within_a_home(tmp_path: Path) -> None:
    host = Host(tmp_path, "hom_a", "hom_b")
    async with host.engine:
        for home in host.homes.values():
            await (await home.start("say", "x", key="main", lane="chat", execution_id="exe_1")).result()
        await host.engine.drain()
        for home in host.homes.values():
            await home.start("say", "y", key="main", lane="chat", execution_id="exe_2")
        ours = host.homes["hom_a"].settings
        await Forgetting(ours).remove(["exe_2"])
        assert await host.homes["hom_a"].states(["exe_1", "exe_2"]) == {}
        assert await host.homes["hom_b"].states(["exe_1", "exe_2"]) == {"exe_1": "done", "exe_2": "queued"}
        with look(ours) as seen:
            assert seen is not None
            assert list(seen.waiting()) == []
        with look(host.homes["hom_b"].settings) as seen:
            assert seen is not None
            assert [each.id for each in seen.waiting()] == ["exe_2"]


async def test_a_process_of_one_home_records_work_of_a_shared_engine_and_runs_none(tmp_path: Path) -> None:
    host = Host(tmp_path, "hom_a")
    async with host.engine:
        beside = Engine(host.homes["hom_a"].settings)
        with pytest.raises(EngineStateError, match="hosted"):
            await beside.open()
        await beside.open(serve=False)
        started = await beside.start("say", "from beside", key="main", lane="chat")
        async with asyncio.timeout(60):
            assert await started.result() == "hom_a: from beside"
        await beside.close()
