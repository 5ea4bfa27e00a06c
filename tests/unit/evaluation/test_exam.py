"""An exam on the home's own memory: what it finds wrong, that its fixes work, and that it can be repeated."""

import asyncio
import json
import shlex
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from contents import execute
from nexus import ledgers as ledgers_
from nexus.cli import program
from nexus.config import LedgersConfig
from nexus.evaluation import exam
from nexus.evaluation.exam import Result, Standing, choose_sample
from nexus.evaluation.exam_questions import Sampled, make_questions, parse_questions
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import exams
from nexus.ledgers.memory.exams import Finding, Problem
from nexus.memory import succession
from nexus.memory.embedding import Vectors, embed_new
from nexus.memory.operations import Memory
from nexus.memory.recall.recall import Recall
from nexus.memory.writing import Provenance
from nexus.testing import ModelServer
from unit.memory.recall.homes import WordHashes

OWNER = Provenance(actor="person:ada", kind="owner", channel="cli")
PEOPLE = (
    {"operation": "entity", "id": "ruth", "name": "Ruth Hale", "type": "Person", "alias": ["Ruth", "Ruthie"]},
    {"operation": "entity", "id": "tom", "name": "Tom Berg", "type": "Person", "alias": ["Tom"]},
)
FACTS = (
    ("ruth", "Ruth plays the cello in the Leeds orchestra"),
    ("ruth", "Ruthie keeps four bees' nests behind the shed"),
    ("ruth", "Ruthie repairs old radios on Sundays"),
    ("tom", "Tom bakes rye bread every Saturday"),
    ("tom", "Tom is allergic to hazelnuts"),
    ("tom", "Tom has a blue bicycle with 8 gears"),
)


async def learn(ledgers: Ledgers, *facts: tuple[str, str]) -> list[str]:
    operations = [*PEOPLE] if not await ledgers.identity.read(_count_entities) else []
    operations += [{"operation": "fact", "about": about, "fact": text} for about, text in facts]
    answer = await Memory(ledgers).run("batch", {"operations": operations}, OWNER)
    return [each["id"] for each in answer["results"][-len(facts) :]]


def _count_entities(connection: Any) -> int:
    return connection.execute("SELECT count(*) FROM entities").get


async def examine(ledgers: Ledgers, *, embeds: bool = True, **options: Any) -> Result:
    vectors = Vectors(ledgers.embeddings, WordHashes())
    if embeds:
        await embed_new(ledgers, vectors)
    await succession.derive(ledgers, vectors)
    await vectors.mirror.refresh()
    drawn = await exam.draw(ledgers, **options)
    return await exam.examine(
        ledgers, Recall(ledgers, vectors), vectors, drawn, settings={"embedding": "test"}
    )


def problems(result: Result) -> dict[Problem, set[str]]:
    found: dict[Problem, set[str]] = {}
    for each in result.findings:
        found.setdefault(each.problem, set()).add(each.fact_id)
    return found


async def test_an_orderly_memory_passes(opened: Ledgers) -> None:
    await learn(opened, *FACTS)
    result = await examine(opened)
    assert (result.exam.sampled, result.exam.found, result.exam.facts) == (6, 6, 6)
    assert result.findings == []
    assert result.previous is None
    assert not result.is_worse


async def test_an_empty_memory_has_nothing_to_ask(opened: Ledgers) -> None:
    result = await examine(opened)
    assert (result.exam.sampled, result.exam.share, result.findings) == (0, 1.0, [])


async def hide_vector(ledgers: Ledgers, ids: list[str]) -> None:
    await ledgers.embeddings.write(
        lambda c: c.execute("DELETE FROM embeddings WHERE target_id = ?", (ids[3],)).fetchall()
    )


async def misfile(ledgers: Ledgers, ids: list[str]) -> None:
    await learn(ledgers, ("ruth", "Tom sings in the church choir"))


async def break_alias(ledgers: Ledgers, ids: list[str]) -> None:
    await ledgers.identity.write(_drop_alias)


def _drop_alias(connection: Any) -> None:
    keys = (
        "DELETE FROM alias_keys WHERE alias_id IN (SELECT id FROM entity_aliases WHERE normalized = 'ruthie')"
    )
    connection.execute(keys)
    connection.execute("DELETE FROM entity_aliases WHERE normalized = 'ruthie'")


async def contradict(ledgers: Ledgers, ids: list[str]) -> None:
    await learn(ledgers, ("tom", "Tom has a blue bicycle with 9 gears"))


async def lose_source(ledgers: Ledgers, ids: list[str]) -> None:
    learned = {
        "about": "tom",
        "fact": "Tom swims in the lake at dawn",
        "event": "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV",
    }
    await Memory(ledgers).run("fact", learned, Provenance(actor="writer", kind="writer"))


