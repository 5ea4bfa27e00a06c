import pytest
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from nexus import ids
from nexus.broker.agent.short_ids import Expander, ShortIds

FACT, OTHER, EVENT = ids.new("fact"), ids.new("fact"), ids.new("evt")
TOLD = [
    ModelRequest(parts=[UserPromptPart(f"See {FACT} (from {EVENT}).")]),
    ModelResponse(parts=[ToolCallPart("bash", {"command": f"echo {OTHER}"}, "c1")]),
    ModelRequest(parts=[ToolReturnPart("bash", f"{OTHER} and {FACT}", "c1")]),
]


def test_a_model_reads_short_ids_and_the_same_conversation_has_the_same_ones() -> None:
    text = str(ShortIds().shorten(TOLD))
    assert "See fact_1 (from evt_1)." in text
    assert "fact_2 and fact_1" in text
    assert FACT not in text
    assert str(ShortIds().shorten([*TOLD, *TOLD])).startswith(text[:-1])


def test_what_a_model_says_has_whole_ids_again() -> None:
    short = ShortIds()
    short.shorten(TOLD)
    said = ModelResponse(parts=[TextPart("By fact_2."), ToolCallPart("recall", '{"query": "fact_1"}', "c2")])
    text, call = short.response(said).parts
    assert isinstance(text, TextPart)
    assert isinstance(call, ToolCallPart)
    assert text.content == f"By {OTHER}."
    assert call.args_as_dict() == {"query": FACT}


@pytest.mark.parametrize("text", ["fact_9 is not known", "a fact_finding mission", "artefact_1", "evt_"])
def test_other_words_stay(text: str) -> None:
    short = ShortIds()
    short.shorten(TOLD)
    assert short.expand(text) == text


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_pieces_are_expanded_like_the_whole(size: int) -> None:
    short = ShortIds()
    short.shorten(TOLD)
    text = "First fact_2, then evt_1; a fact is a fact_1. The event ends with fact"
    expander = Expander(short)
    shown = "".join(expander.add(text[at : at + size]) for at in range(0, len(text), size)) + expander.rest()
    assert shown == short.expand(text)
    assert OTHER in shown
