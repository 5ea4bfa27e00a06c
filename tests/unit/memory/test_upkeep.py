"""The memory's schedules run on the engine and do their work."""

import asyncio
from datetime import UTC, datetime, timedelta

import apsw

from nexus.config import LedgersConfig
from nexus.engine import Engine, Schedules, Settings
from nexus.home import Home
from nexus.ledgers import Ledgers, events
from nexus.ledgers.events import NewEvent
from nexus.memory.upkeep import Upkeep


async def _episodes(ledgers: Ledgers) -> int:
    return await ledgers.memory.read(lambda c: c.execute("SELECT count(*) FROM episodes").get)


async def test_a_conversation_that_is_over_becomes_an_episode_by_itself(home: Home) -> None:
    async with Ledgers(home, LedgersConfig()) as ledgers:
        long_ago = datetime(2026, 2, 13, 10, tzinfo=UTC)

        def say(connection: apsw.Connection) -> None:
            thread_id = events.ensure_thread(connection, channel="cli", external_id="t")
            said = [
                NewEvent(channel="cli", content=text, thread_id=thread_id, occurred_at=long_ago)
                for text in ("Hello", "Good morning")
            ]
            events.append(connection, said)

        await ledgers.events.write(say)
        engine = Engine(Settings(database=home.engine_file))
        upkeep = Upkeep(ledgers, engine)
        async with engine:
            await upkeep.schedule()
            due = datetime.now(UTC) + timedelta(minutes=11)
            schedules = Schedules(engine.database, engine.settings.version)
            assert await asyncio.to_thread(schedules.start_due, int(due.timestamp() * 1000)) >= 1
            engine.announce()
            async with asyncio.timeout(30):
                while not await _episodes(ledgers):
                    await asyncio.sleep(0.05)