DAMAGES: tuple[tuple[Problem, Callable[[Ledgers, list[str]], Awaitable[None]]], ...] = (
    ("vector", hide_vector),
    ("entity", misfile),
    ("alias", break_alias),
    ("source", lose_source),
)


@pytest.mark.parametrize(("problem", "damage"), DAMAGES)
async def test_damage_is_found_and_its_first_fix_works(
    home: Home,
    problem: Problem,
    damage: Callable[[Ledgers, list[str]], Awaitable[None]],
) -> None:
    async with ledgers_.Ledgers(home, LedgersConfig()) as opened:
        ids = await learn(opened, *FACTS)
        await examine(opened)
        await damage(opened, ids)
        result = await examine(opened, is_new=True, embeds=problem != "vector")
        (finding,) = [each for each in result.findings if each.problem == problem]
        if problem == "vector":
            await _embed_again(opened)
        stored = await opened.memory.read(exams.load_findings, result.exam.id)
        assert finding in stored
    if problem != "vector":  # its fix needs an installed model
        await run(home, finding)
    async with ledgers_.Ledgers(home, LedgersConfig()) as opened:
        assert problem not in problems(await examine(opened, is_new=True))


async def _embed_again(ledgers: Ledgers) -> None:
    from nexus.memory.embedding.job import Pass

    vectors = Vectors(ledgers.embeddings, WordHashes())
    await Pass(ledgers=ledgers, vectors=vectors, whole=True).run()


