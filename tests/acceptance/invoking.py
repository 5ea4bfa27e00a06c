"""A process that asks for async invocations and runs them, until it is killed.

    python invoking.py HOME COUNT

It goes on where the one before it was killed. An invocation is asked for under a key, so that asking again
for one that was written down asks for nothing.
"""

import asyncio
import sys
from pathlib import Path

from nexus.automations.automations import Automations
from nexus.automations.context import Context, NoServices, Occasion
from nexus.automations.loading import Plugin
from nexus.config import Config, EngineConfig
from nexus.engine import Engine, Settings
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.request import Agent, Event, Request

_TOGETHER = 25
_SESSIONS = 40


async def _work(ctx: Context) -> dict[str, object]:
    await asyncio.sleep(0.002)
    return {"enrich": {"number": ctx.request.event.content}}


PLUGIN = Plugin(name="worker", hook_point="after:runAgent", description="", run=_work, blocking=False)


async def main(root: str, count: int) -> None:
    home, config = Home(Path(root)), Config(engine=EngineConfig(lease_ms=1_000, synchronous="normal"))
    async with Ledgers(home, config.ledgers) as ledgers:
        engine = Engine(Settings.of_home(home, config.engine))
        automations = Automations(ledgers, config.automations, engine, NoServices())
        await automations.load([PLUGIN])
        await engine.open()
        await automations.start(serve=True)
        sys.stdout.write("serving\n")
        sys.stdout.flush()
        for first in range(0, count, _TOGETHER):
            numbers = range(first, first + _TOGETHER)
            await asyncio.gather(*(_ask(automations, number) for number in numbers))
        await asyncio.Event().wait()


async def _ask(automations: Automations, number: int) -> None:
    request = Request(
        event=Event(content=str(number)), agent=Agent(session_label=f"chat:{number % _SESSIONS}")
    )
    await automations.runner.fire("after:runAgent", Occasion(request=request, key=f"exe_{number:026d}"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
