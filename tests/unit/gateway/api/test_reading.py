"""What the API tells about a home in which something was said and remembered."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateways import app_for_gateway, gateway_on
from nexus.client import Client
from nexus.errors import AccessError, GatewayError, MissingError, StoppedError
from nexus.home import Home
from nexus.serving import Service
from nexus.testing import Hold, ModelServer, Turn

SECRET_WORDS = "the raspberry password"


@pytest.fixture
async def http(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    async with ModelServer() as server, app_for_gateway(home, server) as app:
        server.script("It is in the blue tin.", Turn("Never", faults=[Hold(gate="never")]))
        async with gateway_on(app) as http:
            yield http


async def got(http: httpx.AsyncClient, path: str, **params: Any) -> Any:
    answer = await http.get(path, params=params)
    assert answer.status_code == 200, (path, answer.text)
    return answer.json()


async def test_a_conversation_and_the_memory_can_be_looked_into(
    home: Home, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nexus")
    async with Client(str(http.base_url), home.token()) as client:
        heard = await client.receive(f"Where is the tea? {SECRET_WORDS}", session_label="tea/time")
        assert [delta.text for delta in [d async for d in heard.run.deltas()] if delta.kind == "text"]
        result = await heard.run.result()
        assert result.response.content == "It is in the blue tin."
        assert (await client.cost("tea/time")).calls == 1
        assert await client.sent_messages("tea/time", channel="api", limit=5) == [
            f"Where is the tea? {SECRET_WORDS}"
        ]
        last = await client.last_message("tea/time")
        assert last is not None
        assert (last.text, last.execution_id) == (f"Where is the tea? {SECRET_WORDS}", heard.execution_id)
        assert (last.request_id, last.files) == (heard.request_id, ())
        assert await client.last_message("coffee") is None
        assert await client.scheduled_messages("tea/time", channel="api") == []
        assert (await client.runs_after("tea/time"))[0].id == heard.execution_id
        assert [line.label for line in (await client.sessions()).items] == ["tea/time"]
        roles = [message.role for message in (await client.transcript("tea/time")).items]
        assert roles == ["user", "assistant"]
        assert [line.id for line in (await client.requests()).items] == [heard.request_id]
        trace = await client.request(heard.request_id)
        assert (trace.answered, trace.trace.total.calls) == ("It is in the blue tin.", 1)
        assert "model" in {child.kind for run in trace.trace.children for child in run.children}
        assert (await client.usage()).total.calls == 1

        entity = {"name": "Sarah Chen", "type": "Person"}
        assert (await http.post("/api/memory/operations/entity", json=entity)).status_code == 201
        made = await client.remember("Sarah keeps the tea in the blue tin", about="Sarah Chen")
        (sarah,) = [each for each in (await client.entities()).items if each.name == "Sarah Chen"]
        timeline = await got(http, f"/api/memory/entities/{sarah.id}/timeline")
        assert timeline["items"][0]["fact"] == "Sarah keeps the tea in the blue tin"
        corrected = await client.correct(made.id, "Sarah keeps the tea in the red tin", by="ada")
        fact = await got(http, f"/api/memory/facts/{corrected.id[-6:]}")
        assert fact["fact"]["id"] == corrected.id
        assert "ada" in str(fact)
        await client.correct(corrected.id, "Sarah keeps the tea in the blue tin")
        facts = (await client.recall("Where does Sarah keep the tea?", kinds=["fact"])).results
        assert facts[0].item.text == "Sarah keeps the tea in the blue tin"

        with pytest.raises(MissingError):
            await client.execution("exe_none")
        with pytest.raises(MissingError):
            await client.request("req_none")
        waiting = await client.send("Wait", session_label="tea/time")
        assert [run.id for run in await client.active_runs("tea/time")] == [waiting.id]
        assert await waiting.cancel()
        with pytest.raises(StoppedError):
            await waiting.result()
        await client.new_session("tea/time")

    for path in ("/api/automations", "/api/memory/facts", "/api/memory/episodes", "/api/memory/candidates"):
        await got(http, path)
    names = {section["name"] for section in await got(http, "/api/settings")}
    assert {"gateway", "providers.test"} <= names
    metrics = (await http.get("/api/metrics")).text
    assert 'nexus_requests_total{channel="api",status="done"} 1.0' in metrics
    assert 'route="/api/executions/{execution_id}/stream"' in metrics
    logged = json.dumps([vars(record) for record in caplog.records], default=str)
    assert "/api/sessions/{label}/transcript" in logged
    assert SECRET_WORDS not in logged


async def test_automations_that_are_not_there_are_not_found(http: httpx.AsyncClient) -> None:
    for act, body in (("enable", ""), ("disable", "{}"), ("rollback", "{}")):
        headers = {"content-type": "application/json"}
        answer = await http.post(f"/api/automations/none/{act}", content=body, headers=headers)
        assert answer.status_code == 404, act
        assert answer.json()["detail"]


async def test_a_client_says_what_is_wrong_with_the_way_in(home: Home, http: httpx.AsyncClient) -> None:
    async with Client(str(http.base_url), "w" * 43) as client:
        with pytest.raises(AccessError, match="token"):
            await client.sessions()
    async with Client("http://127.0.0.1:9", home.token()) as client:
        with pytest.raises(GatewayError, match="No response"):
            await client.login_url()
    with pytest.raises(GatewayError, match="not served"):
        Client.connect(home)


async def test_a_client_says_that_the_process_does_not_respond_and_waits_for_it(home: Home) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        assert await told.get() == (
            f"Process {os.getpid()}, which serves this home at {url}, doesn't respond. "
            "Waiting; press Ctrl-C to stop."
        )
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"url": "link"}')
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        service = Service(pid=os.getpid(), url=url, since="")
        async with Client(url, home.token(), service=service, notify=told.put_nowait) as client:
            assert await client.login_url() == "link"
    assert told.empty(), "it is said once"


@pytest.mark.parametrize(
    "path",
    [
        "/api/memory/entities/Nobody",
        "/api/memory/entities/Nobody/timeline",
        "/api/memory/episodes/epi_none",
        "/api/memory/events/evt_none",
        "/api/sessions/none/transcript",
        "/api/requests/req_none",
        "/api/executions/exe_none",
    ],
)
async def test_what_is_not_there_is_not_found(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 404, answer.text
    assert answer.json()["detail"]
