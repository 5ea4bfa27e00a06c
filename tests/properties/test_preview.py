"""What a preview says equals what happens when the change is made; and the preview writes nothing.

NEXUS_LONG=1 makes fifty changes, and compares all prompts of a month.
"""

import asyncio
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from apps import settings
from long_form import times
from new_homes import new_home
from nexus import clock
from nexus.app import App, building
from nexus.config import Config, LedgersConfig, MemoryConfig
from nexus.demo.filling import Demo, fill
from nexus.evaluation import preview
from nexus.evaluation.preview import Change, Prompt, Replay
from nexus.home import Home
from nexus.ledgers import Ledgers, backup, forgetting, sql
from nexus.ledgers.runtime import requests
from nexus.memory.embedding import Vectors
from nexus.memory.embedding.background import Open
from nexus.memory.embedding.vectors import Floats
from nexus.memory.profile import OwnerProfile
from nexus.memory.writing import Provenance
from nexus.roles import memory_injection
from nexus.roles.memory_injection import injection
from nexus.testing import ModelServer, Turn
from unit.memory.recall.homes import WordHashes

_CHANGES = times(3, long=50)
_DAYS = times(2, long=30)
_CONFIG = replace(Config(), ledgers=LedgersConfig(synchronous="normal"))
_OWNER = Provenance(actor="person:mira", kind="owner", channel="cli")
_LATER = " and everybody was surprised"


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The demo's month, with vectors."""
    home = new_home(tmp_path_factory.mktemp("demo") / "home")

    async def make() -> None:
        await fill(home, _CONFIG, Demo(seed=7, until=clock.now() - timedelta(minutes=1)))
        async with Ledgers(home, _CONFIG.ledgers) as ledgers:
            await open_vectors(ledgers)

    asyncio.run(make())
    return home


async def open_vectors(ledgers: Ledgers) -> Vectors:
    vectors = Vectors(ledgers.embeddings, WordHashes())
    await preview.update(ledgers, vectors)
    return vectors


def digest(home: Home) -> dict[str, str]:
    """A hash of every file. SQLite's shared memory says who has a file open."""
    return {
        str(path.relative_to(home.root)): sha256(path.read_bytes()).hexdigest()
        for path in home.root.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }


async def draw_change(ledgers: Ledgers, chance: random.Random, kind: str) -> Change:
    """A change of a kind, of something that the home holds."""

    async def one(ledger: str, statement: str) -> str:
        return str(chance.choice(await ledgers[ledger].read(sql.rows, statement))[0])

    standing = "SELECT id FROM facts WHERE id NOT IN (SELECT old_fact_id FROM fact_successions) ORDER BY seq"
    root = "SELECT id FROM entities WHERE merged_into IS NULL ORDER BY id"
    if kind == "correct":
        fact = await one("memory", standing)
        text = await ledgers.memory.read(sql.value, "SELECT fact FROM facts WHERE id = ?", (fact,))
        return preview.correct(fact, f"{text}{_LATER}", _OWNER)
    if kind == "reject":
        return preview.decide(await one("memory", standing), "reject", _OWNER)
    if kind == "merge":
        rows = await ledgers.identity.read(sql.rows, root)
        source, target = chance.sample([str(id_) for (id_,) in rows], 2)
        return preview.operate("merge", {"source": source, "target": target}, _OWNER)
    if kind == "forget fact":
        fact = await one("memory", standing)
        return preview.forget(lambda connection: forgetting.fact(connection, fact))
    if kind == "forget entity":
        entity = await one("identity", root)
        return preview.forget(lambda connection: forgetting.entity(connection, entity))
    thread = await one("events", "SELECT id FROM threads ORDER BY id")
    return preview.forget(lambda connection: forgetting.thread(connection, thread))


_KINDS = ("correct", "forget fact", "merge", "reject", "forget entity", "forget thread")


async def ask(home: Home, *, since: str, until: str) -> tuple[dict[str, Prompt], str]:
    """Replay the requests on a home itself."""
    async with Ledgers(home, _CONFIG.ledgers) as ledgers:
        vectors = await open_vectors(ledgers)
        profile = await OwnerProfile(ledgers).text()
        return await Replay(ledgers, vectors, since=since, until=until).run(), profile


