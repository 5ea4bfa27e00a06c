"""The verbs of the memory over HTTP: reflect, refresh, remember, correct, forget, remind."""

from dataclasses import replace

import pytest

from gateways import gateway_on
from nexus import App, Client, Home, NexusError, Query, UnusableAnswerError, UsageError
from nexus.config import EngineConfig
from nexus.testing import ModelServer
from unit.roles.consolidation.scene import learn, steady
from unit.roles.reflection.test_reflection import QUESTION, TEA, cites_all, search


async def test_the_verbs_of_the_memory_work_over_http(home: Home, server: ModelServer) -> None:
    server.script(search(), cites_all, search("mental_models"), search(), cites_all, "Tea.", "Tea.")
    config = replace(steady(server), engine=EngineConfig(lease_ms=30_000))
    async with (
        App(home, config) as app,
        gateway_on(app) as http,
        Client(str(http.base_url), home.token()) as client,
    ):
        (fact,) = await learn(app, TEA)
        first = await client.reflect(QUESTION, save_as="Tyler and tea")
        assert [(source.id, source.text) for source in first.sources] == [(fact, TEA)]
        assert first.usage.calls == 2
        assert first.mental_model_id is not None
        second = await client.refresh("Tyler and tea")
        assert second.question == QUESTION
        assert second.mental_model_id != first.mental_model_id
        with pytest.raises(UnusableAnswerError, match="without searching"):
            await client.reflect("Which tea?")
        with pytest.raises(UsageError, match="Unknown mental model"):
            await client.refresh("Nobody's tea")

        stored = await client.remember("Tyler keeps the tea in a tin", about="Tyler", confidence=0.9)
        by = await client.correct(stored.id, "Tyler keeps the tea in a jar", how="corrected", by="ada")
        assert by.replaces == (stored.id,)
        query = Query(text="Where does Tyler keep the tea?", kinds=frozenset({"fact"}), entity_id="Tyler")
        found = [match.item.id for match in (await client.recall(query, limit=2)).results]
        assert len(found) == 2
        assert by.id in found
        assert stored.id not in found
        replaced = await client.recall("tea in a tin", about="Tyler", kinds=["fact"])
        old = next(match.item for match in replaced.results if match.item.id == stored.id)
        assert old.replaced_by is not None
        assert (old.replaced_by.id, old.replaced_by.how) == (by.id, "corrected")

        assert (await client.forget_fact(by.id)).removed["memory.facts"] >= 1
        erased = await client.forget("Tyler")
        assert erased.forget_id
        assert (await client.recall("tea", kinds=["fact"])).results == ()
        with pytest.raises(NexusError):
            await client.forget("Tyler")

        draft = await client.draft_reminder("tomorrow at 9 water the tea plant")
        reminder = await client.remind(draft, session_label="garden")
        assert reminder.text == "water the tea plant"
        assert await client.list_reminders() == await app.list_reminders() == [reminder]
