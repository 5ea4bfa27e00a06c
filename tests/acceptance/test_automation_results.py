"""What an automation returns arrives somewhere, or somebody is told that it does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from apps import app_on
from automating import ended, register, runs
from installed import messages
from memory_writers import rows
from nexus.automations.trial import invoke
from nexus.errors import ScriptError
from nexus.home import Home
from nexus.testing import ModelServer


def returning(value: Any) -> str:
    return f"def run(ctx):\n    return {value!r}\n"


@pytest.mark.parametrize("point", ["after:receiveEvent", "runAutomations", "after:assembleContext"])
async def test_context_is_put_before_the_message_with_its_source_named(
    home: Home, tmp_path: Path, point: str
) -> None:
    with ModelServer() as server:
        server.always("Fine.")
        async with app_on(home, server) as app:
            await register(app, "weather", returning({"context": "It rains."}), tmp_path, hook_point=point)
            await (await app.send("Shall I walk?")).result()
        assert '<context source="weather">\nIt rains.\n</context>' in server.requests[0].last_user
        assert server.requests[0].last_user.endswith("Shall I walk?")


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_reply_is_a_message_where_the_request_came_from_or_elsewhere(
    home: Home, tmp_path: Path, blocking: bool
) -> None:
    replies = ["Noted.", {"text": "Look at the log.", "session": "ops"}]
    with ModelServer() as server:
        server.always("Fine.")
        async with app_on(home, server) as app:
            source = returning({"reply": replies})
            await register(app, "post", source, tmp_path, hook_point="after:runAgent", blocking=blocking)
            await (await app.send("Hello")).result()
            await ended(app, "post")
            said = await messages(app)
            threads = await rows(
                app,
                "events",
                "SELECT e.content, t.external_id FROM events AS e JOIN threads AS t ON t.id = e.thread_id "
                "WHERE e.direction = 'outbound'",
            )
    assert sorted(said) == ["Fine.", "Look at the log.", "Noted."]
    assert dict(threads) == {"Fine.": "main", "Noted.": "main", "Look at the log.": "ops"}


async def test_what_is_to_be_remembered_passes_the_gate_and_a_refusal_flags_the_run(
    home: Home, tmp_path: Path
) -> None:
    statements = [
        {"about": "ann", "fact": "Ann grows basil", "confidence": 1.0},
        "The password is hunter2hunter2",
    ]
    with ModelServer() as server:
        server.always("Fine.")
        async with app_on(home, server) as app:
            await register(app, "learn", returning({"remember": statements}), tmp_path)
            heard = await app.receive("Hello")
            await heard.run.result()
            [run] = await runs(app, "learn")
            kept = await rows(app, "memory", "SELECT fact, confidence, source_request_id FROM facts")
    assert kept == [("Ann grows basil", 0.8, heard.request_id)]
    assert run.status == "flagged"
    assert "passwords" in (run.error or "")


async def test_a_repeated_invocation_sends_and_remembers_once(home: Home, tmp_path: Path) -> None:
    source = returning({"remember": "Ann grows basil", "reply": "Noted."})
    with ModelServer() as server:
        server.always("Fine.")
        async with app_on(home, server) as app:
            await register(app, "learn", source, tmp_path, hook_point="after:runAgent", blocking=False)
            await (await app.send("Hello")).result()
            [run] = await ended(app, "learn")
            await app.ledgers.runtime.write(
                lambda c: c.execute(
                    "UPDATE invocations SET status = 'running' WHERE id = ?", (run.id,)
                ).fetchall()
            )
            await app.automations.runner.run_queued(run.id)
            assert sorted(await messages(app)) == ["Fine.", "Noted."]
            assert await rows(app, "memory", "SELECT count(*) FROM facts") == [(1,)]


LOST = {
    "memories without a context": (returning({"memories": "x"}), "runAutomations", "is not for"),
    "memories in enrich": (returning({"enrich": {"memories": "x"}}), "runAutomations", "reaches no agent"),
    "an answer that is not given": (returning({"response": "x"}), "runAutomations", "without `handled`"),
    "enrich at the end": (returning({"enrich": {"tea": 1}}), "finalize", "nobody reads"),
    "a changed copy": (
        "def run(ctx):\n    ctx.request.event.content = 'changed'\n",
        "after:receiveEvent",
        "request.event.content",
    ),
    "a changed context": (
        "def run(ctx):\n    ctx.request.enrichment['tea'] = 1\n",
        "runAutomations",
        "request.enrichment.tea",
    ),
}


@pytest.mark.parametrize("case", LOST)
async def test_what_nobody_reads_is_a_warning_in_the_log(home: Home, tmp_path: Path, case: str) -> None:
    source, point, told = LOST[case]
    with ModelServer() as server:
        server.always("Fine.")
        async with app_on(home, server) as app:
            await register(app, "lost", source, tmp_path, hook_point=point)
            await (await app.send("Hello")).result()
            [run] = await runs(app, "lost")
        assert server.requests[0].last_user.endswith("Hello"), "the message goes on as it was"
    assert told in f"{run.output} {run.error}"


@pytest.mark.parametrize("case", LOST)
def test_what_nobody_reads_is_an_error_in_a_test(tmp_path: Path, case: str) -> None:
    source, point, told = LOST[case]
    (tmp_path / "lost.py").write_text(source)
    with pytest.raises(ScriptError, match=told):
        invoke(tmp_path / "lost.py", hook_point=point, content="Hello")


async def test_enrich_of_an_async_automation_is_a_warning(home: Home, tmp_path: Path) -> None:
    with ModelServer() as server:
        server.always("Fine.")
        async with app_on(home, server) as app:
            source = returning({"enrich": {"tea": 1}})
            await register(app, "lost", source, tmp_path, hook_point="after:runAgent", blocking=False)
            await (await app.send("Hello")).result()
            [run] = await ended(app, "lost")
    assert "don't wait for an async one" in (run.output or "")
    assert json.loads(json.dumps(run.result)) == {"enrich": {"tea": 1}}
