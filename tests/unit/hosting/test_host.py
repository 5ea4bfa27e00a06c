"""Homes that are opened when there is work, and closed without losing any."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import apsw
import numpy as np
import pytest

from embedders import Hashes
from hosts import host_on, make_homes, write_settings
from nexus import clock
from nexus.app import App
from nexus.config import LedgersConfig, MemoryConfig
from nexus.engine import Settings
from nexus.engine.database import Database
from nexus.engine.errors import EngineStateError
from nexus.engine.forgetting import remove_scope
from nexus.engine.shared import HomeAwayError
from nexus.errors import HomeBusyError
from nexus.home import LEDGERS, Home
from nexus.hosting import embedders, homes, pool
from nexus.hosting.host import Host
from nexus.hosting.limits import Limits
from nexus.hosting.local import LocalRegistry
from nexus.hosting.pool import REST, Bounds
from nexus.ledgers import Ledgers, events, migrate, sql
from nexus.serving import Serving
from nexus.testing import ModelServer, Turn


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "host"


async def until(met: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not met():
            await asyncio.sleep(0.02)


async def ask(host: Host, home_id: str, text: str, session: str = "main") -> str:
    async with host.pool.use(home_id) as opened:
        run = await opened.app.send(text, session_label=session)
        return (await run.result()).response.content


async def test_two_homes_answer_in_one_process_and_know_nothing_of_each_other(
    tmp_path: Path, root: Path
) -> None:
    with ModelServer() as server:
        server.always(Turn("Noted."))
        ids = make_homes(root, write_settings(tmp_path, server), "ada", "bob")
        async with host_on(root) as host:
            for name, id_ in ids.items():
                async with host.pool.use(id_) as opened:
                    await opened.app.remember(f"The canary of {name} is called {name}-yellow.")
                assert await ask(host, id_, f"Hello from {name}") == "Noted."
            for name, id_ in ids.items():
                async with host.pool.use(id_) as opened:
                    found = await opened.app.recall("What is the canary called?")
                    texts = [repr(each) for each in found.results]
                    assert any(f"{name}-yellow" in text for text in texts)
                    other = {"ada": "bob", "bob": "ada"}[name]
                    assert not any(other in text for text in texts)
        said = [str(exchange.request.json["messages"]) for exchange in server.exchanges]
        assert not any("ada" in text and "bob" in text for text in said)


async def test_keys_of_open_homes_are_taken_out_of_the_hosts_log(tmp_path: Path, root: Path) -> None:
    keys = {name: f"sk-{name}-'quoted'" for name in ("ada", "bob")}
    with ModelServer() as server:
        server.always(Turn("Yes."))
        ids = make_homes(root, write_settings(tmp_path, server), *keys)
        for name, key in keys.items():
            file = tmp_path / f"{name}.key"
            file.write_text(key)
            settings = Home(root / "homes" / name).config_file
            there = 'kind = "anthropic"\n'
            settings.write_text(settings.read_text().replace(there, f'{there}api_key = "file:{file}"\n'))
        async with host_on(root) as host:
            for id_ in ids.values():
                assert await ask(host, id_, "Hello") == "Yes."
            assert {exchange.request.key for exchange in server.exchanges} == set(keys.values())
            told = host.pool.redact(f"{keys['ada']} {keys['bob']!r} {list(keys.values())}")
    assert "sk-" not in told


async def test_a_home_is_closed_for_another_and_opened_again_without_loss(tmp_path: Path, root: Path) -> None:
    names = [f"home-{number}" for number in range(6)]
    with ModelServer() as server:
        server.always(Turn("Yes."))
        ids = make_homes(root, write_settings(tmp_path, server), *names)
        async with host_on(root, Bounds(homes=2)) as host:
            for turn in range(2):
                for id_ in ids.values():
                    assert await ask(host, id_, f"Message {turn}") == "Yes."
                    # What is in use may exceed the bound; what is idle makes room.
                    await until(lambda: len(host.pool) <= 3)
            async with host.pool.use(ids["home-0"]) as opened:
                said = await opened.app.ledgers.events.read(
                    sql.rows, "SELECT content FROM events ORDER BY seq"
                )
                assert [row[0] for row in said] == ["Message 0", "Yes.", "Message 1", "Yes."]


async def test_a_home_that_is_closed_while_the_engines_disk_is_full_can_be_opened_again(
    tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ModelServer() as server:
        server.always(Turn("Yes."))
        ids = make_homes(root, write_settings(tmp_path, server), "ada", "bob")
        async with host_on(root, Bounds(homes=1)) as host:
            assert await ask(host, ids["ada"], "Hello") == "Yes."
            with host.engine.database.write() as connection:
                connection.exec_driver_sql(
                    """CREATE TRIGGER full BEFORE UPDATE ON nexus_schedules
                    BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"""
                )
            await until(lambda: host.pool.open_homes()[0].is_idle)
            async with host.pool.use(ids["bob"], active=False):
                assert ids["ada"] not in host.pool
            assert "a home was not closed cleanly" in caplog.text
            with host.engine.database.write() as connection:
                connection.exec_driver_sql("DROP TRIGGER full")
            assert await ask(host, ids["ada"], "Are you there?") == "Yes."


async def test_a_home_is_never_closed_under_who_just_got_it(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_LOOK_S", 0.0)  # It is looked for idle homes at each step of the loop.
    with ModelServer() as server:
        ids = make_homes(root, write_settings(tmp_path, server), "ada")
        async with host_on(root, Bounds(idle_s=0.0)) as host:
            for steps in range(12):
                async with host.pool.use(ids["ada"]) as opened:
                    await opened.app.ledgers.events.read(events.last_seq)
                while not (opened.is_idle or opened.closing):
                    await asyncio.sleep(0)
                for _ in range(steps % 3):
                    await asyncio.sleep(0)
                async with host.pool.use(ids["ada"]) as opened:
                    for _ in range(3):
                        assert opened.closing is None
                        await opened.app.ledgers.events.read(events.last_seq)
                await until(lambda: ids["ada"] not in host.pool)


async def test_a_home_that_is_abandoned_while_it_opens_can_be_opened_at_once(
    tmp_path: Path, root: Path
) -> None:
    with ModelServer() as server:
        ids = make_homes(root, write_settings(tmp_path, server), "ada")
        async with host_on(root) as host:

            async def read() -> int:
                async with host.pool.use(ids["ada"]) as opened:
                    return await opened.app.ledgers.events.read(events.last_seq)

            async def insist() -> int:
                while True:
                    with suppress(HomeAwayError):
                        return await read()

            for steps in range(5, 30, 8):
                asking = [asyncio.create_task(insist()) for _ in range(2)]
                for _ in range(steps):
                    await asyncio.sleep(0)
                await host.pool.abandon()
                await asyncio.gather(*asking)
                await host.pool.abandon()
                assert ids["ada"] not in host.pool


def opening(embedder: Callable[[], Hashes]) -> Callable[[MemoryConfig], Callable[[str | None], Hashes]]:
    """Stands for `embedding.opener`."""

    def opener(settings: MemoryConfig) -> Callable[[str | None], Hashes]:
        return lambda model_id: embedder()

    return opener


async def test_a_home_stays_open_until_what_was_written_is_embedded(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = Hashes()
    embedder.gate.clear()
    monkeypatch.setattr(embedders, "make_opener", opening(lambda: embedder))
    with ModelServer() as server:
        ids = make_homes(root, write_settings(tmp_path, server), "ada")
        async with host_on(root, Bounds(idle_s=0.0)) as host:
            async with host.pool.use(ids["ada"]) as opened:
                await opened.app.remember("The canary is yellow.")
            assert not opened.is_idle
            embedder.gate.set()
            await until(lambda: ids["ada"] not in host.pool)
    assert "The canary is yellow." in embedder.embedded


async def test_a_home_with_texts_that_wait_is_opened_at_the_next_start(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Hashes):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            raise RuntimeError("no memory")

    found: list[Hashes] = [Failing()]
    monkeypatch.setattr(embedders, "make_opener", opening(lambda: found[-1]))
    with ModelServer() as server:
        ids = make_homes(root, write_settings(tmp_path, server), "ada")
        async with host_on(root) as host, host.pool.use(ids["ada"]) as opened:
            await opened.app.remember("The canary is yellow.")
        found.append(Hashes())
        async with host_on(root) as host:
            await until(lambda: "The canary is yellow." in found[-1].embedded)


async def test_more_homes_than_threads_open_at_the_same_time(tmp_path: Path, root: Path) -> None:
    names = [f"home-{number}" for number in range(40)]
    with ModelServer() as server:
        server.always(Turn("Yes."))
        ids = make_homes(root, write_settings(tmp_path, server), *names)
        async with host_on(root) as host, asyncio.timeout(300):
            answers = await asyncio.gather(*(ask(host, id_, "Hello") for id_ in ids.values()))
        assert answers == ["Yes."] * len(names)


async def test_a_schedule_wakes_a_closed_home_and_no_other(tmp_path: Path, root: Path) -> None:
    with ModelServer() as server:
        ids = make_homes(root, write_settings(tmp_path, server), "ada", "bob")
        async with host_on(root, Bounds(idle_s=0.0)) as host:
            for id_ in ids.values():
                async with host.pool.use(id_) as opened:
                    await opened.app.remind(await opened.app.reminders.draft("in two hours water the plants"))
                await until(lambda id_=id_: id_ not in host.pool)
            # Two hours later, for one of them.
            move = host.engine.database.sql(
                "UPDATE {t}nexus_schedules SET next_at = :now WHERE name LIKE :name"
            )
            values = {"name": f"{ids['ada']}/automation:%", "now": time.time_ns() // 1_000_000}
            await asyncio.to_thread(host.engine.database.change, move, values)
            said: list[str] = []
            async with asyncio.timeout(120):
                while not said:
                    said = await reminded(host, root, "ada")
                    await asyncio.sleep(0.05)
            assert said == ["water the plants"]
            assert await reminded(host, root, "bob") == []


async def reminded(host: Host, root: Path, name: str) -> list[str]:
    """What a home has said by itself, read beside the host."""
    async with Ledgers(Home(root / "homes" / name), LedgersConfig()) as ledgers:
        sent = await ledgers.events.read(events.list_unasked, channel="cli", external_id="main")
        return [each.content for each in sent]


async def test_what_a_home_does_by_itself_rests_when_it_is_closed(tmp_path: Path, root: Path) -> None:
    with ModelServer() as server:
        ids = make_homes(root, write_settings(tmp_path, server), "ada")
        async with host_on(root, Bounds(idle_s=0.0)) as host:
            async with host.pool.use(ids["ada"]) as opened:
                used_at = opened.active_at
            await until(lambda: not len(host.pool))
            part = host.engine.of_home(ids["ada"]).schedules
            assert used_at is not None
            rested = await part.list_schedules()
            assert rested
            assert all(row["next_at"] > clock.timestamp(used_at + REST) for row in rested)
            # A look that changes nothing leaves it at rest; a use has it go on.
            async with host.pool.use(ids["ada"], active=False):
                assert await part.list_schedules() == rested
            async with host.pool.use(ids["ada"]):
                assert min(row["next_at"] for row in await part.list_schedules()) < clock.timestamp(
                    used_at + REST
                )


async def test_a_home_that_cannot_be_opened_is_named_and_holds_up_nobody(tmp_path: Path, root: Path) -> None:
    with ModelServer() as server:
        server.always(Turn("Yes."))
        ids = make_homes(root, write_settings(tmp_path, server), "ada", "bob")
        (root / "homes" / "ada" / "config.toml").write_text("nonsense = 1")
        async with host_on(root) as host:
            with pytest.raises(HomeAwayError):
                await ask(host, ids["ada"], "Hello")
            assert await ask(host, ids["bob"], "Hello") == "Yes."
            found = await asyncio.to_thread(host.registry.get_named, "ada")
            assert found.problem is not None
            assert "nonsense" in found.problem


async def test_a_hosted_home_is_served_by_its_host_alone(tmp_path: Path, root: Path) -> None:
    with ModelServer() as server:
        server.always(Turn("Yes."))
        ids = make_homes(root, write_settings(tmp_path, server), "ada")
        home = Home(root / "homes" / "ada")
        with pytest.raises(EngineStateError, match="hosted"):
            async with App.open(home):
                pass
        async with host_on(root) as host, host.pool.use(ids["ada"]):
            with pytest.raises(HomeBusyError), Serving(home):
                pass
            # A program beside it asks, and the host does the work.
            async with App.open(home, serve=False) as beside:
                run = await beside.send("Hello")
                assert (await run.result()).response.content == "Yes."


async def test_a_home_over_its_disk_limit_waits(tmp_path: Path, root: Path) -> None:
    with ModelServer() as server:
        server.always(Turn("Yes."))
        ids = make_homes(root, write_settings(tmp_path, server), "ada")
        with LocalRegistry(root) as registry:
            registry.set_limits(ids["ada"], Limits(disk_mib=1))
        async with host_on(root) as host, host.pool.use(ids["ada"]) as opened:
            assert opened.is_full
            run = await opened.app.send("Hello")
            assert [each.id for each in await opened.app.active_runs("main")] == [run.id]
            assert ids["ada"] in host.engine.suspended
            # More room, and it goes on.
            opened.limits = Limits()
            await host.pool.measure(opened)
            assert ids["ada"] not in host.engine.suspended
            assert (await run.result()).response.content == "Yes."


async def test_a_home_that_is_kept_closed_is_not_let_go_because_it_has_room(
    tmp_path: Path, root: Path
) -> None:
    with ModelServer() as server:
        ids = make_homes(root, write_settings(tmp_path, server), "ada")
        async with host_on(root) as host, host.pool.use(ids["ada"]) as opened:
            host.engine.suspended.add(ids["ada"])  # as a move does
            await host.pool.measure(opened)
            assert ids["ada"] in host.engine.suspended


def test_a_home_that_was_used_since_is_not_evicted(tmp_path: Path, root: Path) -> None:
    with ModelServer() as server:
        id_ = make_homes(root, write_settings(tmp_path, server), "ada")["ada"]
    with LocalRegistry(root) as registry:
        registry.note_opening(id_)
        registry.note_closed(id_, is_copied=True)
        assert [each.id for each in registry.find_cold(-1, 10)] == [id_]
        registry.note_opening(id_)
        assert not registry.note_evicted(id_)
        registry.note_closed(id_, is_copied=False)
        assert not registry.note_evicted(id_)
        registry.note_opening(id_)
        registry.note_closed(id_, is_copied=True)
        assert registry.note_evicted(id_)


async def test_what_a_killed_host_had_accepted_and_not_handed_over_is_answered(
    tmp_path: Path, root: Path
) -> None:
    with ModelServer() as server:
        server.always(Turn("Yes."))
        ids = make_homes(root, write_settings(tmp_path, server), "ada")
        async with host_on(root) as host:
            await host.engine.drain()
            async with host.pool.use(ids["ada"]) as opened:
                await opened.app.send("Hello")
        # What a kill leaves between the ledger's write and the engine's.
        remove_scope(Settings(database=root / "engine.db", scope=ids["ada"]))
        with LocalRegistry(root) as registry:
            registry.note_opening(ids["ada"])
        # Nobody asks for the home: the host opens it by itself.
        async with (
            host_on(root),
            Ledgers(Home(root / "homes" / "ada"), LedgersConfig()) as beside,
            asyncio.timeout(120),
        ):
            said: list[tuple[str]] = []
            while len(said) < 2:
                said = await beside.events.read(sql.rows, "SELECT content FROM events ORDER BY seq")
                await asyncio.sleep(0.05)
            assert said == [("Hello",), ("Yes.",)]


async def test_only_what_was_open_is_opened_at_the_next_start(tmp_path: Path, root: Path) -> None:
    with ModelServer() as server:
        ids = make_homes(root, write_settings(tmp_path, server), "ada", "bob", "eve")
        async with host_on(root) as host, host.pool.use(ids["ada"]) as ada:
            assert host.registry.find_left_open() == [ids["ada"]]
            # What is being embedded, or handed over, when it closes is looked after at the next start.
            await until(lambda: ada.app.is_settled and not ada.app.embedding.is_behind)
        # What it may still have had to do would open it.
        remove_scope(Settings(database=root / "engine.db", scope=ids["ada"]))
        with LocalRegistry(root) as registry:
            assert registry.find_left_open() == []
            registry.note_opening(ids["bob"])
        async with host_on(root) as host:
            await until(lambda: ids["bob"] in host.pool)
            assert [id_ in host.pool for id_ in ids.values()] == [False, True, False]


async def test_a_removed_home_leaves_nothing(tmp_path: Path, root: Path) -> None:
    with ModelServer() as server:
        server.always(Turn("Yes."))
        ids = make_homes(root, write_settings(tmp_path, server), "ada", "bob")
        async with host_on(root) as host:
            for id_ in ids.values():
                await ask(host, id_, "Hello")
        with LocalRegistry(root) as registry:
            token = registry.new_token(ids["ada"], "full")
            homes.remove(registry, registry.get_named("ada"))
            assert registry.grant(token) is None
        assert [place.name for place in (root / "homes").iterdir()] == ["bob"]
        database = Database(Settings(database=root / "engine.db"))
        for table, column in (
            ("workflow_status", "workflow_uuid"),
            ("nexus_schedules", "name"),
        ):
            rows = database.fetch(database.sql(f"SELECT {column} FROM {{t}}{table}"))
            assert all(row[0].startswith(ids["bob"]) for row in rows)
        database.close()


def written(home: Home) -> dict[str, bytes]:
    """The ledgers and what was committed to each since; an empty log is none."""
    files = (file for file in home.data.iterdir() if not file.name.endswith("-shm"))
    return {file.name: content for file in files if (content := file.read_bytes())}


@pytest.mark.parametrize("ledger", LEDGERS)
async def test_a_home_that_a_newer_program_wrote_is_refused_and_left_as_it_is(
    tmp_path: Path, root: Path, ledger: str
) -> None:
    with ModelServer() as server:
        ids = make_homes(root, write_settings(tmp_path, server), "ada")
        home = Home(root / "homes" / "ada")
        with closing(apsw.Connection(str(home.ledger(ledger)))) as connection:
            newer = migrate.latest(ledger) + 1
            connection.execute("INSERT INTO schema_migrations (version, name) VALUES (?, 'later')", (newer,))
            connection.pragma("user_version", newer)
        before = written(home)
        async with host_on(root) as host:
            with pytest.raises(HomeAwayError):
                async with host.pool.use(ids["ada"]):
                    pass
            problem = host.registry.get_named("ada").problem
        assert problem == f"The {ledger} ledger has schema {newer}; this version supports up to {newer - 1}"
        assert written(home) == before
