import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_runs import Run
from nexus.broker.agent.text_calls import Holdback, find
from nexus.broker.tools import Tool
from nexus.errors import LimitError
from nexus.testing import PROFILES, ModelRequest, ModelServer, ToolCall, Turn

TOOLS = {
    "write": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
        "additionalProperties": False,
    },
    "recall": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "max_results": {"type": "integer"}},
        "required": ["query"],
        "additionalProperties": False,
    },
}
ARGUMENTS = {"query": "Elin's birthday"}
CALL = json.dumps({"name": "recall", "arguments": ARGUMENTS})

FORMS = {
    "bare": CALL,
    "fenced": f"```json\n{CALL}\n```",
    "fenced_plainly": f"Let me look.\n\n```\n{CALL}\n```\n",
    "hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "unclosed_hermes": f"<tool_call>\n{CALL}",
    "llama": json.dumps({"name": "recall", "parameters": ARGUMENTS}),
    "python_tag": "<|python_tag|>" + json.dumps({"name": "recall", "parameters": ARGUMENTS}) + "<|eom_id|>",
    "openai": json.dumps(
        {"type": "function", "function": {"name": "recall", "arguments": json.dumps(ARGUMENTS)}}
    ),
    "mistral": f"[TOOL_CALLS] [{CALL}]",
    "mistral_named": "[TOOL_CALLS]recall" + json.dumps(ARGUMENTS),
    "null": json.dumps({"name": "recall", "arguments": {**ARGUMENTS, "max_results": None}}),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_a_call_is_found_in_every_form_and_its_text_goes(text: str) -> None:
    found = find(text, TOOLS)
    assert found is not None
    assert [(call.tool, call.arguments) for call in found.calls] == [("recall", ARGUMENTS)]
    assert found.text == ("Let me look." if "Let me" in text else "")


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_nothing_of_a_call_is_shown_while_it_comes(text: str, size: int) -> None:
    holdback = Holdback()
    shown = "".join(holdback.add(text[at : at + size]) for at in range(0, len(text), size))
    assert shown.strip() in {"", "Let me look."}
    assert shown + holdback.rest() == text


@pytest.mark.parametrize(
    "text",
    [
        "Plain words with {braces} and [brackets] and <b>tags</b>.",
        "```python\nprint({'name': 1})\n```\nDone.",
        '```json\n{"city": "Bern"}\n```',
        "A list:\n- [x] one\n- `code`\n",
    ],
)
@pytest.mark.parametrize("size", [1, 7])
def test_other_text_is_shown_as_it_comes(text: str, size: int) -> None:
    holdback = Holdback()
    shown = "".join(holdback.add(text[at : at + size]) for at in range(0, len(text), size))
    assert shown in {text, text.removesuffix("```")}
    assert shown + holdback.rest() == text


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "launch", "arguments": {}}',
        '{"name": "recall", "arguments": {}}',
        '{"name": "recall", "arguments": {"query": 5}}',
        '{"name": "recall", "arguments": {"query": "x", "colour": "red"}}',
        '{"name": "Elin", "born": "14 March"}',
        'Use {"name": "recall"} for that.',
        "No call at all.",
    ],
)
def test_what_is_not_valid_for_an_offered_tool_stays_text(text: str) -> None:
    assert find(text, TOOLS) is None


def test_several_calls_keep_their_order() -> None:
    write = json.dumps({"name": "write", "arguments": {"path": "a", "content": "x"}})
    found = find(f"<tool_call>{CALL}</tool_call>\n<tool_call>{write}</tool_call>", TOOLS)
    assert found is not None
    assert [call.tool for call in found.calls] == ["recall", "write"]
    assert found.text == ""


def test_a_call_that_quotes_what_the_model_was_told_is_not_made() -> None:
    assert find(f"The page says: {CALL}", TOOLS, [f"A page.\n{CALL}\nIts end."]) is None


def test_line_breaks_within_a_text_do_not_spoil_a_call() -> None:
    found = find('{"name": "write", "arguments": {"path": "todo.txt", "content": "one\ntwo"}}', TOOLS)
    assert found is not None
    assert found.calls[0].arguments["content"] == "one\ntwo"


def test_the_name_of_an_operation_means_its_tool() -> None:
    operations = {"op": {"enum": ["dispatch", "wait"]}, "text": {"type": "string"}}
    tools = {"agent_send": {"type": "object", "properties": operations, "required": ["op"]}}
    found = find('{"name": "dispatch", "arguments": {"text": "Look"}}', tools)
    assert found is not None
    assert (found.calls[0].tool, found.calls[0].arguments) == (
        "agent_send",
        {"op": "dispatch", "text": "Look"},
    )


_SEND: dict[str, Any] = {
    "type": "object",
    "properties": {"op": {"type": "string", "enum": ["dispatch", "wait"]}, "text": {"type": "string"}},
    "required": ["op"],
    "additionalProperties": False,
}
_DISPATCH = '```json\n{\n  "op": "dispatch",\n  "text": "Say ready"\n}\n```'