@pytest.mark.parametrize("number", range(_CHANGES))
async def test_what_the_preview_says_is_what_happens(month: Home, tmp_path: Path, number: int) -> None:
    home = Home(tmp_path / "home")
    shutil.copytree(month.root, home.root)
    chance = random.Random(number)
    async with Ledgers(home, _CONFIG.ledgers) as ledgers:
        change = await draw_change(ledgers, chance, _KINDS[number % len(_KINDS)])
    untouched = digest(home)

    with backup.private_copy(home) as copy:
        found = await preview.preview(copy, _CONFIG, change, days=_DAYS, open_=open_vectors)
    assert digest(home) == untouched

    before, profile_before = await ask(home, since=found.known_since, until=found.until)
    async with Ledgers(home, _CONFIG.ledgers) as ledgers:
        await change.make(ledgers)
    after, profile_after = await ask(home, since=found.known_since, until=found.until)
    assert found.differences == preview.compare(before, after)
    assert found.forgotten == len(before.keys() - after.keys())
    assert (found.profile_before, found.profile_after) == (profile_before, profile_after)


def make_opener(_: MemoryConfig) -> Open:
    def open_model(_: str | None) -> WordHashes:
        return WordHashes()

    return open_model


@pytest.mark.parametrize("number", range(times(2, long=21)))
async def test_what_the_preview_says_is_what_a_message_is_given(
    month: Home, tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The message is sent before the change, and after it in a copy: not replayed, but asked live."""
    monkeypatch.setattr(memory_injection, "TIMEOUT_MS", 60_000)
    for function in (injection.recall_candidates, injection.find_candidates):
        defaults: dict[str, object] = function.__kwdefaults__ or {}
        monkeypatch.setattr(function, "__kwdefaults__", {**defaults, "deadline_ms": 60_000})
    server.always(Turn("Good."))
    monkeypatch.setattr(building, "make_opener", make_opener)
    config = settings(server)
    chance = random.Random(number)
    homes = [Home(tmp_path / name / "home") for name in ("as-it-was", "changed")]
    for each in homes:
        shutil.copytree(month.root, each.root)
    async with Ledgers(homes[0], config.ledgers) as ledgers:
        standing = "SELECT id, fact FROM facts WHERE id NOT IN (SELECT old_fact_id FROM fact_successions)"
        fact, text = chance.choice(await ledgers.memory.read(sql.rows, standing))
    asked = f"What do you remember of this: {text}?"
    change = (
        preview.forget(lambda connection: forgetting.fact(connection, fact)),
        preview.correct(fact, f"{text}{_LATER}", _OWNER),
        preview.decide(fact, "reject", _OWNER),
    )[number % 3]

    async def send(home: Home) -> tuple[str, tuple[str, ...]]:
        async with App(home, config) as app:
            result = await (await app.send(asked, session_label="asked")).result()
            restored = await requests.restore(app.ledgers, result.request_id)
        assert restored is not None
        return result.request_id, preview.strip_ids(str(restored.enrichment.get("memories") or ""))

    request, before = await send(homes[0])
    if number % 3 == 0:
        # A request that is on record as given the fact goes with it, and has nothing to compare.
        with backup.private_copy(homes[0]) as copy:
            found = await preview.preview(copy, config, change, days=1, open_=open_vectors)
            async with Ledgers(copy, config.ledgers) as ledgers:
                is_gone = await requests.restore(ledgers, request) is None
        assert is_gone == bool(found.forgotten) == any(text in line for line in before)
        async with Ledgers(homes[0], config.ledgers) as ledgers:
            await ledgers.runtime.write(lambda connection: connection.execute("DELETE FROM injections"))
    with backup.private_copy(homes[0]) as copy:
        found = await preview.preview(copy, config, change, days=1, open_=open_vectors)
    async with Ledgers(homes[1], config.ledgers) as ledgers:
        await change.make(ledgers)
        await open_vectors(ledgers)
    _, after = await send(homes[1])
    said = [(each.before, each.after) for each in found.differences if each.text == asked]
    assert said == ([(before, after)] if set(before) != set(after) else [])
    assert number or before != after


async def test_another_embedding_model_searches_after_the_change_alone(
    month: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is embedded again in the copy; the home keeps its vectors and its settings."""

    class Lengths(WordHashes):
        """Finds by the length of words: other memories than by the words themselves."""

        model_id = "lengths@1"

        def embed(self, texts: Sequence[str]) -> Floats:
            return super().embed([" ".join(str(len(word)) for word in text.split()) for text in texts])

    async def open_model(ledgers: Ledgers, memory: MemoryConfig) -> Vectors:
        model = Lengths() if memory.embedding_model == "lengths" else WordHashes()
        return Vectors(ledgers.embeddings, model)

    monkeypatch.setattr(preview, "open_vectors", open_model)
    changed = replace(_CONFIG, memory=replace(_CONFIG.memory, embedding_model="lengths"))
    untouched = digest(month)
    for config, is_other in ((_CONFIG, False), (changed, True)):
        with backup.private_copy(month) as copy:
            found = await preview.preview(copy, _CONFIG, preview.change_settings(config), days=_DAYS)
        assert found.prompts
        assert bool(found.differences) == is_other
    assert digest(month) == untouched
