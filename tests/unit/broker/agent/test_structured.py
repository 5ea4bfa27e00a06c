"""Answers by a JSON schema: asked for natively where a model takes one, in words otherwise."""

from pathlib import Path
from typing import Any

import pytest

from agent_runs import Run
from nexus.testing import ModelServer
from nexus.testing.model_server.failures import HttpError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


async def test_a_schema_is_sent_natively_where_the_model_takes_one(
    server: ModelServer, tmp_path: Path
) -> None:
    server.script('{"city": "Bern"}')

    outcome = await Run(server, tmp_path, wire="openai", tools=(), output_schema=SCHEMA)()

    (request,) = server.requests
    assert outcome.text == '{"city": "Bern"}'
    assert request.json["response_format"]["json_schema"]["schema"]["properties"] == SCHEMA["properties"]
    assert request.json["temperature"] == 0, "a server on this machine samples freely otherwise"


async def test_a_model_without_native_schemas_is_asked_in_words(server: ModelServer, tmp_path: Path) -> None:
    server.script('{"city": "Bern"}')

    run = Run(server, tmp_path, names=("anthropic/claude-3-haiku",), tools=(), output_schema=SCHEMA)
    await run()

    (request,) = server.requests
    assert '"city"' in str(request.json["system"])


async def test_a_server_that_refuses_schemas_is_asked_without_one_and_never_with_one_again(
    server: ModelServer, tmp_path: Path
) -> None:
    server.script(HttpError("invalid_request", message="no response_format here"), '{"city": "Bern"}')
    run = Run(server, tmp_path, wire="openai", tools=(), output_schema=SCHEMA)

    outcome = await run()

    first, second = server.requests
    assert outcome.text == '{"city": "Bern"}'
    assert ("response_format" in first.json, "response_format" in second.json) == (True, False)
    assert [attempt.error is None for attempt in run.journal.attempts] == [False, True]


@pytest.mark.parametrize(
    ("wire", "provider", "expected"),
    [("openai", {}, 0.2), ("openai", {"temperature": 0.7}, 0.7), ("anthropic", {}, None)],
)
async def test_a_local_server_is_told_to_keep_to_the_point(
    server: ModelServer, tmp_path: Path, wire: str, provider: dict[str, float], expected: float | None
) -> None:
    server.script("Sunny.")

    await Run(server, tmp_path, wire, provider=provider)()

    (request,) = server.requests
    assert request.json.get("temperature") == expected