def test_arguments_with_an_operation_name_their_tool() -> None:
    """As Qwen2.5-Coder writes them."""
    tools = {**TOOLS, "agent_send": _SEND}
    found = find(_DISPATCH, tools)
    assert found is not None
    assert [(call.tool, call.arguments) for call in found.calls] == [
        ("agent_send", {"op": "dispatch", "text": "Say ready"})
    ]
    assert find(f"Such as this:\n{_DISPATCH}", tools) is None, "an example"
    assert find('{"op": "jump", "text": "x"}', tools) is None
    assert find('{"query": "tea"}', tools) is None, "that may be the answer itself"
    holdback = Holdback(["op"])
    assert "".join(holdback.add(_DISPATCH[at : at + 3]) for at in range(0, len(_DISPATCH), 3)) == ""


def test_two_tools_may_call_their_operation_the_same() -> None:
    later = {**_SEND, "properties": {**_SEND["properties"], "op": {"type": "string", "enum": ["say", "ask"]}}}
    for tools in ({"agent_send": _SEND, "schedule": later}, {"schedule": later, "agent_send": _SEND}):
        for op, tool in (("dispatch", "agent_send"), ("say", "schedule")):
            found = find(json.dumps({"op": op, "text": "Say ready"}), tools)
            assert found is not None
            assert [call.tool for call in found.calls] == [tool]


@pytest.fixture
def writer_of_calls(tmp_path: Path) -> Iterator[Run]:
    with ModelServer(profile=PROFILES["text_calls"]) as server:
        yield Run(server, tmp_path, "openai")


def _results(request: ModelRequest) -> list[str]:
    return [str(each["content"]) for each in request.json["messages"] if each["role"] == "tool"]


async def test_the_result_of_a_call_in_text_says_what_to_do_next(writer_of_calls: Run) -> None:
    run, server = writer_of_calls, writer_of_calls.server
    bern, oslo = (ToolCall("weather", {"city": city}) for city in ("Bern", "Oslo"))
    server.script(Turn("", [bern]), Turn("", [oslo]), "Snow.")
    assert (await run()).text == "Snow."
    first, second = (_results(request) for request in server.requests[1:])
    assert first[0].startswith("Bern: snow\n\n")
    assert "in words" in first[0]
    assert second[0] == first[0], "the cached prefix stays"


async def test_a_result_told_in_words_is_marked_as_data_and_what_to_do_next_is_not(tmp_path: Path) -> None:
    with ModelServer(profile=PROFILES["no_tools"]) as server:
        server.script('{"name": "weather", "arguments": {"city": "Bern"}}', "Snow.")
        assert (await Run(server, tmp_path, "openai")()).text == "Snow."
    last = server.requests[-1].last_user
    assert "Bern: snow\n</tool_result>\n\n" in last
    assert last.count("in words") == 1
    assert last.index("</tool_result>") < last.index("in words")


async def test_a_failed_call_in_text_says_why_and_nothing_else(writer_of_calls: Run) -> None:
    run, server = writer_of_calls, writer_of_calls.server
    server.script(Turn("", [ToolCall("weather", {"city": "Atlantis"})]), "There is none.")
    await run()
    (result,) = _results(server.requests[-1])
    assert "There is no such city" in result
    assert "in words" not in result


async def test_calls_that_come_as_calls_give_their_result_alone(made: Callable[..., Run]) -> None:
    run = made()
    run.server.script(Turn("", [ToolCall("weather", {"city": "Bern"})]), "Snow.")
    await run()
    assert "in words" not in str(run.server.requests[-1].json["messages"])


async def test_a_call_that_a_model_recites_is_not_made_again(writer_of_calls: Run) -> None:
    run, server = writer_of_calls, writer_of_calls.server
    made: list[str] = []

    async def weather(tool: Tool, arguments: Mapping[str, Any], call_id: str) -> str:
        made.append(arguments["city"])
        return f"{arguments['city']}: snow"

    run.call = weather
    bern, oslo = (ToolCall("weather", {"city": city}) for city in ("Bern", "Oslo"))
    server.script(Turn("", [bern]), Turn("", [bern]), Turn("", [oslo]), Turn("", [bern]), "Snow.")
    assert (await run()).text == "Snow."
    assert made == ["Bern", "Oslo", "Bern"], "what came after another call is meant"
    assert "not made again" in _results(server.requests[2])[1]


async def test_a_model_that_goes_on_reciting_a_call_is_stopped(writer_of_calls: Run) -> None:
    run, server = writer_of_calls, writer_of_calls.server
    server.always(Turn("", [ToolCall("weather", {"city": "Bern"})]))
    with pytest.raises(LimitError, match="same call of weather"):
        await run()
    assert len(server.requests) == 4
    assert len([result for _, result, _, _ in run.journal.calls.values() if result == "Bern: snow"]) == 1


async def test_a_repeatable_call_may_be_made_again(writer_of_calls: Run) -> None:
    run, server = writer_of_calls, writer_of_calls.server
    look = Turn("", [ToolCall("look", {"city": "Bern"})])
    server.script(look, look, look, look, "Snow.")
    assert (await run()).text == "Snow."
    assert all(each.startswith("Bern: snow") for each in _results(server.requests[-1]))
