"""Backfill: imported conversations are read once each, in the chosen order, as what was said in the past."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apps import MODEL
from memory_writers import extracting, is_extractor, rows, with_writer
from nexus.app import App
from nexus.config import LedgersConfig, PriceConfig
from nexus.errors import ConfigError, UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers, forgetting
from nexus.ledgers.memory.backfills import Limits
from nexus.memory import succession
from nexus.memory.embedding import Vectors, embed_new
from nexus.roles import backfill as backfilling
from nexus.testing import Hold, HttpError, ModelRequest, ModelServer, Rule, Turn
from unit.history.exports import bring
from unit.memory.recall.homes import WordHashes

_LINE = re.compile(r"^\[(\d+)\] [^\n]*?\d\d:\d\d: (.*)$", re.MULTILINE)
_HELD = re.compile(r"(\w+)(?:'s GP is| lives in| plays) [\w ]+?(?=[.,])")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.always("Noted.")
        yield server


@pytest.fixture(autouse=True)
def extractor(server: ModelServer) -> Rule:
    """What the model says that reads; what a test scripts here comes first."""
    return server.when(is_extractor).always(_answer)


def _answer(request: ModelRequest) -> Turn:
    """What a good model finds: every sentence that says where somebody lives or what they play."""
    facts = [
        {"message": int(number), "about": found[1], "fact": found[0]}
        for number, text in _LINE.findall(request.last_user)
        for found in _HELD.finditer(text)
    ]
    return Turn(json.dumps({"people": [], "facts": facts}))


def _said(number: int, text: str, day: int, role: str = "user") -> dict[str, Any]:
    at = datetime(2021, 1, 1, 12, tzinfo=UTC).timestamp() + day * 86_400
    return {"id": f"m{number}", "thread": f"t{day}", "role": role, "text": text, "time": at}


def _history(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def _days(path: Path, count: int) -> Path:
    towns = ["Ghent", "Turin", "Porto", "Malmo", "Krakow"]
    lines = [
        _said(day, f"My friend Elin lives in {towns[day % 5]}, and day {day} was long.", day)
        for day in range(count)
    ]
    return _history(path / "days.jsonl", *lines)


async def _until(done: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1_200):
        if await done():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it takes too long")


async def _ended(app: App, *statuses: str) -> None:
    async def is_over() -> bool:
        found = await app.backfill.latest()
        return found is not None and found.status in (statuses or ("done",))

    await _until(is_over)


async def _read(app: App, count: int) -> None:
    async def is_read() -> bool:
        found = await app.backfill.latest()
        return found is not None and found.progress.done == count

    await _until(is_read)


async def _facts(app: App) -> list[tuple[Any, ...]]:
    return await rows(app, "memory", "SELECT fact, as_of, source_event_id FROM facts ORDER BY seq")


async def test_imported_conversations_are_read_newest_first_as_of_their_time(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    async with extracting(home, server) as app:
        await bring(app.ledgers, _days(tmp_path, 6))
        started = await app.backfill.start(limits=Limits(episodes_an_hour=1_000_000))
        await _ended(app)
        found, done = await _facts(app), await app.backfill.get(started.id)
        events = dict(await rows(app, "events", "SELECT id, occurred_at FROM events"))
    assert [each[1][:10] for each in found] == [f"2021-01-0{day}" for day in (6, 5, 4, 3, 2, 1)]
    assert all(events[event] == as_of for _, as_of, event in found)
    assert (done.progress.done, done.progress.facts, done.progress.waiting) == (6, 6, 0)
    assert done.progress.cost_microusd == 0
    assert done.progress.tokens > 0


async def test_a_later_statement_supersedes_an_earlier_one_that_is_read_after_it(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    path = _history(
        tmp_path / "a.jsonl",
        _said(1, "Ruth's GP is Dr Osei at Bentcliffe Surgery.", 1),
        _said(2, "Ruth's GP is now Dr Lindley at Bentcliffe Surgery.", 400),
    )
    async with extracting(home, server) as app:
        await bring(app.ledgers, path)
        await app.backfill.start(sort="newest", limits=Limits(episodes_an_hour=1_000_000))
        await _ended(app)
        order = [each[0] for each in await _facts(app)]
    # A home that is served judges with its own embedder, and drops what another one judged.
    async with Ledgers(home, LedgersConfig()) as ledgers:
        vectors = Vectors(ledgers.embeddings, WordHashes())
        await embed_new(ledgers, vectors)
        await succession.derive(ledgers, vectors)
        links = await ledgers.memory.read(
            lambda connection: connection.execute(
                """SELECT old.fact, new.fact FROM fact_successions
                JOIN facts AS old ON old.id = old_fact_id JOIN facts AS new ON new.id = new_fact_id"""
            ).fetchall()
        )
    old, new = (
        "Ruth's GP is Dr Osei at Bentcliffe Surgery",
        "Ruth's GP is now Dr Lindley at Bentcliffe Surgery",
    )
    assert order == [new, old]
    assert links == [(old, new)]


async def test_an_older_statement_does_not_replace_what_the_profile_says(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    path = _history(tmp_path / "a.jsonl", _said(1, "My friend Elin lives in Ghent.", 1))
    async with extracting(home, server) as app:
        await app.remember("Elin lives in Turin", as_of="2025-01-01T00:00:00Z")
        await app.conclusions.consolidate()
        await bring(app.ledgers, path)
        await app.backfill.start()
        await _ended(app)
        stated = await rows(app, "memory", "SELECT * FROM causal_links")
    assert stated == []


async def test_an_estimate_after_a_sample_comes_near_the_bill(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    config = replace(
        with_writer(server, "openai", mode="structured"),
        prices={MODEL: PriceConfig(fresh_usd=3.0, cached_usd=0.3, output_usd=15.0)},
    )
    async with App(home, config) as app:
        await bring(app.ledgers, _days(tmp_path, 60))
        before = await app.backfill.estimate()
        assert (before.episodes, before.messages, before.calls, before.measured) == (60, 60, 60, 0)
        sample = await app.backfill.sample()
        assert len(sample) == 20
        assert all(len(each.facts) == 1 for each in sample)
        assert await _facts(app) == []
        asked = len(server.exchanges)
        after = await app.backfill.estimate()
        assert after.measured == 20
        await app.backfill.start()
        await _ended(app)
        done = await app.backfill.latest()
    assert done is not None
    # What the sample asked was not asked again.
    assert (asked, len(server.exchanges)) == (20, 60)
    assert done.progress.done == done.progress.facts == 60
    assert after.tokens == pytest.approx(done.progress.tokens, rel=0.15)
    assert after.cost_microusd == pytest.approx(done.progress.cost_microusd, rel=0.15)


async def test_messages_of_bots_and_assistants_are_no_sources(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    mail = (
        "From x\nFrom: News <no-reply@shop.example>\nTo: me@example.com\nSubject: Sale\n"
        "Date: Thu, 02 Jan 2020 10:00:00 +0000\nMessage-ID: <1@shop.example>\n"
        "List-Unsubscribe: <https://shop.example>\n\nElin lives in Ghent.\n"
    )
    (tmp_path / "a.mbox").write_text(mail)
    path = _history(tmp_path / "b.jsonl", _said(1, "Elin plays the harp.", 1, role="assistant"))
    async with extracting(home, server) as app:
        await bring(app.ledgers, tmp_path / "a.mbox", owner=("me@example.com",))
        await bring(app.ledgers, path)
        await app.backfill.start()
        await _ended(app)
        done = await app.backfill.latest()
    assert done is not None
    assert (done.progress.skipped, done.progress.facts) == (2, 0)
    assert server.exchanges == []


async def test_a_backfill_pauses_at_its_budget_and_goes_on_with_another(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    async with extracting(home, server) as app:
        await bring(app.ledgers, _days(tmp_path, 12))
        await app.backfill.start(limits=Limits(budget_tokens=1))
        await _ended(app, "paused")
        paused = await app.backfill.latest()
        assert paused is not None
        assert paused.reason == "its budget of 1 tokens is used up"
        assert 0 < paused.progress.done < 12
        await app.backfill.resume(Limits())
        await _ended(app)
        assert len(await _facts(app)) == 12


async def test_only_one_backfill_is_active_and_a_canceled_one_leaves_the_rest_unread(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    async with extracting(home, server) as app:
        done = await bring(app.ledgers, _days(tmp_path, 5))
        with pytest.raises(UsageError, match="There is no import"):
            await app.backfill.start("imp_none")
        await app.backfill.start(done.id, limits=Limits(episodes_an_hour=1))
        with pytest.raises(UsageError, match="already active"):
            await app.backfill.start()
        await _read(app, 1)
        await app.backfill.pause()
        await app.backfill.cancel()
        assert (await app.backfill.estimate()).episodes == 4
        await app.backfill.start(sort="oldest")
        await _ended(app)
        assert len(await _facts(app)) == 5
        with pytest.raises(UsageError, match="Nothing to read"):
            await app.backfill.start()


async def test_a_pace_does_not_wait_for_a_time_from_before_the_clock_was_set_back(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    ahead = "UPDATE backfill_episodes SET finished_at = '2126-01-01T00:00:00.000Z' WHERE status = 'done'"
    async with extracting(home, server) as app:
        await bring(app.ledgers, _days(tmp_path, 5))
        await app.backfill.start(limits=Limits(episodes_an_hour=1))
        await _read(app, 1)
        await app.backfill.pause()
        await app.ledgers.memory.write(lambda connection: connection.execute(ahead).fetchall())
        await app.backfill.resume()
        await _read(app, 2)


async def test_a_model_that_does_not_answer_is_waited_for(
    home: Home, server: ModelServer, extractor: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfilling, "_OUTAGE", timedelta(milliseconds=50))
    extractor.script(*[HttpError("overloaded")] * 4)
    async with extracting(home, server) as app:
        await bring(app.ledgers, _days(tmp_path, 6))
        await app.backfill.start()
        await _ended(app)
        found = await _facts(app)
    server.assert_exhausted()
    assert len(found) == len({each[2] for each in found}) == 6


async def test_a_run_that_was_stopped_is_asked_for_again(
    home: Home, server: ModelServer, extractor: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfilling, "_HICCUP", timedelta(milliseconds=50))
    extractor.script(Turn("{}", faults=[Hold(gate="held")]))
    async with extracting(home, server) as app:
        await bring(app.ledgers, _days(tmp_path, 3))
        await app.backfill.start()
        await server.until(lambda: server.gate("held").waiting)
        running = await rows(app, "runtime", "SELECT id FROM executions WHERE status = 'running'")
        for (id_,) in running:
            await app.broker.run(id_).cancel()
        server.gate("held").open()
        await _ended(app, "done", "paused")
        found = await app.backfill.latest()
        facts = await _facts(app)
    assert found is not None
    assert (found.status, found.progress.waiting) == ("done", 0)
    assert len(facts) == len({each[2] for each in facts}) == 3


async def test_without_a_writer_nothing_is_started(home: Home, server: ModelServer, tmp_path: Path) -> None:
    config = with_writer(server, "openai", mode="structured")
    async with App(home, replace(config, models=replace(config.models, writer=()))) as app:
        await bring(app.ledgers, _days(tmp_path, 1))
        with pytest.raises(ConfigError, match="The memory writer is off"):
            await app.backfill.start()


async def test_the_most_relevant_conversations_are_those_in_which_the_owner_says_most(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    talk = [_said(number, f"Elin lives in Ghent{number}.", 1) for number in range(3)]
    path = _history(tmp_path / "a.jsonl", *talk, _said(9, "Elin lives in Porto.", 5))
    async with extracting(home, server) as app:
        await bring(app.ledgers, path)
        await app.backfill.start(sort="relevant", limits=Limits(episodes_an_hour=1_000_000))
        await _ended(app)
        found = [each[0] for each in await _facts(app)]
    assert found[-1] == "Elin lives in Porto"


async def test_an_undone_import_takes_what_was_learned_from_it_along(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    async with extracting(home, server) as app:
        done = await bring(app.ledgers, _days(tmp_path, 3))
        await app.backfill.start(done.id)
        await _ended(app)
        target = await forgetting.find(app.ledgers, lambda c: forgetting.import_(c, done.id))
        await forgetting.forget(app.ledgers, target, actor="test")
        assert await _facts(app) == []
        for table in ("backfills", "backfill_episodes", "episodes"):
            assert await rows(app, "memory", f"SELECT * FROM {table}") == []
        requests = await rows(app, "runtime", "SELECT * FROM requests")
    assert requests == []
