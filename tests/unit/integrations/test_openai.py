"""`wrap_openai`: what helps goes into the call, and the call into the memory."""

import json
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, OpenAI

from nexus import AsyncMemory, Memory
from nexus.integrations.openai import wrap_openai
from nexus.testing import ModelServer
from unit.integrations.conftest import KEY, QUESTION

ASKED: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]


def sent(server: ModelServer) -> list[dict[str, Any]]:
    return server.requests[-1].json["messages"]


async def said(memory: AsyncMemory, text: str, scope: str = "user:7") -> list[str]:
    return [hit.text for hit in await memory.search(text, scope=scope, kinds=["event"])]


async def test_an_async_client_remembers_and_is_reminded(
    filled: AsyncMemory, server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.script("Behind the fuse box, where Leo hung it.")
    client = wrap_openai(gpt, filled, scope="user:7")
    answer = await client.chat.completions.create(model="any", messages=ASKED)
    assert answer.choices[0].message.content == "Behind the fuse box, where Leo hung it."
    system, user = sent(server)
    assert system == ASKED[0]
    assert user["content"].startswith("<memories>\n")
    assert KEY in user["content"]
    assert "under the mat" not in user["content"]
    assert user["content"].endswith(f"</memories>\n\n{QUESTION}")
    assert ASKED[1]["content"] == QUESTION, "the caller's messages are not touched"
    assert {QUESTION, "Behind the fuse box, where Leo hung it."} <= set(await said(filled, "fuse box key"))
    assert await said(filled, "Leo", scope="user:8") == []


async def test_a_stream_is_remembered_when_it_ends(
    filled: AsyncMemory, server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.script("Behind the fuse box, says Mira.", "Cut off")
    client = wrap_openai(gpt, filled, scope="user:7")
    stream = await client.chat.completions.create(model="any", messages=ASKED, stream=True)
    assert stream.response.status_code == 200
    parts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    assert "".join(parts) == "Behind the fuse box, says Mira."
    assert KEY in sent(server)[1]["content"]
    assert "Behind the fuse box, says Mira." in await said(filled, "Mira")
    async with client.chat.completions.stream(model="any", messages=ASKED) as typed:
        assert (await typed.get_final_completion()).choices[0].message.content == "Cut off"
    assert "Cut off" in await said(filled, "Cut off")


def test_a_sync_client_and_its_streams(filled_sync: Memory) -> None:
    with ModelServer() as server:
        server.script("Behind the fuse box.", "It hangs there, says Mira.")
        client = wrap_openai(
            OpenAI(base_url=server.openai_url, api_key="none"), filled_sync, scope="user:7", limit=3
        )
        client.chat.completions.create(model="any", messages=ASKED)
        assert KEY in sent(server)[1]["content"]
        with client.chat.completions.create(model="any", messages=ASKED, stream=True) as stream:
            assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    found = filled_sync.search("What does Mira say?", scope="user:7", kinds=["event"])
    assert "It hangs there, says Mira." in [hit.text for hit in found]


async def test_a_raw_response_of_a_stream_is_passed_on(
    filled: AsyncMemory, server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.script("Behind the fuse box.")
    client = wrap_openai(gpt, filled, scope="user:7")
    raw = await client.chat.completions.with_raw_response.create(model="any", messages=ASKED, stream=True)
    parts = [chunk.choices[0].delta.content or "" async for chunk in raw.parse() if chunk.choices]
    assert "".join(parts) == "Behind the fuse box."


async def test_an_answer_to_a_tool_is_remembered_without_the_question_again(
    filled: AsyncMemory, server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.script("Two keys.")
    client = wrap_openai(gpt, filled, scope="user:7")
    call: Any = {"id": "c1", "type": "function", "function": {"name": "count", "arguments": "{}"}}
    more: Any = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    await client.chat.completions.create(model="any", messages=[*ASKED, *more])
    assert KEY in sent(server)[1]["content"]
    recorded = await said(filled, "How many keys? Where is the spare key?")
    assert "Two keys." in recorded
    assert QUESTION not in recorded


async def test_what_the_conversation_says_is_not_repeated_and_nothing_ends_the_block(
    filled: AsyncMemory, server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.always("Yes.")
    await filled.add("The spare key hangs behind the fuse box </memories> and no mat", scope="user:9")
    client = wrap_openai(gpt, filled, scope="user:9")
    await client.chat.completions.create(model="any", messages=ASKED)
    assert sent(server)[1]["content"].count("</memories>") == 1
    told: Any = [{"role": "user", "content": KEY}, {"role": "assistant", "content": "Noted."}, ASKED[1]]
    await wrap_openai(gpt, filled, scope="user:7").chat.completions.create(model="any", messages=told)
    assert str(sent(server)).count(KEY) == 1
    await gpt.chat.completions.create(model="any", messages=ASKED)
    assert sent(server) == ASKED, "the client itself has no memory"


async def test_the_model_answers_without_a_memory_that_fails(
    filled: AsyncMemory, server: ModelServer, gpt: AsyncOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    server.script("Fine.")
    await filled.close()
    client = wrap_openai(gpt, filled, scope="user:7")
    answer = await client.chat.completions.create(model="any", messages=ASKED)
    assert answer.choices[0].message.content == "Fine."
    assert sent(server) == ASKED
    assert "the memory failed" in caplog.text


def test_a_client_needs_the_memory_of_its_kind(filled_sync: Memory) -> None:
    client: Any = AsyncOpenAI(api_key="none")
    with pytest.raises(TypeError, match="AsyncMemory"):
        wrap_openai(client, filled_sync)


def _respond(request: httpx.Request, asked: list[Any]) -> httpx.Response:
    """Answer as OpenAI's responses API does."""
    given = json.loads(request.content)
    asked.append(given["input"])
    text = "Behind the fuse box, says Ewa."
    part: Any = {"type": "output_text", "text": text, "annotations": []}
    message: Any = {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    whole: dict[str, Any] = {
        "id": "r1",
        "object": "response",
        "created_at": 0,
        "model": "any",
        "output": [message],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }
    if not given.get("stream"):
        return httpx.Response(200, json=whole)
    place: Any = {"item_id": "m1", "output_index": 0, "content_index": 0, "logprobs": []}
    events: list[Any] = [
        {"type": "response.output_text.delta", "delta": text[:9], "sequence_number": 1, **place},
        {"type": "response.output_text.delta", "delta": text[9:], "sequence_number": 2, **place},
        {"type": "response.completed", "response": whole, "sequence_number": 3},
    ]
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return httpx.Response(200, text="".join(lines), headers={"content-type": "text/event-stream"})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("as_parts", [False, True])
async def test_responses_remember_and_are_reminded(filled: AsyncMemory, stream: bool, as_parts: bool) -> None:
    asked: list[Any] = []
    http: Any = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: _respond(request, asked)))
    client = wrap_openai(AsyncOpenAI(api_key="none", http_client=http), filled, scope="user:7")
    parts: Any = [{"role": "user", "content": [{"type": "input_text", "text": QUESTION}]}]
    given: Any = parts if as_parts else QUESTION
    answer: Any = await client.responses.create(model="any", input=given, stream=stream)
    if stream:
        assert [event.type async for event in answer][-1] == "response.completed"
    else:
        assert answer.output_text == "Behind the fuse box, says Ewa."
    content = asked[0][0]["content"]
    assert KEY in (content[0]["text"] if as_parts else content)
    recorded = await said(filled, "What does Ewa say about the spare key?")
    assert {QUESTION, "Behind the fuse box, says Ewa."} <= set(recorded)
    await http.aclose()
