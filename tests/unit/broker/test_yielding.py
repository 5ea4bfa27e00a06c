"""A person's message never waits for the memory: on a server with one slot, background work makes way."""

import asyncio
from dataclasses import replace

from memory_writers import extracted, facts, invocations, is_extractor, quiet, rows, with_writer
from nexus.app import App
from nexus.home import Home
from nexus.runs import Delta
from nexus.testing import Hold, ModelServer, Profile, Turn

_FACT = extracted(("Clara", "Clara moved to Bern"))
_ONE_SLOT = Profile(slots=1, context_tokens=32_000)


async def _deltas(app: App, text: str) -> list[Delta]:
    return [delta async for delta in (await app.send(text)).deltas()]


def _text(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if delta.kind == "text")


async def test_a_message_cancels_the_memory_writer_at_the_server_and_the_writer_runs_again(
    home: Home,
) -> None:
    with ModelServer(profile=_ONE_SLOT) as server:
        server.when(is_extractor).script(Turn(_FACT, faults=[Hold(gate="writer", after_deltas=1)])).always(
            _FACT
        )
        server.always("Noted.")
        config = with_writer(server, "openai", mode="structured", quiet_ms=0)
        # Enough for all that is used, but not beside what the writer reserves.
        config = replace(config, budgets=replace(config.budgets, day_tokens=5_000))
        async with App(home, config) as app:
            await _deltas(app, "My sister Clara moved to Bern.")
            await server.until(lambda: server.gate("writer").waiting)

            tokens = "SELECT sum(input_tokens + output_tokens) FROM"
            ((used,),) = await rows(app, "runtime", f"{tokens} usage")
            ((held,),) = await rows(app, "runtime", f"{tokens} reservations")
            assert used < 5_000 <= used + held

            async with asyncio.timeout(60):
                shown = await _deltas(app, "And what is new?")
            assert _text(shown) == "Noted."
            held = next(each for each in server.exchanges if is_extractor(each.request))
            await server.until(lambda: held.answer.outcome == "hung_up")
            waited = [delta.doing for delta in shown if delta.kind == "status"]
            assert waited[0] == "waiting for the model (memory writer)"
            assert waited[-1].startswith("reading ")

            await quiet(app)
            assert await facts(app) == ["Clara moved to Bern"]
            assert {run["status"] for run in await invocations(app)} == {"done"}
            whole = [each for each in server.exchanges if each.answer.outcome == "complete"]
            counted = await rows(app, "runtime", "SELECT count(*) FROM usage")
            assert counted == [(len(whole),)], "what was canceled counts as no call"
            assert await rows(app, "runtime", "SELECT max(attempts) FROM invocations") == [(0,)]


async def test_the_memory_writer_waits_for_a_quiet_moment_also_across_a_restart(home: Home) -> None:
    begun = "SELECT id FROM executions WHERE session_label LIKE 'meeseeks:%' AND status = 'running'"
    with ModelServer(profile=_ONE_SLOT) as server:
        server.when(is_extractor).always(_FACT)
        server.always("Noted.")
        config = with_writer(server, "openai", mode="structured", quiet_ms=3_600_000)
        async with App(home, config) as app:
            assert _text(await _deltas(app, "My sister Clara moved to Bern.")) == "Noted."
            async with asyncio.timeout(60):
                while not (found := await rows(app, "runtime", begun)):
                    await asyncio.sleep(0.05)
                async for delta in app.streams.subscribe(str(found[0][0])):
                    if delta.doing.startswith("waiting for the model"):
                        break
            assert _text(await _deltas(app, "What is new?")) == "Noted."
            assert not [each for each in server.requests if is_extractor(each)]
        async with App(home, replace(config, agents=replace(config.agents, quiet_ms=0))) as app:
            await quiet(app)
            assert await facts(app) == ["Clara moved to Bern"]