async def run(home: Home, finding: Finding, number: int = 0) -> None:
    name, *arguments = shlex.split(finding.fixes[number].command)
    assert name == "nexus"
    command = ["--home", str(home.root), *arguments]
    result = await asyncio.to_thread(CliRunner().invoke, program, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output


async def test_every_fix_of_a_contradiction_works(tmp_path: Path, home: Home) -> None:
    async with ledgers_.Ledgers(home, LedgersConfig()) as opened:
        await learn(opened, *FACTS)
        await contradict(opened, [])
        # What the judge links by itself holds no longer; a lost link leaves two facts that do.
        vectors = Vectors(opened.embeddings, WordHashes())
        await embed_new(opened, vectors)
        await succession.derive(opened, vectors)
        await opened.memory.write(lambda c: c.execute("DELETE FROM fact_successions").fetchall())
        await opened.memory.write(
            lambda c: c.execute("UPDATE succession_progress SET position = 100").fetchall()
        )
        (finding,) = (await examine(opened)).findings
        assert finding.problem == "contradiction"
        assert {"8", "9"} <= set(f"{finding.fact} {finding.other_fact}".split())
    for number in range(len(finding.fixes)):
        copied = Home(tmp_path / f"copy-{number}")
        shutil.copytree(home.root, copied.root)
        await run(copied, finding, number)
        async with ledgers_.Ledgers(copied, LedgersConfig()) as opened:
            assert problems(await examine(opened, is_new=True)) == {}


async def test_the_same_sample_is_asked_again_and_shows_a_change(opened: Ledgers) -> None:
    ids = await learn(opened, *FACTS)
    first = await examine(opened, size=4)
    await learn(opened, ("tom", "Tom collects stamps from Peru"))
    await lose_source(opened, ids)
    again = await examine(opened)
    assert again.previous == first.exam
    assert {each.fact_id for each in again.answers} == {each.fact_id for each in first.answers}
    assert not again.is_worse
    await Memory(opened).decide(first.answers[0].fact_id, "reject", OWNER)
    fewer = await examine(opened)
    assert fewer.exam.sampled == 3
    assert fewer.previously_found == 3
    assert not fewer.is_worse
    whole = await examine(opened, is_new=True)
    assert whole.previous is None
    assert whole.exam.sampled == 7
    assert whole.exam.problems == {"source": 1}


async def test_worse_than_before_is_said(home: Home) -> None:
    async with ledgers_.Ledgers(home, LedgersConfig()) as opened:
        await learn(opened, *FACTS)
        await examine(opened)
    execute(home, "memory", "DROP TRIGGER facts_are_not_changed")
    gone = "UPDATE facts SET source_event_id = 'evt_gone', metadata_json = '{}'"
    execute(home, "memory", gone)
    execute(home, "memory", "DROP TRIGGER fact_reviews_are_not_deleted")
    execute(home, "memory", "DELETE FROM fact_reviews")
    async with ledgers_.Ledgers(home, LedgersConfig()) as opened:
        result = await examine(opened)
    assert result.exam.problems == {"source": 6}
    assert result.is_worse


def test_a_sample_has_every_stratum_in_proportion() -> None:
    facts = [
        Standing(
            f"fact_{n}",
            "month" if n % 4 else "older",
            "attribute" if n % 2 else "statement",
            f"ent_{n % 5}",
            "",
        )
        for n in range(1000)
    ]
    chosen = choose_sample(facts, 100)
    assert len({each.id for each in chosen}) == 100
    assert sum(each.age == "older" for each in chosen) in range(24, 27)
    assert sum(each.kind == "attribute" for each in chosen) in range(49, 52)
    assert {each.entity_id for each in chosen} == {f"ent_{n}" for n in range(5)}
    assert choose_sample(facts, 100) == chosen
    assert choose_sample(facts[:5], 100) == facts[:5]


def sampled(text: str, **values: Any) -> Sampled:
    given: dict[str, Any] = {
        "relation_type": None,
        "subject_id": None,
        "entity_ids": frozenset[str](),
        "subject": None,
    }
    return Sampled(id="fact_1", text=text, created_at="2026-05-01", **(given | values))


def test_questions_ask_by_attribute_value_message_and_entity() -> None:
    fact = sampled(
        "Ruth works at Siemens in Munich",
        relation_type="WORKS_AT",
        subject="Ruth",
        names=frozenset({"ruth"}),
        message="I'm fine. My sister Ruth just started at Siemens in Munich! How are you?",
    )
    attribute, value, message, entity = make_questions(fact)
    assert attribute.text.startswith("Ruth works at")
    assert "Munich" in value.text
    assert message.text == "My sister Ruth just started at Siemens in Munich!"
    assert entity.entity == "Ruth"


@pytest.mark.parametrize("text", ["", " ", "的", "🦊", "(((", '"AND" OR NOT', "x" * 50_000])
def test_any_text_gives_a_question(text: str) -> None:
    assert make_questions(sampled(text))


def test_only_numbered_lines_of_notes_that_were_given_are_questions() -> None:
    answer = "Sure!\n1. Where does she work?\n1) Who employs her?\n3. What?\n0. No\n2. When?\n1. a\n1. b"
    assert parse_questions(answer, ["one", "two"]) == {
        "one": ["Where does she work?", "Who employs her?", "a"],
        "two": ["When?"],
    }


def test_the_command_prints_json_and_fails_below_the_minimum(home: Home) -> None:
    facts = [{"operation": "fact", "about": about, "fact": text} for about, text in FACTS]
    given = json.dumps([*PEOPLE, *facts])
    CliRunner().invoke(program, ["--home", str(home.root), "memory", "write", "batch"], input=given)
    command = ["--home", str(home.root), "memory", "exam", "--json"]
    result = CliRunner().invoke(program, command, catch_exceptions=False)
    document = json.loads(result.stdout)
    assert (document["sampled"], document["facts"]) == (6, 6)
    assert result.exit_code == 0
    history = CliRunner().invoke(program, [*command, "--history"], catch_exceptions=False)
    assert [each["id"] for each in json.loads(history.stdout)] == [document["id"]]


def test_a_models_questions_are_estimated_kept_and_paid_for_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAM_KEY", "test-key")
    facts = [{"operation": "fact", "about": about, "fact": text} for about, text in FACTS]
    given = json.dumps([*PEOPLE, *facts])
    CliRunner().invoke(program, ["--home", str(home.root), "memory", "write", "batch"], input=given)
    lines = [f"{number}. What about {text.split()[-1]}?" for number, (_, text) in enumerate(FACTS, start=1)]
    with ModelServer() as server:
        server.script("\n".join(lines))
        home.config_file.write_text(
            f'[providers.test]\nkind = "openai"\nbase_url = "{server.openai_url}"\napi_key = "env:EXAM_KEY"\n'
            '[prices."test/small"]\nfresh_usd = 1000\noutput_usd = 2000\n',
            encoding="utf-8",
        )
        command = ["--home", str(home.root), "memory", "exam", "--json", "--model", "test/small"]
        refused = CliRunner().invoke(program, command, catch_exceptions=False)
        assert refused.exit_code == 1
        assert "1 call" in refused.stderr
        assert "$" in refused.stderr
        assert not server.exchanges

        result = CliRunner().invoke(program, [*command, "--yes"], catch_exceptions=False)
        again = CliRunner().invoke(program, command, catch_exceptions=False)

        assert len(server.exchanges) == 1
    document = json.loads(result.stdout)
    assert document["questioner"] == "test/small"
    assert document["cost_microusd"] > 0
    assert document["previous"] is None
    assert json.loads(again.stdout)["previous"]["id"] == document["id"]
    assert json.loads(again.stdout)["cost_microusd"] == 0
    assert execute(home, "runtime", "SELECT count(*) FROM usage WHERE request_id = 'exam'") == 1
    assert execute(home, "memory", "SELECT count(*) FROM exam_wordings") == len(FACTS)
