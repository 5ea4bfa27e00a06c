"""The memory as programs elsewhere use it."""

import time
from pathlib import Path

from embedders import Hashes
from nexus.app import App
from nexus.config import Config
from nexus.engine import Engine, Jobs, Settings
from nexus.gateway.mcp.mind import Mind
from nexus.home import Home
from nexus.memory.embedding.background import Background
from nexus.memory.recall import Query


async def test_recall_answers_in_its_time_while_much_waits_to_be_embedded(home: Home, tmp_path: Path) -> None:
    stuck = Hashes()
    stuck.gate.clear()
    app = App(home, Config(), serve=False)
    app.embedding = Background(
        app.ledgers, Jobs(Engine(Settings(database=tmp_path / "engine.db"))), lambda _: stuck, stuck.model_id
    )
    async with app:
        await app.memory.run("fact", {"fact": "Bo Larsen repairs lighthouse lenses"})
        began = time.monotonic()
        query = Query(text="who repairs lighthouse lenses?", budget="high", deadline_ms=12_000)
        found = await Mind(app, serves=False).recall(query)
        took_s = time.monotonic() - began
        assert (await app.embedding.backlog()).depth == 1
        stuck.gate.set()
    # Whoever waits for the embedder waits for 30 seconds.
    assert took_s < 25
    assert [memory.text for memory in found.memories] == ["Bo Larsen repairs lighthouse lenses"]
    assert "semantic" in found.left_out
