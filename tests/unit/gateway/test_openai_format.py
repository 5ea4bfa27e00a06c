"""OpenAI's wire format, with its own client over real HTTP."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Annotated, Any, cast

import httpx
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types import ErrorObject, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, Field, TypeAdapter

from gateways import app_for_gateway, client_of, gateway_on
from memory_writers import rows
from nexus.app import App
from nexus.channels.http import ssl_context
from nexus.gateway.dependencies import Served
from nexus.gateway.guard import Keys
from nexus.gateway.listener import bind_socket
from nexus.gateway.openai_format import Written
from nexus.gateway.server import Gateway, build
from nexus.gateway.views.sessions import load_title
from nexus.home import Home
from nexus.testing import Hold, HttpError, ModelServer, ToolCall, Turn

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
async def app(home: Home, server: ModelServer) -> AsyncIterator[App]:
    app = app_for_gateway(home, server)
    models = replace(app.config.models, worker=("test/small",))
    tools = replace(app.config.tools, ask=("write",))
    files = replace(app.config.attachments, max_bytes=100_000)
    async with App(home, replace(app.config, models=models, tools=tools, attachments=files)) as app:
        yield app


@pytest.fixture
async def http(app: App) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway_on(app) as client:
        yield client


@pytest.fixture
async def client(http: httpx.AsyncClient, app: App) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{http.base_url}/v1",
        api_key=app.home.token(),
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(verify=ssl_context()),
    ) as client:
        yield client


def said(*texts: str) -> list[Any]:
    """What a client sends: its user's words and its answers in turn."""
    return [
        {"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(texts)
    ]


async def complete(client: openai.AsyncOpenAI, *texts: str, **more: Any) -> str:
    create: Any = client.chat.completions.create
    answer = await create(**{"model": "nexus", "messages": said(*texts), **more})
    return answer.choices[0].message.content


async def recorded(app: App) -> list[str]:
    """What people said, in its order."""
    found = await rows(app, "events", "SELECT content FROM events WHERE direction = 'inbound' ORDER BY seq")
    return [content for (content,) in found]


async def until_ended(app: App, status: str) -> None:
    """Wait until the newest run has ended so."""
    async with asyncio.timeout(60):
        while True:
            found = await rows(app, "runtime", "SELECT status FROM executions ORDER BY rowid DESC LIMIT 1")
            if found == [(status,)]:
                return
            await asyncio.sleep(0.05)


async def sessions(app: App) -> list[str]:
    found = await rows(app, "runtime", "SELECT DISTINCT session_label FROM executions ORDER BY session_label")
    return [label for (label,) in found if label.startswith("openai:")]


async def test_models_are_the_agent_and_what_the_settings_name(client: openai.AsyncOpenAI, app: App) -> None:
    names = [model.id async for model in client.models.list()]
    assert names == ["nexus", "nexus:worker", *app.config.models.manager, *app.config.models.worker]
    assert (await client.models.retrieve(names[2])).id == names[2]
    with pytest.raises(openai.NotFoundError, match="see GET /v1/models"):
        await client.models.retrieve("gpt-5")
    with pytest.raises(openai.NotFoundError) as refused:
        await client.chat.completions.create(model="gpt-5", messages=said("Hello"))
    assert refused.value.code == "model_not_found"


async def test_a_model_of_the_settings_has_the_memory_and_no_tools(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script(Turn(tool_calls=[ToolCall("recall", {"query": "tea"})]), "In the tin.", "Yes.", "No.")
    first = await complete(client, "Where is the tea?")
    assert await complete(client, "Where is the tea?", first, "Sure?", model="test/large") == "Yes."
    assert (
        await complete(client, "Where is the tea?", first, "Sure?", "Yes.", "Ok?", model="nexus:worker")
        == "No."
    )
    agent, _, plain, worker = (request.json for request in server.requests)
    assert len(await sessions(app)) == 1
    assert (agent["model"], plain["model"], worker["model"]) == ("large", "large", "small")
    assert [each["name"] for each in worker["tools"]] == [each["name"] for each in agent["tools"]]
    # Without tools the history has no calls that a provider could refuse.
    assert "tools" not in plain
    assert "tool_use" not in json.dumps(plain["messages"])
    assert "tool_result" in json.dumps(plain["messages"])
    # As tokens of the memory go, it is asked as the agent is.
    assert plain["system"] == agent["system"]


async def test_a_client_that_sends_all_again_goes_on_in_one_session(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("In the blue tin.", "On the shelf.")
    first = await complete(client, "Where is the tea?")
    assert first == "In the blue tin."
    second = await complete(client, "Where is the tea?", first, "And the tin?")
    assert second == "On the shelf."
    assert await recorded(app) == ["Where is the tea?", "And the tin?"]
    [label] = await sessions(app)
    # Elsewhere it is found by its first words.
    assert await load_title(app.ledgers, label) == "Where is the tea?"
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


async def test_conversations_that_began_alike_stay_apart(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("Hello!", "Hello!", "Red.", "Blue.", "Still red.")
    for _ in range(2):
        await complete(client, "Hi")
    red, blue = (
        await complete(client, "Hi", "Hello!", "I like red"),
        await complete(client, "Hi", "Hello!", "Blue!"),
    )
    assert (red, blue) == ("Red.", "Blue.")
    assert await complete(client, "Hi", "Hello!", "I like red", red, "Sure?") == "Still red."
    shown = json.dumps(server.requests[-1].json["messages"])
    assert "I like red" in shown
    assert "Blue" not in shown
    assert len(await sessions(app)) == 2


async def test_two_that_follow_one_answer_at_once_stay_apart(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("Hello!").always(lambda request: Turn(f"Answer {len(request.json['messages'])}"))
    await complete(client, "Hi")
    texts = ("I like red", "I like blue")
    answers = await asyncio.gather(*(complete(client, "Hi", "Hello!", text) for text in texts))
    for text, other, answer in zip(texts, reversed(texts), answers, strict=True):
        await complete(client, "Hi", "Hello!", text, answer, "Sure?")
        shown = json.dumps(server.requests[-1].json["messages"])
        assert text in shown
        assert other not in shown
    assert sorted(await recorded(app)) == ["Hi", *reversed(texts), "Sure?", "Sure?"]


async def test_what_was_replaced_can_be_continued_all_the_same(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("One.", "Two.", "Better.", "After two.", "And on.")
    for _ in range(2):
        await complete(client, "First") if not await recorded(app) else None
        await complete(client, "First", "One.", "Second")
    history = ["First", "One.", "Second", "Two.", "Third"]
    assert await complete(client, *history) == "After two."
    assert await complete(client, *history, "After two.", "Fourth") == "And on."
    shown = json.dumps(server.requests[-1].json["messages"])
    assert all(text in shown for text in ("First", "Two.", "Third"))
    assert "Better." not in shown
    # It is a fork: what they share is recorded once.
    assert await recorded(app) == ["First", "Second", "Second", "Third", "Fourth"]
    assert len(await sessions(app)) == 2


async def test_a_message_that_was_stopped_and_changed_leaves_the_history(
    http: httpx.AsyncClient, client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("One.", Turn(text="Never all of this.", faults=[Hold(gate="wait", after_deltas=1)]))
    await complete(client, "First")
    asking = asyncio.create_task(complete(client, "First", "One.", "Wrong words"))
    await server.until(lambda: server.gate("wait").waiting)
    asking.cancel()
    await until_ended(app, "cancelled")
    server.gate("wait").open()
    server.script("Two.")
    assert await complete(client, "First", "One.", "Right words") == "Two."
    assert "Wrong" not in json.dumps(server.requests[-1].json["messages"])


async def test_a_command_is_part_of_its_conversation(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("One.", "Two.", "Three.")
    await complete(client, "First")
    told = await complete(client, "First", "One.", "/cost")
    assert "call" in told
    assert await complete(client, "First", "One.", "/cost", told, "Second") == "Two."
    assert len(await sessions(app)) == 1
    command = await client.responses.create(model="nexus", input="/cost", user="ada")
    assert (await client.responses.retrieve(command.id)).output_text == command.output_text
    await client.responses.create(model="nexus", input="Third", previous_response_id=command.id)
    assert "openai:ada" in await sessions(app)


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


async def test_a_conversation_with_a_name_is_not_found_by_its_words(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    server.script("My secret is safe.", "Hello!", "What secret?")
    await complete(client, "Keep my secret", user="ada")
    await complete(client, "Hi", user="ada")
    assert await complete(client, "Hi", "Hello!", "What is it?") == "What secret?"
    assert len(await sessions(app)) == 2
    assert "Keep my secret" not in json.dumps(server.requests[-1].json["messages"])


async def test_a_client_that_repeats_its_request_gets_the_run_of_its_first_try(
    http: httpx.AsyncClient, app: App, server: ModelServer
) -> None:
    body = {"model": "nexus", "messages": said("First")}
    server.script(Turn(text="One.", faults=[Hold(gate="wait", after_deltas=1)]), "Two.")
    first = asyncio.create_task(http.post("/v1/chat/completions", json=body))
    await server.until(lambda: server.gate("wait").waiting)
    again = asyncio.create_task(
        http.post("/v1/chat/completions", json=body, headers={"x-stainless-retry-count": "1"})
    )
    server.gate("wait").open()
    ids = [each.json()["id"] for each in await asyncio.gather(first, again)]
    assert ids[0] == ids[1]
    assert await recorded(app) == ["First"]


async def test_what_is_repeated_after_it_was_stopped_takes_its_place(
    http: httpx.AsyncClient, app: App, server: ModelServer
) -> None:
    rules = {"role": "system", "content": "Answer as a pirate."}
    body = {"model": "nexus", "messages": [rules, *said("First")]}
    server.script(Turn(text="Never.", faults=[Hold(gate="wait", after_deltas=1)]))
    first = asyncio.create_task(http.post("/v1/chat/completions", json=body))
    await server.until(lambda: server.gate("wait").waiting)
    first.cancel()
    await until_ended(app, "cancelled")
    server.gate("wait").open()
    server.script("One.")
    again = await http.post("/v1/chat/completions", json=body, headers={"x-stainless-retry-count": "1"})
    assert again.json()["choices"][0]["message"]["content"] == "One."
    assert len(await sessions(app)) == 1
    assert json.dumps(server.requests[-1].json["messages"]).count("pirate") == 1


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


async def test_a_call_that_waits_for_the_owner_is_told_once(
    client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    write = ToolCall("write", {"path": "a.txt", "content": "Hi"})
    server.script(Turn(tool_calls=(write,)), "As you wish.", "Yes.")
    stream = await client.chat.completions.create(model="nexus", messages=said("Write"), stream=True)
    shown = ""
    async for chunk in stream:
        shown += chunk.choices[0].delta.content or ""
        if "approval" in shown and (waiting := await app.broker.approvals.waiting(None)):
            await app.broker.approvals.decide(waiting[0].id, "deny", waiting[0].call_hash)
    assert shown.count("write waits for your approval") == 1
    assert shown.endswith("As you wish.")
    # The client sends that back with the rest, and its conversation goes on.
    assert await complete(client, "Write", shown, "Sure?") == "Yes."
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
    await until_ended(app, "cancelled")
    server.gate("wait").open()
    server.script("Where I was.")
    went_on = await http.post(
        "/v1/chat/completions", json={"messages": said("A long story", "Never", "Go on")}
    )
    assert went_on.json()["choices"][0]["message"]["content"] == "Where I was."
    assert len(await sessions(app)) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_left_before_the_first_line_stops_its_run_too(
    app: App, server: ModelServer, stream: bool
) -> None:
    server.script(Turn(text="Never.", faults=[Hold(gate="wait")]))
    body = json.dumps({"messages": said("A long story"), "stream": stream}).encode()
    sent = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        return sent.pop(0) if len(sent) > 1 else sent[0]

    async def send(message: Any) -> None:
        pass

    path = "/v1/chat/completions"
    scope: Any = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    async with AsyncExitStack() as stack:
        await build(Served(app, Keys("t" * 43), stack))(scope, receive, send)
    await until_ended(app, "cancelled")
    server.gate("wait").open()


async def test_a_gateway_that_closes_stops_no_run(app: App, server: ModelServer) -> None:
    server.script(Turn(text="All of it.", faults=[Hold(gate="wait", after_deltas=1)]))
    body = {"messages": said("A long story"), "stream": True}
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(bind_socket("127.0.0.1", 0))
        gateway = await stack.enter_async_context(Gateway(app, listening))
        async with client_of(gateway.url, app.home.token()) as client:
            asking = asyncio.create_task(client.post("/v1/chat/completions", json=body))
            await server.until(lambda: server.gate("wait").waiting)
            await stack.aclose()
            with pytest.raises(httpx.HTTPError):
                await asking
    server.gate("wait").open()
    await until_ended(app, "done")


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


UNSUPPORTED: list[dict[str, Any]] = [
    {"tools": [{"type": "function", "function": {"name": "add", "parameters": {}}}]},
    {"functions": [{"name": "add"}]},
    {"tool_choice": "required"},
    {"n": 2},
    {"response_format": {"type": "json_object"}},
    {"logprobs": True},
    {"top_logprobs": 3},
    {"modalities": ["text", "audio"]},
    {"audio": {"voice": "alloy", "format": "wav"}},
    {"web_search_options": {}},
    {"stop": ["\n"]},
]


@pytest.mark.parametrize("more", UNSUPPORTED, ids=lambda more: next(iter(more)))
async def test_what_cannot_be_done_is_refused(
    http: httpx.AsyncClient, app: App, more: dict[str, Any]
) -> None:
    answer = await http.post("/v1/chat/completions", json={"messages": said("Hi"), **more})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "unsupported_parameter")
    assert error["param"] in more
    assert await recorded(app) == []


async def test_what_asks_for_nothing_is_no_reason_to_refuse(
    client: openai.AsyncOpenAI, server: ModelServer
) -> None:
    server.always("Hello!")
    nothing: dict[str, Any] = {
        "tools": [], "n": 1, "stop": None, "logprobs": False, "modalities": ["text"], "tool_choice": "auto",
        "response_format": {"type": "text"}, "temperature": 0.2, "max_tokens": 5,
    }  # fmt: skip
    assert await complete(client, "Hi", extra_body=nothing)
    unused = {**nothing, "tools": UNSUPPORTED[0]["tools"], "tool_choice": "none"}
    assert await complete(client, "Hello", extra_body=unused)


async def test_the_last_message_must_be_the_users(client: openai.AsyncOpenAI, app: App) -> None:
    with pytest.raises(openai.BadRequestError, match="must be the user's") as refused:
        await client.chat.completions.create(model="nexus", messages=said("Hi", "Hello"))
    assert refused.value.param == "messages"
    # The answer of a tool that the client has is none.
    items: Any = [*said("Hi"), {"type": "function_call_output", "call_id": "1", "output": "5"}]
    with pytest.raises(openai.BadRequestError, match="must be the user's") as refused:
        await client.responses.create(model="nexus", input=items)
    assert refused.value.param == "input"
    assert await recorded(app) == []


async def test_every_error_is_told_as_openai_does(http: httpx.AsyncClient) -> None:
    stranger, page = {"authorization": "Bearer no"}, {"accept": "text/html"}
    elsewhere = {"origin": "https://evil.example"}
    chat = "/v1/chat/completions"
    answers = [
        (401, "invalid_api_key", await http.post(chat, headers=stranger, json={})),
        (401, "invalid_api_key", await http.get("/v1/nothing", headers=stranger)),
        (403, None, await http.post(chat, headers=elsewhere, json={})),
        (421, None, await http.get("/v1/models", headers={"host": "evil.example"})),
        (404, "unknown_url", await http.post("/v1/embeddings", json={})),
        (404, "unknown_url", await http.get("/v1/nothing", headers=page)),
        (405, None, await http.delete(chat)),
        (413, None, await http.post(chat, content=b" " * 33_554_433)),
        (400, None, await http.post(chat, content=b"{")),
    ]
    for status, code, answer in answers:
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/json"
        error = answer.json()["error"]
        assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, None)
        assert error["message"]
    refused = answers[0][2]
    assert "nexus login --token" in refused.json()["error"]["message"]
    assert answers[6][2].headers["allow"] == "POST"
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert (await http.get("/api/nothing")).headers["content-type"] == "application/problem+json"


async def test_an_error_of_the_model_is_told_and_nothing_is_said_twice(
    http: httpx.AsyncClient, app: App, server: ModelServer
) -> None:
    server.always(HttpError("invalid_request", message="bad prompt"))
    # As it is set up by default: it sends a request again after most errors.
    async with openai.AsyncOpenAI(base_url=f"{http.base_url}/v1", api_key=app.home.token()) as client:
        with pytest.raises(openai.APIStatusError, match="bad prompt"):
            await complete(client, "Hi")
        stream = await client.chat.completions.create(model="nexus", messages=said("Hi"), stream=True)
        with pytest.raises(openai.APIError, match="bad prompt"):
            [chunk async for chunk in stream]
        assert await recorded(app) == ["Hi", "Hi"]
        events = [
            event async for event in await client.responses.create(model="nexus", input="Hi", stream=True)
        ]
        failed: Any = events[-1]
        assert (failed.type, failed.response.status) == ("response.failed", "failed")
        assert "bad prompt" in failed.response.error.message
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert (await client.responses.retrieve(failed.response.id)).status == "failed"


@pytest.mark.parametrize("field", ["user", "model", "content", "filename", "previous_response_id"])
async def test_half_a_character_breaks_nothing(http: httpx.AsyncClient, field: str) -> None:
    content: Any = [
        {"type": "text", "text": "Hi"},
        {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}},
    ]
    body: dict[str, Any] = {"model": "nexus", "input": [{"role": "user", "content": content}]}
    if field == "filename":
        content[1]["file"]["filename"] = "\ud800"
    elif field == "content":
        content[0]["text"] = "\ud800"
    else:
        body[field] = "\ud800"
    answer = await http.post("/v1/responses", content=json.dumps(body).encode())
    assert answer.status_code < 500, answer.text


async def read_events(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> list[Any]:
    """What a stream sends, as it is on the wire."""
    text = (await http.post(path, json={**body, "stream": True})).text
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def check_published(kind: Any, given: Any) -> None:
    """Check that it is what OpenAI's package describes: all that is required, of its types, and no more."""
    read = TypeAdapter(kind).validate_python(given, strict=True)
    assert read.to_dict(exclude_unset=True, mode="json") == given
    unknown = find_unknown(read)
    assert not unknown, unknown


def find_unknown(read: Any) -> list[str]:
    """The fields that the package's types don't have; they accept any."""
    if isinstance(read, list):
        return [name for each in cast("list[Any]", read) for name in find_unknown(each)]
    if not isinstance(read, BaseModel):
        return []
    inner = [name for _, value in read for name in find_unknown(value)]
    return [*(f"{type(read).__name__}.{name}" for name in read.model_extra or ()), *inner]


async def test_answers_are_what_openai_publishes(http: httpx.AsyncClient, server: ModelServer) -> None:
    look = ToolCall("recall", {"query": "tea"})
    server.always(lambda request: "In the tin." if request.tool_results else Turn("Let me look.", [look]))
    chat: dict[str, Any] = {"model": "nexus", "messages": said("Tea?")}
    check_published(ChatCompletion, (await http.post("/v1/chat/completions", json=chat)).json())
    chunks = await read_events(
        http, "/v1/chat/completions", {**chat, "stream_options": {"include_usage": True}}
    )
    for each in chunks:
        check_published(ChatCompletionChunk, each)
    assert len({each["id"] for each in chunks}) == 1

    asked: dict[str, Any] = {"model": "nexus", "input": "Tea?"}
    answer = (await http.post("/v1/responses", json=asked)).json()
    check_published(Response, answer)
    check_published(Response, (await http.get(f"/v1/responses/{answer['id']}")).json())
    events = await read_events(http, "/v1/responses", asked)
    server.always(HttpError("invalid_request", message="bad prompt"))
    failed = await read_events(http, "/v1/responses", asked)
    assert failed[-1]["type"] == "response.failed"
    for each in (*events, *failed):
        check_published(Annotated[ResponseStreamEvent, Field(discriminator="type")], each)

    models = (await http.get("/v1/models")).json()
    for each in models["data"]:
        check_published(Model, each)
    for path, body in (("chat/completions", {**chat, "n": 2}), ("responses", {}), ("nothing", {})):
        check_published(ErrorObject, (await http.post(f"/v1/{path}", json=body)).json()["error"])


async def test_a_session_of_somebody_else_is_not_continued(
    http: httpx.AsyncClient, client: openai.AsyncOpenAI, app: App, server: ModelServer
) -> None:
    """What a client calls its user is data: it names no session but its own."""
    server.always("Hello!")
    theirs = await app.receive("I am a guest", session_label="guests", channel="api")
    await theirs.run.result()
    for user in (
        "guests",
        "../guests",
        "\x00\x1b[2J\u202e",
        "a\nb",
        "openai:" * 70,
        "'; DROP TABLE events; --",
    ):
        answer = await http.post(
            "/v1/chat/completions",
            json={"messages": said("Hi"), "user": user},
            headers={"x-stainless-retry-count": "0"},
        )
        assert answer.status_code in (200, 400), answer.text
    for label in await sessions(app):
        assert label.startswith("openai:")
        assert label.isprintable()
        assert len(label) < 200


async def test_an_image_without_end_is_refused(http: httpx.AsyncClient, app: App) -> None:
    most = app.config.attachments.max_bytes
    url = f"data:image/png;base64,{base64.b64encode(PIXEL + bytes(most)).decode()}"
    image = {"type": "image_url", "image_url": {"url": url}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]
    answer = await http.post("/v1/chat/completions", json={"messages": messages})
    assert (answer.status_code, "too large" in answer.text) == (400, True), answer.text
    many = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}] * 300
    answer = await http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": many}]})
    assert 400 <= answer.status_code < 500, answer.text
    assert await recorded(app) == []


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
