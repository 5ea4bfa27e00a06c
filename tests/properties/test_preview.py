"""What a preview says equals what happens when the change is made; and the preview writes nothing.

NEXUS_LONG=1 makes fifty changes, and compares all prompts of a month.
"""

import asyncio
import random
import shutil
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


@pytest.mark.parametrize("number", range(times(1, long=20)))
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
        # A forget would delete the message, too, which was given the fact.
        preview.decide(fact, "reject", _OWNER)
        if number % 2
        else preview.correct(fact, f"{text}{_LATER}", _OWNER)
    )

    async def send(home: Home) -> tuple[str, ...]:
        async with App(home, config) as app:
            result = await (await app.send(asked, session_label="asked")).result()
            restored = await requests.restore(app.ledgers, result.request_id)
        assert restored is not None
        return preview.strip_ids(str(restored.enrichment.get("memories") or ""))

    before = await send(homes[0])
    with backup.private_copy(homes[0]) as copy:
        found = await preview.preview(copy, config, change, days=1, open_=open_vectors)
    async with Ledgers(homes[1], config.ledgers) as ledgers:
        await change.make(ledgers)
        await open_vectors(ledgers)
    after = await send(homes[1])
    said = [(each.before, each.after) for each in found.differences if each.text == asked]
    assert said == ([(before, after)] if set(before) != set(after) else [])
    assert number or before != after
