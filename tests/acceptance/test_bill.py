"""A conversation with tools and every kind of failure: answered, and the ledger's bill is the server's."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import cast

import apsw
import pytest

from apps import dispatching, settings
from memory_writers import batch, is_reflection, is_writer, quiet, writing
from nexus.app import App
from nexus.home import Home
from nexus.ledgers.runtime import usage
from nexus.testing import Cut, ErrorEvent, ModelServer, Silence, Stall, Step, ToolCall, Turn, failures

LONG = "A text of more than one piece, so that it can break in its middle, and is then said in whole."
SOON = failures.rate_limited(retry_after_ms=20, form="milliseconds")
_BILL = """
SELECT count(*), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(output_tokens)
FROM usage
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


CONVERSATION: list[tuple[str, list[Step]]] = [
    ("Hello?", [SOON, failures.overloaded(), Silence(), "Hello."]),
    ("Say something long.", [Turn(LONG, faults=[Cut(after_deltas=2)]), SOON, LONG]),
    ("Once more.", [Turn(LONG, faults=[ErrorEvent(after_deltas=1)]), LONG]),
    ("And slowly.", [Turn(LONG, faults=[Stall(ms=60_000, after_deltas=1)]), LONG]),
    (
        "What is in the file?",
        [
            Turn("I look.", [ToolCall("read", {"file": 5})]),
            Turn("", [ToolCall("no_such_tool", {}), ToolCall("read", '{"path": "/no')]),
            failures.server_error(),
            "I cannot read it.",
        ],
    ),
]


def _bill(connection: apsw.Connection) -> tuple[int, int, int, int, int]:
    return cast("tuple[int, int, int, int, int]", connection.execute(_BILL).fetchone())


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_every_failure_is_overcome_and_the_bill_is_the_servers(
    home: Home, server: ModelServer, wire: str
) -> None:
    config = settings(server, wire)
    provider = replace(config.providers["test"], max_retries=3, stall_ms=2_000)
    async with App(home, replace(config, providers={"test": provider})) as app:
        for question, steps in CONVERSATION:
            server.script(*steps)
            run = await app.say(question)
            answer = await run.result()
            assert answer.response.content in {"Hello.", LONG, "I cannot read it."}
        bill = await app.ledgers.runtime.read(_bill)
    server.assert_exhausted()
    counted = server.totals()
    assert counted.requests == sum(len(steps) for _, steps in CONVERSATION)
    requests, fresh, read, written, out = bill
    used = counted.usage
    assert (requests, fresh + read + written, out) == (
        counted.requests,
        used.prompt_tokens,
        used.output_tokens,
    )
    if wire == "anthropic":
        assert (fresh, read, written) == (used.input_tokens, used.cache_read_tokens, used.cache_write_tokens)
    else:  # this format does not tell how much of a prompt was cached when the answer breaks off
        assert read <= used.cache_read_tokens


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_what_a_message_cost_includes_what_was_written_to_the_memory(
    home: Home, server: ModelServer, wire: str
) -> None:
    """The manager, its worker, the writers of both turns and a reflection: one sum, equal to the server's."""
    fact = {"operation": "fact", "fact": "The early train to Bern leaves at six"}
    server.when(is_reflection).script("Nothing learned")
    server.when(is_writer).script(batch(fact), "Nothing to remember", "Done.")
    server.when(last_user="Find a train").script("At six")
    server.script(*dispatching("Find a train", then="At six, Ada Lovelace and Bob Miller."))
    async with writing(home, server, wire) as app:
        result = await (await app.say("plan the trip with Ada Lovelace and Bob Miller")).result()
        await server.until(lambda: len(server.exchanges) == 8, 60_000)
        await quiet(app)
        bill = await app.ledgers.runtime.read(partial(usage.of_root, root_request_id=result.request_id))
        roles = await app.ledgers.runtime.read(
            lambda c: c.execute("SELECT role, count(*) FROM usage GROUP BY role ORDER BY role").fetchall()
        )
    server.assert_exhausted()
    used = server.totals().usage
    assert roles == [("manager", 3), ("worker", 1), ("writer", 4)]
    assert (bill.calls, bill.output_tokens) == (8, used.output_tokens)
    assert (bill.input_tokens, bill.cache_read_tokens, bill.cache_write_tokens) == (
        used.input_tokens,
        used.cache_read_tokens,
        used.cache_write_tokens,
    )
    assert bill.cache_read_tokens > bill.input_tokens
