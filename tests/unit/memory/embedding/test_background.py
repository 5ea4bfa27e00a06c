"""Embedding in a served home: every write is embedded soon, and a new model takes over when complete."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest

from embedders import Hashes
from nexus.errors import ModelFileError
from nexus.ledgers import Ledgers, sql
from nexus.memory.embedding.background import Background, Turns
from nexus.memory.embedding.embedder import Embedder
from nexus.memory.operations import Memory

Models = Callable[[str | None], Embedder]


@asynccontextmanager
async def running(
    opened: Ledgers, models: Models, model_id: str, turns: Turns | None = None
) -> AsyncGenerator[Background]:
    background = Background(opened, models, model_id, turns)
    background.start()
    yield background
    await background.stop()


async def drained(background: Background) -> None:
    async with asyncio.timeout(60):
        while (await background.backlog()).depth:
            await asyncio.sleep(0.02)


def only(embedder: Hashes) -> Models:
    return lambda _: embedder


async def test_what_was_there_and_what_is_written_is_embedded(opened: Ledgers) -> None:
    await Memory(opened).run("fact", {"fact": "written before"})
    embedder = Hashes()
    async with running(opened, only(embedder), "hashes@1") as background:
        await drained(background)
        writer = Memory(opened, enqueue_embedding=_waking(background))
        await writer.run("fact", {"fact": "written meanwhile"})
        await drained(background)

    assert embedder.embedded == ["written before", "written meanwhile"]


async def test_a_process_that_does_not_serve_catches_up_within_its_time(
    opened: Ledgers,
) -> None:
    facts = [{"operation": "fact", "fact": f"fact {n}"} for n in range(600)]
    await Memory(opened).run("batch", facts)
    embedder = Hashes()
    embedder.gate.clear()
    background = Background(opened, only(embedder), "hashes@1")
    for _ in range(2):
        await background.catch_up(0.1)
    assert embedder.embedded == [], "it waited for the gate"
    embedder.gate.set()
    await background.catch_up(60)
    assert (await background.backlog()).depth == 0
    assert len(embedder.embedded) == 600

    await Memory(opened).run("fact", {"fact": "one more"})
    await background.catch_up(60)
    assert embedder.embedded[600:] == ["one more"]
    await background.stop()


async def test_what_is_being_embedded_is_left_when_the_process_ends(opened: Ledgers) -> None:
    await Memory(opened).run("fact", {"fact": "never"})
    embedder = Hashes()
    embedder.gate.clear()
    background = Background(opened, only(embedder), "hashes@1")
    await background.catch_up(0.1)
    await background.stop()
    embedder.gate.set()
    assert (await background.backlog()).depth == 1


@pytest.mark.parametrize("loop_turns", range(2))
async def test_it_stops_also_just_after_it_was_woken(opened: Ledgers, loop_turns: int) -> None:
    background = Background(opened, only(Hashes()), "hashes@1")
    background.start()
    await asyncio.sleep(1)  # It waits for a wake-up by now; on a slower machine less is tested.
    background.wake()
    for _ in range(loop_turns):
        await asyncio.sleep(0)
    stopping = asyncio.create_task(background.stop())
    done, _ = await asyncio.wait({stopping}, timeout=60)
    assert done == {stopping}


async def test_each_portion_lets_others_pass(opened: Ledgers) -> None:
    """Long texts are embedded a few at a time, and others may go ahead before each few."""
    facts = [{"operation": "fact", "fact": f"{n} " + "long " * 400} for n in range(12)]
    await Memory(opened).run("batch", facts)
    embedder, embedded_before = Hashes(), list[int]()

    async def let_pass() -> None:
        embedded_before.append(len(embedder.embedded))

    async with running(opened, only(embedder), "hashes@1", Turns(let_pass=let_pass)) as background:
        await drained(background)
    assert embedded_before[:2] == [0, 8]
    assert len(embedder.embedded) == 12


async def test_a_burst_is_embedded_once(opened: Ledgers) -> None:
    embedder = Hashes()
    async with running(opened, only(embedder), "hashes@1") as background:
        writer = Memory(opened, enqueue_embedding=_waking(background))
        await writer.run("batch", [{"operation": "fact", "fact": f"fact {n}"} for n in range(3_000)])
        for number in range(20):
            await writer.run("fact", {"fact": f"single {number}"})
        await drained(background)

    assert len(embedder.embedded) == len(set(embedder.embedded)) == 3_020


async def test_the_old_model_serves_until_the_new_one_is_complete(opened: Ledgers) -> None:
    old, new = Hashes("old@1"), Hashes("new@1")
    await Memory(opened).run("fact", {"fact": "Ann grows tomatoes"})
    async with running(opened, only(old), "old@1") as background:
        await drained(background)
    new.gate.clear()
    async with running(opened, lambda id_: old if id_ == "old@1" else new, "new@1") as background:
        before = await background.vectors()
        await before.mirror.refresh()
        assert (before.embedder, len(before.mirror)) == (old, 1)
        new.gate.set()
        async with asyncio.timeout(60):
            while (await background.vectors()).embedder is old:
                await asyncio.sleep(0.02)
        after = await background.vectors()
        await after.mirror.refresh()
        assert (after.embedder, len(after.mirror)) == (new, 1)


async def test_what_is_written_during_a_change_of_model_is_found_by_meaning(opened: Ledgers) -> None:
    old, new = Hashes("old@1"), Hashes("new@1")
    await Memory(opened).run("fact", {"fact": "written before"})
    async with running(opened, only(old), "old@1") as background:
        await drained(background)
    new.gate.clear()
    async with running(opened, lambda id_: old if id_ == "old@1" else new, "new@1") as background:
        await Memory(opened).run("fact", {"fact": "written meanwhile"})
        serving = await background.vectors()
        async with asyncio.timeout(60):
            while len(serving.mirror) < 2:
                await asyncio.sleep(0.02)
                await serving.mirror.refresh()
        found = await background.backlog()
        assert serving.embedder is old
        assert (found.changes_model, found.embedded, found.total) == (True, 0, 2)
        new.gate.set()
        await _serves(background, new)
        after = await background.vectors()
        await after.mirror.refresh()
        assert len(after.mirror) == 2
        assert not (await background.backlog()).changes_model


async def test_a_change_of_model_goes_on_without_the_old_one(opened: Ledgers) -> None:
    old, new = Hashes("old@1"), Hashes("new@1")
    await Memory(opened).run("fact", {"fact": "Ann grows tomatoes"})
    async with running(opened, only(old), "old@1") as background:
        await drained(background)

    def without_old(model_id: str | None) -> Embedder:
        if model_id == "old@1":
            raise ModelFileError("The files are not on this machine")
        return new

    async with running(opened, without_old, "new@1") as background:
        await _serves(background, new)
    assert new.embedded == ["Ann grows tomatoes"]


async def test_the_build_that_is_opened_gives_the_vectors_their_id(opened: Ledgers) -> None:
    await Memory(opened).run("fact", {"fact": "Ann grows tomatoes"})
    async with running(opened, only(Hashes("model@converted")), "model@preferred") as background:
        await _serves(background, None)
        assert background.model_id == "model@converted"
        await drained(background)


async def test_without_the_model_writes_go_on_and_wait(opened: Ledgers) -> None:
    def none(model_id: str | None) -> Embedder:
        raise ModelFileError("The files are not on this machine")

    async with running(opened, none, "hashes@1") as background:
        writer = Memory(opened, enqueue_embedding=_waking(background))
        await writer.run("fact", {"fact": "Ann grows tomatoes"})
        with pytest.raises(ModelFileError):
            await background.vectors()
        assert (await background.backlog()).depth == 1


class Broken(Hashes):
    """Fails on some texts, and with `fails` on every one."""

    fails = False

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if self.fails or any("poison" in text for text in texts):
            raise RuntimeError(f"cannot embed {len(texts)} texts")
        return super().embed(texts)


async def test_a_text_that_the_model_fails_on_does_not_hold_up_the_others(opened: Ledgers) -> None:
    names = ["poison", *(f"fact {n}" for n in range(300)), "more poison"]
    await Memory(opened).run("batch", [{"operation": "fact", "fact": name} for name in names])
    async with running(opened, only(Broken()), "hashes@1") as background:
        await drained(background)
        while background.is_behind:
            await asyncio.sleep(0.02)
        vectors = await background.vectors()
        await vectors.mirror.refresh()
        assert len(vectors.mirror) == 300
    assert await opened.embeddings.read(sql.value, sql.queries("embeddings")["failed"]) == 2
    # A later start tries them again.
    async with running(opened, only(Hashes()), "hashes@1") as background:
        async with asyncio.timeout(60):
            while await opened.embeddings.read(sql.value, sql.queries("embeddings")["failed"]):
                await asyncio.sleep(0.02)
        vectors = await background.vectors()
        await vectors.mirror.refresh()
        assert len(vectors.mirror) == 302


async def test_a_model_that_fails_is_tried_again_without_a_further_write(opened: Ledgers) -> None:
    await Memory(opened).run("fact", {"fact": "Ann grows tomatoes"})
    embedder = Broken()
    embedder.fails = True
    async with running(opened, only(embedder), "hashes@1") as background:
        await asyncio.sleep(0.3)
        assert (await background.backlog()).depth == 1
        assert background.is_busy
        embedder.fails = False
        await drained(background)
        async with asyncio.timeout(60):
            while background.is_behind:
                await asyncio.sleep(0.02)
    assert embedder.embedded == ["Ann grows tomatoes"]


async def test_a_process_that_stands_by_embeds_once_the_work_is_its_own(opened: Ledgers) -> None:
    await Memory(opened).run("fact", {"fact": "Ann grows tomatoes"})
    embedder, owns = Hashes(), list[bool]()
    turns = Turns(may_run=lambda: bool(owns))
    async with running(opened, only(embedder), "hashes@1", turns) as background:
        await asyncio.sleep(0.2)
        assert embedder.embedded == []
        assert not background.is_busy
        owns.append(True)
        await drained(background)


async def test_what_is_left_when_a_home_closes_is_embedded_by_the_next_process(opened: Ledgers) -> None:
    stuck, embedder = Hashes(), Hashes()
    stuck.gate.clear()
    async with running(opened, only(stuck), "hashes@1") as background:
        await Memory(opened, enqueue_embedding=_waking(background)).run(
            "fact", {"fact": "Ann grows tomatoes"}
        )
        assert background.is_busy
    assert background.is_behind
    stuck.gate.set()
    async with running(opened, only(embedder), "hashes@1") as background:
        await drained(background)
    assert embedder.embedded == ["Ann grows tomatoes"]


async def _serves(background: Background, embedder: Embedder | None) -> None:
    """Wait until the model that searches use is the chosen one, or the given one."""
    async with asyncio.timeout(60):
        while True:
            found = await background.backlog()
            vectors = await background.vectors()
            if not found.changes_model and found.serving_model_id and embedder in {None, vectors.embedder}:
                return
            await asyncio.sleep(0.02)


def _waking(background: Background) -> Callable[[str, list[str]], Awaitable[None]]:
    async def enqueue(kind: str, ids: list[str]) -> None:
        background.wake()

    return enqueue
