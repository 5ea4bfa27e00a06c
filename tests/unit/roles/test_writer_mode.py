"""How the writer works with a model that was tried: its mode, and how long it may take."""

import pytest

from memory_writers import extracted, extracting, invocations, is_extractor, quiet, rows, with_writer
from nexus.app import App
from nexus.config import WriterSetting
from nexus.home import Home
from nexus.ledgers.runtime import models
from nexus.ledgers.runtime.models import Capabilities
from nexus.roles.memory_writer import TIMEOUT_MS
from nexus.roles.memory_writer.extractor import estimate_limit_ms
from nexus.roles.memory_writer.writer import choose_mode, reads_notes
from nexus.testing import ModelServer

_ONLY_TOOLS = Capabilities(calls_tools=True, writes_json=False)


@pytest.mark.parametrize(
    ("setting", "known", "expected"),
    [
        ("auto", Capabilities(), "structured"),
        ("auto", Capabilities(calls_tools=True, writes_json=True), "structured"),
        ("auto", Capabilities(calls_tools=False, writes_json=False), "structured"),
        ("auto", _ONLY_TOOLS, "code"),
        ("structured", _ONLY_TOOLS, "structured"),
        ("code", Capabilities(), "code"),
    ],
)
def test_the_mode_follows_from_the_setting_and_the_trial(
    setting: WriterSetting, known: Capabilities, expected: str
) -> None:
    assert choose_mode(setting, known) == expected


def test_the_time_limit_follows_from_the_speed() -> None:
    assert estimate_limit_ms(Capabilities(), 1) is None
    assert estimate_limit_ms(Capabilities(prompt_tokens_per_s=10_000, output_tokens_per_s=500), 1) == 60_000
    laptop = Capabilities(prompt_tokens_per_s=30, output_tokens_per_s=5)
    once = estimate_limit_ms(laptop, 1)
    assert once is not None
    assert once > TIMEOUT_MS
    assert estimate_limit_ms(laptop, 3) == 3 * once


async def test_a_tried_model_that_writes_no_json_writes_the_memory_with_tools(home: Home) -> None:
    with ModelServer() as server:
        server.always("Nothing to remember")
        async with App(home, with_writer(server, "openai", mode="auto")) as app:
            await app.ledgers.runtime.write(
                models.learn, name="test/large", address=f"{server.openai_url}/", learned=_ONLY_TOOLS
            )
            await (await app.send("My sister Elin has her birthday on 14 March.")).result()
            await quiet(app)
            (run,) = await invocations(app)
    assert run["mode"] == "code"


async def test_a_writer_whose_model_is_slow_gets_more_than_the_default(home: Home) -> None:
    with ModelServer() as server:
        server.when(is_extractor).always(extracted(("Elin", "Elin has her birthday on 14 March")))
        server.always("Noted.")
        async with extracting(home, server) as app:
            slow = Capabilities(prompt_tokens_per_s=30, output_tokens_per_s=5)
            await app.ledgers.runtime.write(
                models.learn, name="test/large", address=f"{server.openai_url}/", learned=slow
            )
            await (await app.send("My sister Elin has her birthday on 14 March.")).result()
            await quiet(app)
            (run,) = await invocations(app)
            limits = await rows(
                app,
                "runtime",
                "SELECT json_extract(input_json, '$.context.timeout_ms') FROM executions "
                "WHERE session_label LIKE 'meeseeks:memory-writer:%'",
            )
    assert run["status"] == "done"
    # The run is given what its invocation was given, at the speed that is known by then.
    assert [limit > TIMEOUT_MS for (limit,) in limits] == [True]


def test_a_small_model_of_ones_own_is_shown_no_notes() -> None:
    assert reads_notes(Capabilities())
    assert reads_notes(Capabilities(tested_at="2026-11-18", output_tokens_per_s=80.0))
    assert not reads_notes(Capabilities(tested_at="2026-11-18", output_tokens_per_s=9.5))
    assert reads_notes(Capabilities(output_tokens_per_s=9.5)), "a first answer says little of its speed"
