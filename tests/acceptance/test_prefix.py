"""What a provider has cached stays usable: a request begins with the last one's bytes, a fork's as well."""

import re
from itertools import pairwise

import pytest

from apps import app_on
from memory_writers import is_reflection, is_writer, quiet, writing
from nexus.app import App
from nexus.home import Home
from nexus.ledgers.runtime import requests
from nexus.request import Access, Agent, Event, Request
from nexus.testing import ModelRequest, ModelServer, ToolCall, Turn

_TURNS = 30
_MESSAGES = b'"messages":['


def split(request: ModelRequest) -> tuple[bytes, bytes, bytes]:
    """The body as it was sent: what is before its messages, the messages, and what is after them.

    How long an answer may get differs by role, and is no part of the prompt.
    """
    before, mark, rest = re.sub(rb'"max_tokens":\d+,', b"", request.body).partition(_MESSAGES)
    assert mark, "the messages are one list in the body"
    depth, in_text, escaped = 1, False, False
    for place, byte in enumerate(rest):
        if in_text:
            in_text, escaped = byte != ord('"') or escaped, byte == ord("\\") and not escaped
        elif byte == ord('"'):
            in_text = True
        elif byte in b"[{":
            depth += 1
        elif byte in b"]}":
            depth -= 1
            if depth == 0:
                return before, rest[:place], rest[place + 1 :]
    raise AssertionError("the list of messages has no end")


def assert_extends(later: ModelRequest, earlier: ModelRequest) -> None:
    """Byte for byte: the same outside of the messages, and the earlier messages first."""
    before, said, after = split(earlier)
    later_before, later_said, later_after = split(later)
    assert (later_before, later_after) == (before, after)
    shared = next((i for i, (a, b) in enumerate(zip(said, later_said, strict=False)) if a != b), len(said))
    was, became = said[max(0, shared - 200) :][:300], later_said[max(0, shared - 200) :][:300]
    assert shared == len(said), f"{was!r} became {became!r}"
    assert len(later_said) > len(said)


async def fork(app: App) -> None:
    """Ask something in a fork of the session `main`, as an automation does."""
    request = Request(
        event=Event(content="What was learned?"),
        agent=Agent(role="worker", session_label="main"),
        access=Access(level="owner", tools=None),
    )
    await app.ledgers.runtime.write(requests.create, request=request)
    label = "meeseeks:writer:main"
    context = await app.broker.assemble_context(
        request, session_label=label, task="What was learned?", role="worker", fork_of="main"
    )
    context.role_context = "You write the memory."
    await (await app.broker.start_execution(request, context)).result()


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_thirty_turns_and_a_fork_share_their_prefix(home: Home, server: ModelServer, wire: str) -> None:
    for turn in range(_TURNS):
        if turn % 5 == 1:
            calls = [ToolCall("bash", {"command": f"echo {turn}"}), ToolCall("agent_send", {"op": "status"})]
            server.script(Turn("Let me look.", calls, thinking="Look first."))
        server.script(Turn(f'Answer {turn}: "quoted" \\ and ünïcode', thinking=f"Hm, {turn}."))
    server.script("Nothing new.")
    async with app_on(home, server, wire) as app:
        for turn in range(_TURNS):
            await (await app.send(f"Question {turn}, with a ] and a }} in it")).result()
        await fork(app)
    server.assert_exhausted()
    sent = server.requests
    assert len(sent) == _TURNS + 6 + 1
    for earlier, later in pairwise(sent):
        assert_extends(later, earlier)
    # The cache of the server itself agrees: nothing but the new part was ever read afresh.
    read = [exchange.answer.usage.cache_read_tokens for exchange in server.exchanges[1:]]
    assert all(tokens > 0 for tokens in read)
    assert read == sorted(read)


# As people talk with an agent: a question of a few lines, an answer of a few paragraphs.
_QUESTION = (
    "Question {n}: Ada asks about the ferry to Bergen on the {n}. of May, and whether the cabins are taken. "
    * 3
)
_ANSWER = (
    "Answer {n}: the ferry of the {n}. leaves at nine; two cabins are left, one with a window to the sea. "
    * 8
)


def prefix_bytes(later: ModelRequest, earlier: ModelRequest) -> int:
    """How much of a request is the one before it, byte for byte: all of that but the end of its messages.

    Providers read tools and settings first, wherever they stand in the body.
    """
    assert_extends(later, earlier)
    before, said, after = split(earlier)
    return len(before) + len(_MESSAGES) + len(said) + len(after)


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_a_writer_reads_most_of_its_prompt_from_its_parents_prefix(
    home: Home, server: ModelServer, wire: str
) -> None:
    """After thirty turns at least 85 % of the writer's request, in tokens and in bytes, is its parent's."""
    server.when(is_reflection).always("Nothing learned")
    for turn in range(_TURNS):
        server.script(_ANSWER.format(n=turn))
    async with app_on(home, server, wire) as app:
        for turn in range(_TURNS - 1):
            await (await app.send(_QUESTION.format(n=turn))).result()
    server.when(is_writer).script("Nothing to remember")
    async with writing(home, server, wire) as app:
        await (await app.send(_QUESTION.format(n=_TURNS - 1))).result()
        await quiet(app)
    parent, written = server.exchanges[_TURNS - 1 : _TURNS + 1]
    assert is_writer(written.request)
    assert prefix_bytes(written.request, parent.request) >= 0.8 * len(written.request.body)
    used = written.answer.usage
    assert used.cache_read_tokens >= 0.8 * used.prompt_tokens
