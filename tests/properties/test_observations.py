"""Whatever a model answers, in whatever order: every link leads to a fact, and versions form chains."""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from new_homes import new_home
from nexus.config import LedgersConfig
from nexus.errors import UnusableAnswerError
from nexus.ledgers import Ledgers, memory
from nexus.ledgers.memory import NewFact
from nexus.memory.conclusions import batches, observations
from nexus.memory.conclusions.batches import Limits
from nexus.roles import consolidation

LATER = "9999-01-01T00:00:00.000Z"
NOW = "2026-05-01T10:00:00.000Z"

_numbers = st.lists(st.integers(0, 9), max_size=5)
_observation = st.tuples(
    st.sampled_from(["A.", "B.", ""]), _numbers, st.sampled_from(["O1", "O2", "O9", None])
)


def _answer(observations: list[tuple[str, list[int], str | None]], nothing_new: list[int]) -> dict[str, Any]:
    made = [{"text": text, "facts": facts, "revises": revises} for text, facts, revises in observations]
    return {"observations": made, "nothing_new": nothing_new}


_answers = st.builds(_answer, st.lists(_observation, max_size=3), _numbers)
_rounds = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), _answers), min_size=1, max_size=6)


async def _play(opened: Ledgers, rounds: list[tuple[int, int, dict[str, Any]]]) -> None:
    for number, (learned, who, given_answer) in enumerate(rounds):
        new = [NewFact(fact=f"f{number}.{n}", source_entity_id=f"ent_{who}") for n in range(learned)]
        await opened.memory.write(memory.append_facts, facts=new)
        batch, _ = await batches.choose(opened, Limits(facts=4, tokens=500), until=LATER)
        if batch is None:
            continue
        try:
            found = consolidation.read_answer(json.dumps(given_answer), batch).conclusions
        except UnusableAnswerError as error:
            await observations.set_aside(
                opened, batch.fact_ids[:1], reason=error.message, request_id=None, now=NOW
            )
            continue
        for _ in range(2):  # as after a crash: the second time nothing is recorded
            await observations.record(opened, batch, found, name=f"exe_{number}", request_id="req_1", now=NOW)


async def _counted(opened: Ledgers, query: str) -> int:
    return await opened.memory.read(lambda c: cast("int", c.execute(f"SELECT count(*) FROM {query}").get))


async def _checked(root: Path, rounds: list[tuple[int, int, dict[str, Any]]]) -> None:
    home = new_home(root)
    async with Ledgers(home, LedgersConfig(synchronous="normal")) as opened:
        await _play(opened, rounds)
        loose = "observation_facts WHERE fact_id NOT IN (SELECT id FROM facts)"
        assert await _counted(opened, loose) == 0
        bare = "observations WHERE id NOT IN (SELECT observation_id FROM observation_facts)"
        assert await _counted(opened, bare) == 0
        broken = (
            "observations AS o LEFT JOIN observations AS p ON p.id = o.previous_version_id "
            "WHERE o.version <> coalesce(p.version, 0) + 1"
        )
        assert await _counted(opened, broken) == 0
        forked = (
            "(SELECT 1 FROM observations WHERE previous_version_id IS NOT NULL "
            "GROUP BY previous_version_id HAVING count(*) > 1)"
        )
        assert await _counted(opened, forked) == 0
        lost = (
            "observations AS o JOIN observation_facts AS f ON f.observation_id = o.previous_version_id "
            "WHERE (o.id, f.fact_id) NOT IN (SELECT observation_id, fact_id FROM observation_facts)"
        )
        assert await _counted(opened, lost) == 0
        linked = "SELECT fact_id FROM observation_facts"
        done = f"processing_log WHERE status = 'done' AND target_id NOT IN ({linked})"
        assert await _counted(opened, done) == 0


@settings(max_examples=25, deadline=None)
@given(_rounds)
def test_links_lead_to_facts_and_versions_form_chains(rounds: list[tuple[int, int, dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(_checked(Path(root) / "home", rounds))
