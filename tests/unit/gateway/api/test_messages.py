"""Messages and their answers over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateways import app_for_gateway, gateway_on
from nexus.app import App
from nexus.home import Home
from nexus.testing import Hold, ModelServer, Turn, failures


@pytest.fixture
async def app(home: Home, server: ModelServer) -> AsyncIterator[App]:
    async with app_for_gateway(home, server) as app:
        yield app


@pytest.fixture
async def client(app: App) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway_on(app) as client:
        yield client


async def sent(client: httpx.AsyncClient, text: str, key: str | None = None, **more: str) -> dict[str, Any]:
    headers = {} if key is None else {"idempotency-key": key}
    answer = await client.post("/api/messages", json={"text": text, **more}, headers=headers)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def streamed(
    client: httpx.AsyncClient, id_: str, last: int = 0
) -> list[tuple[str, int, dict[str, Any]]]:
    """Every event of a run's stream: kind, number, data."""
    headers = {"last-event-id": str(last)}
    answer = await client.get(f"/api/executions/{id_}/stream", headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events: list[tuple[str, int, dict[str, Any]]] = []
    for block in answer.text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            events.append((fields["event"], int(fields["id"]), json.loads(fields["data"])))
    return events


async def test_a_message_is_answered_in_a_stream_that_ends_with_the_result(
    client: httpx.AsyncClient, server: ModelServer
) -> None:
    server.script("It is in the blue tin.")
    accepted = await sent(client, "Where is the tea?")
    events = await streamed(client, accepted["execution_id"])
    assert "".join(data.get("text", "") for _, _, data in events) == "It is in the blue tin."
    kind, _, result = events[-1]
    assert kind == "result"
    assert result["response"]["content"] == "It is in the blue tin."
    assert result["request_id"] == accepted["request_id"]
    assert [number for _, number, _ in events] == list(range(1, len(events) + 1))


async def test_a_stream_is_resumed_behind_the_last_piece_that_was_seen(
    client: httpx.AsyncClient, server: ModelServer
) -> None:
    server.script("It is in the blue tin.")
    accepted = await sent(client, "Where is the tea?")
    all_ = await streamed(client, accepted["execution_id"])
    assert await streamed(client, accepted["execution_id"], last=2) == all_[2:]
    assert await streamed(client, accepted["execution_id"], last=len(all_)) == all_[-1:]


async def test_a_message_under_the_same_key_is_answered_once(
    client: httpx.AsyncClient, server: ModelServer
) -> None:
    server.script("Once.")
    accepted = await asyncio.gather(*(sent(client, "Say it once", key="k") for _ in range(5)))
    assert all(again == accepted[0] for again in accepted)
    await client.get(f"/api/executions/{accepted[0]['execution_id']}/result")
    assert await sent(client, "Say it once", key="k") == accepted[0]
    assert len(server.requests) == 1
    other = await client.post("/api/messages", json={"text": "Else"}, headers={"idempotency-key": "k"})
    assert other.status_code == 400
    assert "new key" in other.json()["hint"]
    message = {"text": "Say it once", "session": "other"}
    other = await client.post("/api/messages", json=message, headers={"idempotency-key": "k"})
    assert (other.status_code, "in another session" in other.text) == (400, True)
    # A repeat finds its run even if its model is gone.
    assert await sent(client, "Say it once", key="k", model="nobody/knows") == accepted[0]


async def test_a_key_is_worked_on_once_after_a_clock_that_was_ahead(
    client: httpx.AsyncClient, server: ModelServer, app: App
) -> None:
    """Its first process died before it handed the message to anybody, at a time that has not come yet."""
    server.script("Once.")
    accepted = await sent(client, "Say it once", key="k")
    await client.get(f"/api/executions/{accepted['execution_id']}/result")
    dead = """INSERT INTO requests (id, root_request_id, event_id, access_json, status, created_at)
        SELECT 'req_z', 'req_z', event_id, access_json, 'failed', '2999-01-01T00:00:00.000Z'
        FROM requests WHERE id = ?"""
    given = (accepted["request_id"],)
    await app.ledgers.runtime.write(lambda c: c.execute(dead, given).fetchall())
    assert await sent(client, "Say it once", key="k") == accepted
    assert len(server.requests) == 1


async def test_a_run_can_be_stopped(client: httpx.AsyncClient, server: ModelServer) -> None:
    server.script(Turn("Never", faults=[Hold(gate="never")]))
    accepted = await sent(client, "Wait")
    id_ = accepted["execution_id"]
    while (await client.get(f"/api/executions/{id_}")).json()["status"] != "running":
        await asyncio.sleep(0.02)
    assert (await client.post(f"/api/executions/{id_}/cancel")).json() == {"cancelled": True}
    kind, _, ended = (await streamed(client, id_))[-1]
    assert (kind, ended["status"]) == ("failed", "cancelled")
    assert (await client.post(f"/api/executions/{id_}/cancel")).json() == {"cancelled": False}
    assert (await client.get(f"/api/executions/{id_}/result")).status_code == 409


async def test_a_failure_ends_the_stream_with_what_to_do(
    client: httpx.AsyncClient, server: ModelServer
) -> None:
    server.script(failures.unauthorized())
    accepted = await sent(client, "Hello")
    kind, _, ended = (await streamed(client, accepted["execution_id"]))[-1]
    assert (kind, ended["status"]) == ("failed", "failed")
    assert ended["message"]


async def test_an_unknown_run_is_not_found(client: httpx.AsyncClient) -> None:
    for path in ("", "/stream", "/result"):
        assert (await client.get(f"/api/executions/exe_none{path}")).status_code == 404
    assert (await client.post("/api/executions/exe_none/cancel")).status_code == 404


async def test_an_error_is_a_problem_of_a_stable_type(client: httpx.AsyncClient) -> None:
    unknown = await client.get("/api/requests/req_none")
    assert unknown.headers["content-type"] == "application/problem+json"
    problem = unknown.json()
    assert problem["type"] == "urn:nexus:error:missing"
    assert (problem["title"], problem["status"]) == ("Nothing with that name or id", 404)
    invalid = (await client.post("/api/messages", json={})).json()
    assert (invalid["type"], invalid["status"]) == ("urn:nexus:error:unprocessable-content", 422)


async def test_a_message_that_no_agent_answers_says_why(client: httpx.AsyncClient) -> None:
    accepted = await sent(client, "/help", key="h")
    assert (accepted["execution_id"], accepted["reason"]) == (None, "a command was carried out")
    again = await sent(client, "/help", key="h")
    assert (again["request_id"], again["execution_id"]) == (accepted["request_id"], None)
    assert again["reason"] == "it was answered without an agent before"


async def test_what_is_no_message_is_refused_with_what_is_wrong(client: httpx.AsyncClient) -> None:
    blank = {"text": "x", "session": " "}
    bodies: list[dict[str, Any]] = [
        {},
        {"text": ""},
        {"text": " "},
        {"text": 1},
        blank,
        {"text": "x", "mode": 1},
    ]
    for body in bodies:
        answer = await client.post("/api/messages", json=body)
        assert answer.status_code == 422, body
        assert answer.json()["detail"].startswith("body")
        assert answer.json()["hint"]


async def test_what_a_client_says_about_its_rights_does_not_count(
    client: httpx.AsyncClient, server: ModelServer
) -> None:
    body = {"text": "Hello", "channel": "telegram"}
    assert (await client.post("/api/messages", json=body)).status_code == 422
    server.script("Hello.")
    accepted = await sent(client, "Hello", sender="somebody", is_owner="false", access="all")
    assert (await streamed(client, accepted["execution_id"]))[-1][0] == "result"
