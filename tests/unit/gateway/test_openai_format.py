"""OpenAI's wire format, with its own client over real HTTP."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateways import app_for_gateway, gateway_on
from memory_writers import rows
from nexus.app import App
from nexus.gateway.openai_format import Written
from nexus.home import Home
from nexus.testing import Hold, HttpError, ModelServer, ToolCall, Turn

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
async def app(home: Home, server: ModelServer) -> AsyncIterator[App]:
    async with app_for_gateway(home, server) as app:
        yield app


@pytest.fixture
async def http(app: App) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway_on(app) as client:
        yield client


@pytest.fixture
async def client(http: httpx.AsyncClient, app: App) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{http.base_url}/v1", api_key=app.home.token(), max_retries=0
    ) as client:
        yield client


def said(*texts: str) -> list[Any]:
    """What a client sends: its user's words and its answers in turn."""
    return [
        {"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(texts)
    ]


async def complete(client: openai.AsyncOpenAI, *texts: str, **more: Any) -> str:
    create: Any = client.chat.completions.create
    answer = await create(model="nexus", messages=said(*texts), **more)
    return answer.choices[0].message.content


async def recorded(app: App) -> list[str]:
    """What people said, in its order."""
    found = await rows(app, "events", "SELECT content FROM events WHERE direction = 'inbound' ORDER BY seq")
    return [content for (content,) in found]


async def sessions(app: App) -> list[str]:
    found = await rows(app, "runtime", "SELECT DISTINCT session_label FROM executions ORDER BY session_label")
    return [label for (label,) in found if label.startswith("openai:")]


async def test_models_are_the_agent_and_what_the_settings_name(client: openai.AsyncOpenAI, app: App) -> None:
    names = [model.id async for model in client.models.list()]
    assert names[0] == "nexus"
    assert set(app.config.models.manager) < set(names)
    assert (await client.models.retrieve(names[1])).id == names[1]
    with pytest.raises(openai.NotFoundError, match="see GET /v1/models"):
        await client.models.retrieve("gpt-5")
    with pytest.raises(openai.NotFoundError) as refused:
        await client.chat.completions.create(model="gpt-5", messages=said("Hello"))
    assert refused.value.code == "model_not_found"


async def test_a_client_that_sends_all_again_goes_on_in_one_session(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("In the blue tin.", "On the shelf.")
    first = await complete(client, "Where is the tea?")
    assert first == "In the blue tin."
    second = await complete(client, "Where is the tea?", first, "And the tin?")
    assert second == "On the shelf."
    assert await recorded(app) == ["Where is the tea?", "And the tin?"]
    assert len(await sessions(app)) == 1
    # What was said before is in the history of the session, once.
    assert [message["role"] for message in server.requests[-1].json["messages"]].count("user") == 2


async def test_the_same_first_words_begin_another_conversation(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("One.", "Two.", "Three.")
    assert await complete(client, "Hi") == "One."
    assert await complete(client, "Hi") == "Two."
    assert await complete(client, "Hi", "One.", "Again") == "Three."
    [(label, count), other] = await rows(
        app,
        "runtime",
        "SELECT session_label, count(*) FROM executions GROUP BY session_label ORDER BY min(rowid)",
    )
    assert (count, other[1]) == (2, 1)
    assert label != other[0]


async def test_an_answer_that_is_asked_for_again_is_replaced(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("One.", "Two.", "Better.", "After that.")
    one = await complete(client, "First")
    await complete(client, "First", one, "Second")
    better = await complete(client, "First", one, "Second")
    assert better == "Better."
    await complete(client, "First", one, "Second", better, "Third")
    assert len(await sessions(app)) == 1
    shown = json.dumps(server.requests[-1].json["messages"])
    assert "Better." in shown
    assert "Two." not in shown


async def test_a_history_that_was_said_elsewhere_comes_along(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("I see.")
    await complete(client, "My cello is red.", "Noted.", "Which colour is it?")
    [content] = await recorded(app)
    assert content.startswith("Which colour is it?")
    assert "My cello is red." in content
    assert "Noted." in content


async def test_a_user_is_a_session_and_instructions_come_with_its_first_message(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("Arr.", "Arr again.")
    rules = [{"role": "system", "content": "Answer as a pirate."}]
    for text in ("Hello", "Bye"):
        await client.chat.completions.create(
            model="nexus", messages=cast("Any", [*rules, *said(text)]), user="ada"
        )
    assert await sessions(app) == ["openai:ada"]
    first, second = await recorded(app)
    assert "Answer as a pirate." in first
    assert second == "Bye"


async def test_what_was_begun_here_goes_on_elsewhere(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("One.", "Two.", "Three.")
    await complete(client, "First")
    [label] = await sessions(app)
    await (await app.send("Second, in the terminal", session_label=label)).result()
    assert await complete(client, "First", "One.", "Third") == "Three."
    assert await sessions(app) == [label]
    # Nothing that was said in the terminal is dropped.
    assert "Two." in json.dumps(server.requests[-1].json["messages"])


async def test_an_answer_streams_with_its_usage(client: openai.AsyncOpenAI, server: ModelServer) -> None:
    server.script("It is in the blue tin.")
    stream = await client.chat.completions.create(
        model="nexus", messages=said("Tea?"), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "It is in the blue tin."
    assert chunks[-2].choices[0].finish_reason == "stop"
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0


async def test_words_before_a_tool_stay_and_the_conversation_goes_on(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    look = ToolCall("recall", {"query": "tea"})
    server.script(Turn(text="Let me look.", tool_calls=(look,)), "In the tin.", "Yes.")
    stream = await client.chat.completions.create(model="nexus", messages=said("Tea?"), stream=True)
    shown = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert shown == "Let me look.\n\nIn the tin."
    assert await complete(client, "Tea?", shown, "Sure?") == "Yes."
    assert len(await sessions(app)) == 1


def test_what_was_sent_is_not_sent_again_when_the_model_is_asked_again() -> None:
    written = Written()
    assert written.add("One two") == "One two"
    written.restart()
    assert [written.add(piece) for piece in ("One", " two", " three.")] == ["", "", " three."]
    assert written.end("One two three.") == ""
    written.restart()
    assert written.add("Another.") == "\n\nAnother."
    assert written.end("Changed by an automation.") == "\n\nChanged by an automation."


async def test_responses_continue_by_id(client: openai.AsyncOpenAI, app: App, server: ModelServer) -> None:
    server.script("One.", "Two.")
    first = await client.responses.create(model="nexus", input="First")
    assert (first.output_text, first.status) == ("One.", "completed")
    second = await client.responses.create(model="nexus", input="Second", previous_response_id=first.id)
    assert second.output_text == "Two."
    assert len(await sessions(app)) == 1
    assert (await client.responses.retrieve(second.id)).output_text == "Two."
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="nexus", input="Third", previous_response_id="resp_none")


async def test_responses_stream_as_the_format_has_it(client: openai.AsyncOpenAI, server: ModelServer) -> None:
    server.script("It is in the blue tin.")
    async with client.responses.stream(model="nexus", input="Tea?") as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert final.output_text == "It is in the blue tin."
    assert final.usage is not None
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_stops_its_run(
    http: httpx.AsyncClient, app: App, server: ModelServer, stream: bool
) -> None:
    server.script(Turn(text="Never all of this.", faults=[Hold(gate="wait", after_deltas=1)]))
    body = {"model": "nexus", "messages": said("A long story"), "stream": stream}
    asking = asyncio.create_task(http.post("/v1/chat/completions", json=body))
    while not server.gate("wait").waiting:
        await asyncio.sleep(0.02)
    asking.cancel()
    statuses: list[str] = []
    for _ in range(200):
        statuses = [status for (status,) in await rows(app, "runtime", "SELECT status FROM executions")]
        if statuses == ["cancelled"]:
            break
        await asyncio.sleep(0.05)
    server.gate("wait").open()
    assert statuses == ["cancelled"]
    server.script("Where I was.")
    went_on = await http.post(
        "/v1/chat/completions", json={"messages": said("A long story", "Never", "Go on")}
    )
    assert went_on.json()["choices"][0]["message"]["content"] == "Where I was."
    assert len(await sessions(app)) == 1


async def test_images_come_along_and_nothing_is_fetched(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("A dot.")
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"

    def message(address: str) -> Any:
        image = {"type": "image_url", "image_url": {"url": address}}
        return [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]

    answer = await client.chat.completions.create(model="nexus", messages=message(url))
    assert answer.choices[0].message.content == "A dot."
    [(files,)] = await rows(app, "events", "SELECT count(*) FROM attachments")
    assert files == 1
    with pytest.raises(openai.BadRequestError, match="none is fetched"):
        await client.chat.completions.create(model="nexus", messages=message("http://127.0.0.1:1/a.png"))


async def test_what_cannot_be_done_is_refused_in_the_formats_words(
    client: openai.AsyncOpenAI, http: httpx.AsyncClient, app: App
) -> None:
    tool: Any = {"type": "function", "function": {"name": "add", "parameters": {}}}
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model="nexus", messages=said("Hi"), tools=[tool])
    assert (refused.value.param, refused.value.code) == ("tools", "unsupported_parameter")
    for more in ({"n": 2}, {"response_format": {"type": "json_object"}}):
        with pytest.raises(openai.BadRequestError):
            await complete(client, "Hi", **more)
    with pytest.raises(openai.BadRequestError, match="must be the user's"):
        await client.chat.completions.create(model="nexus", messages=said("Hi", "Hello"))
    stranger = await http.post("/v1/chat/completions", headers={"authorization": "Bearer no"}, json={})
    assert stranger.status_code == 401
    assert await recorded(app) == []


async def test_an_error_of_the_model_is_told(client: openai.AsyncOpenAI, server: ModelServer) -> None:
    server.always(HttpError("invalid_request", message="bad prompt"))
    with pytest.raises(openai.APIStatusError, match="bad prompt"):
        await complete(client, "Hi")
    stream = await client.chat.completions.create(model="nexus", messages=said("Hi"), stream=True)
    with pytest.raises(openai.APIError, match="bad prompt"):
        [chunk async for chunk in stream]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        "model",
        "messages",
        "input",
        "stream",
        "user",
        "n",
        "tools",
        "conversation",
        "previous_response_id",
        "instructions",
        "response_format",
        "text",
        "stream_options",
        "role",
        "content",
        "type",
        "image_url",
    ]
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["chat/completions", "responses"]),
    body=st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=3), max_size=5)
    | st.binary(max_size=40),
)
async def test_no_request_breaks_it(http: httpx.AsyncClient, path: str, body: Any) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await http.post(f"/v1/{path}", content=content, headers={"content-type": "application/json"})
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.json()["error"]["message"]
