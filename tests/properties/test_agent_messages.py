"""Whatever a conversation holds, it is reloaded exactly as it was stored."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from nexus.broker.agent import message_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NAME = st.text(st.sampled_from("abcdefgh_"), min_size=1, max_size=12)
MOMENT = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)).map(lambda m: m.replace(tzinfo=UTC))  # noqa: DTZ001
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
REQUESTS = st.builds(
    ModelRequest,
    parts=st.lists(
        st.builds(UserPromptPart, content=TEXT, timestamp=MOMENT)
        | st.builds(
            ToolReturnPart,
            tool_name=NAME,
            content=TEXT,
            tool_call_id=NAME,
            timestamp=MOMENT,
            outcome=st.sampled_from(["success", "failed"]),
        ),
        min_size=1,
        max_size=3,
    ),
    timestamp=MOMENT,
    run_id=st.none() | NAME,
)
TOKENS = st.integers(0, 10**9)
ARGUMENTS = st.dictionaries(TEXT, JSON, max_size=3) | TEXT
SAID = st.builds(TextPart, content=TEXT)
THOUGHT = st.builds(
    ThinkingPart, content=TEXT, signature=st.none() | TEXT, provider_name=st.just("anthropic")
)
CALLED = st.builds(ToolCallPart, tool_name=NAME, args=ARGUMENTS, tool_call_id=NAME)
RESPONSES = st.builds(
    ModelResponse,
    parts=st.lists(SAID | THOUGHT | CALLED, max_size=4),
    usage=st.builds(RequestUsage, input_tokens=TOKENS, cache_read_tokens=TOKENS, output_tokens=TOKENS),
    model_name=st.none() | NAME,
    timestamp=MOMENT,
    provider_name=st.sampled_from(["anthropic", "openai"]),
    provider_details=st.none() | st.dictionaries(NAME, JSON, max_size=2),
)


@settings(deadline=None)
@given(REQUESTS | RESPONSES)
def test_a_message_is_the_same_after_it_was_stored(message: ModelMessage) -> None:
    kept = message_json.dump_message(message)
    assert message_json.load_message(kept.parts_json) == message
    assert message_json.dump_message(message_json.load_message(kept.parts_json)) == kept


@settings(deadline=None)
@given(RESPONSES)
def test_the_readable_text_is_what_the_model_said(response: ModelResponse) -> None:
    said = [part.content for part in response.parts if isinstance(part, TextPart)]
    assert message_json.dump_message(response).content == "".join(said)
