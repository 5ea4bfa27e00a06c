"""What the server keeps, bills and tells over its control interface."""

import hashlib
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import anthropic
import httpx
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from nexus.testing import ModelServer, Price, Stall, Turn, Usage

PRICES = {
    "dear": Price(input=3, output=15, cache_read="0.30", cache_write="3.75", cache_write_1h=6),
    "cheap": Price(input=Decimal("0.1"), output="0.4"),
}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(prices=PRICES) as server:
        yield server


@pytest.fixture
async def control(server: ModelServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{server.url}/_nexus") as client:
        yield client


async def _ask(client: AsyncOpenAI, text: str = "Hi", model: str = "dear") -> Any:
    return await client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}])


async def test_the_exact_bytes_are_kept(server: ModelServer) -> None:
    body = b'{ "model":"m",\n  "messages": [{"content":"Gr\\u00fc\\u00dfe","role":"user"}] }'
    server.script("Hi")
    async with httpx.AsyncClient() as client:
        await client.post(f"{server.openai_url}/chat/completions", content=body)
        kept = await client.get(f"{server.url}/_nexus/requests/1/body")
    assert server.requests[0].body == body == kept.content
    assert server.requests[0].last_user == "Grüße"
    assert server.requests[0].key is None


async def test_keys_are_known_but_never_printed(
    server: ModelServer, claude: AsyncAnthropic, gpt: AsyncOpenAI, control: httpx.AsyncClient
) -> None:
    server.script("Hi", "Hi", "Hi")
    await _ask(gpt)
    message: Any = {"role": "user", "content": "Hi"}
    await claude.messages.create(model="m", max_tokens=9, messages=[message])
    headers = {"x-api-key": "sk-by-header", "anthropic-version": "2023-06-01"}
    await control.post(
        f"{server.url}/v1/messages",
        headers=headers,
        json={"model": "m", "max_tokens": 9, "messages": [message]},
    )
    assert [request.key for request in server.requests] == [
        "sk-test-openai",
        "sk-test-anthropic",
        "sk-by-header",
    ]
    told = (await control.get("/requests")).text
    for printed in (repr(server.exchanges), str(server.requests), told):
        assert "sk-" not in printed
    assert hashlib.sha256(b"sk-by-header").hexdigest() in told


async def test_only_accepted_keys_and_models_are_served() -> None:
    async with ModelServer(keys={"right"}, models=["known"]) as server:
        server.script("Hi")
        for key, model, error in (
            ("wrong", "known", openai.AuthenticationError),
            ("right", "unknown", openai.NotFoundError),
        ):
            async with AsyncOpenAI(base_url=server.openai_url, api_key=key, max_retries=0) as client:
                with pytest.raises(error):
                    await _ask(client, model=model)
        async with AsyncAnthropic(base_url=server.url, auth_token="wrong", max_retries=0) as claude:
            with pytest.raises(anthropic.AuthenticationError):
                await claude.models.list()
        async with AsyncOpenAI(base_url=server.openai_url, api_key="right", max_retries=0) as client:
            assert (await _ask(client, model="known")).choices[0].message.content == "Hi"


async def test_the_bill_is_exact(server: ModelServer, gpt: AsyncOpenAI) -> None:
    usage = Usage(
        input_tokens=1_000_000,
        cache_read_tokens=2_000_000,
        cache_write_tokens=3_000_000,
        cache_write_1h_tokens=1_000_000,
        output_tokens=100_000,
    )
    server.script(Turn("Hi", usage=usage), Turn("Hi", usage=Usage(input_tokens=10, output_tokens=10)))
    await _ask(gpt, model="dear")
    await _ask(gpt, model="cheap")
    dear = server.totals(lambda exchange: exchange.request.model == "dear")
    assert dear.cost == 3 + Decimal("0.6") + Decimal("7.5") + 6 + Decimal("1.5")
    assert dear.cost is not None
    assert server.totals().cost == dear.cost + Decimal("0.000005")
    assert server.totals().requests == 2
    assert server.totals().usage.prompt_tokens == 6_000_010


async def test_a_model_without_a_price_has_no_cost(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script("Hi")
    await _ask(gpt, model="unpriced")
    assert server.totals().cost is None
    assert server.totals().usage.output_tokens == 1


async def test_a_client_that_hangs_up_is_noticed_and_billed_for_what_it_got(
    server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.script(Turn("x" * 400, faults=[Stall(ms=60_000, after_deltas=3)]))
    stream = await gpt.chat.completions.create(
        model="dear", messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    chunks = aiter(stream)
    for _ in range(4):
        await anext(chunks)
    await stream.close()
    await server.until(lambda: server.exchanges[0].answer.outcome == "hung_up")
    assert server.exchanges[0].answer.usage.output_tokens == 3 * 24 // 4


async def test_the_control_interface_tells_requests_and_totals(
    server: ModelServer, gpt: AsyncOpenAI, control: httpx.AsyncClient
) -> None:
    server.script("Hello there", "Hello again")
    await gpt.models.list()
    await _ask(gpt, "First")
    await _ask(gpt, "Second", model="cheap")
    everything = (await control.get("/requests")).json()["requests"]
    assert [entry["path"] for entry in everything] == ["/v1/models", *["/v1/chat/completions"] * 2]
    turns = (await control.get("/requests", params={"turns": 1, "model": "cheap"})).json()["requests"]
    assert [turn["json"]["messages"][0]["content"] for turn in turns] == ["Second"]
    one = (await control.get("/requests/2")).json()
    assert one["answer"]["outcome"] == "complete"
    assert "Hello there" in one["answer"]["sent"]
    assert one["at"].endswith("Z")
    totals = (await control.get("/totals")).json()
    assert totals["requests"] == 2
    assert Decimal(totals["cost"]) == server.totals().cost
    assert totals["models"]["dear"]["usage"]["output_tokens"] == 3
    assert (await control.get("/requests/99")).status_code == 404
    assert (await control.get("/requests/99/body")).status_code == 404


async def test_the_control_interface_scripts_and_resets(
    server: ModelServer, gpt: AsyncOpenAI, control: httpx.AsyncClient
) -> None:
    held = {"text": "Hello", "faults": [{"hold": {"gate": "door"}}]}
    added = await control.post("/script", json={"steps": [held, "left over"]})
    assert len(added.json()["remaining"]) == 2
    stream = await gpt.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    await server.until(lambda: server.gate("door").waiting == 1)
    assert (await control.get("/gates")).json() == {"door": {"open": False, "waiting": 1}}
    await control.post("/gates/door/open")
    assert "".join([c.choices[0].delta.content or "" async for c in stream]) == "Hello"
    assert (await control.get("/script")).json() == {"remaining": ["left over"], "unscripted": []}
    await control.post("/reset")
    assert (await control.get("/script")).json() == {"remaining": [], "unscripted": []}
    assert (await control.get("/requests")).json() == {"requests": []}
    assert (await control.get("/health")).json() == {"ok": True}


async def test_a_script_that_cannot_be_read_is_refused(control: httpx.AsyncClient) -> None:
    for content in (b"{", b'{"turns": []}'):
        refused = await control.post("/script", content=content)
        assert refused.status_code == 400
        assert refused.json()["error"]
