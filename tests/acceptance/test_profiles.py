"""One conversation with five kinds of model: right answers, a written memory, no wasted call."""

import re

import pytest

from memory_writers import extracted, extracting, is_extractor, quiet, rows
from nexus.app import App
from nexus.home import Home
from nexus.testing import PROFILES, ModelRequest, ModelServer, ToolCall, Turn

_TAUGHT = "My sister Elin has her birthday on 14 March."
_ASKED = "When is my sister Elin's birthday?"
_TOPICS = ("bread", "chess", "sailing", "maps", "tea")


def _question(request: ModelRequest) -> str:
    """What was last asked. A server without tools is told their results as messages."""
    said = [str(each["content"]) for each in request.json["messages"] if each["role"] == "user"]
    return next(text for text in reversed(said) if not text.startswith("<tool_result"))


def _mind(request: ModelRequest) -> Turn:
    """A model that remembers nothing, and asks the memory."""
    question = _question(request).rpartition("</situation>")[2].strip()
    if is_extractor(request):
        taught = ("Elin", "Elin has her birthday on 14 March")
        return Turn(extracted(taught) if _TAUGHT in question else extracted())
    if "Sum up the conversation" in question:
        return Turn("We talked about Elin's birthday and about hobbies.")
    if question.endswith(_ASKED):
        last = request.json["messages"][-1]
        is_result = last["role"] == "tool" or str(last["content"]).startswith("<tool_result")
        found = re.search(r"birthday on (\d+ \w+)", str(last["content"]) if is_result else "")
        call = ToolCall("recall", {"query": "Elin's birthday", "entity": None})
        return Turn(f"On {found[1]}.") if found else Turn("", [call])
    if question.startswith("Tell me about"):
        topic = question.split()[-1].strip(".")
        return Turn(" ".join(f"{topic} fact {number}." for number in range(90)))
    return Turn("Noted.")


async def _say(app: App, text: str) -> str:
    return (await (await app.send(text)).result()).response.content


@pytest.mark.parametrize("name", PROFILES)
async def test_a_conversation_works_with_every_kind_of_model(home: Home, name: str) -> None:
    with ModelServer(profile=PROFILES[name]) as server:
        server.always(_mind)
        async with extracting(home, server) as app:
            assert await _say(app, _TAUGHT) == "Noted."
            await quiet(app)
            answer = await _say(app, _ASKED)
            for topic in _TOPICS:
                assert (await _say(app, f"Tell me about {topic}.")).startswith(f"{topic} fact 0.")
            later = await _say(app, "Thank you.")
            await quiet(app)
            facts = await rows(app, "memory", "SELECT fact FROM facts")
            failed = await rows(app, "runtime", "SELECT count(*) FROM executions WHERE status <> 'done'")
    assert answer == "On 14 March."
    assert later == "Noted."
    assert ("Elin has her birthday on 14 March",) in facts
    assert failed == [(0,)]
    refused = [each for each in server.exchanges if each.answer.status != 200]
    # That a server takes no tools is learned from one refusal; a window is known before it is exceeded.
    assert len(refused) == (1 if name == "no_tools" else 0)
