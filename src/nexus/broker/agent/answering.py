"""One attempt at one answer: streamed, timed, and its bill."""

import asyncio
import json
import time
from dataclasses import replace
from typing import Literal, Protocol

from pydantic_ai.exceptions import ModelConnectionError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.usage import RequestUsage

from nexus import clock, ids
from nexus.answer import Delta
from nexus.broker.agent import messages as stored_messages
from nexus.broker.agent import prices
from nexus.broker.agent.models import Candidate
from nexus.broker.agent.records import Attempt, Estimate

# Where a provider tells nothing, a token is taken to have this many bytes.
_BYTES_PER_TOKEN = 4
# How long an answer is taken to get, before it is there: few are longer.
_ANSWER_TOKENS = 4_096


class Listener(Protocol):
    """Who is told the pieces of an answer as they come."""

    def publish(self, delta: Delta) -> None: ...


class Answering:
    """A request that is made once."""

    def __init__(
        self,
        candidate: Candidate,
        stream: Listener,
        messages: list[ModelMessage],
        parameters: ModelRequestParameters,
    ) -> None:
        self._id = ids.new("use")
        self._candidate = candidate
        self._stream = stream
        self._messages = messages
        self._parameters = _offered(candidate, parameters)
        self._began = time.monotonic()
        self._started_at = clock.timestamp(clock.now())
        self._first_delta_ms: float | None = None
        self._response: StreamedResponse | None = None
        self._paused = RequestUsage()
        """What the parts of the answer before the provider's pauses used."""
        self._sent_bytes = _length_bytes(messages, parameters)
        self._received_bytes = 0
        self.unmeasured = False
        """The answer broke off before the provider said how long the prompt was."""

    def estimate(self) -> Estimate:
        """What it may come to: the prompt as if none of it were cached, and a long answer."""
        usage = RequestUsage(input_tokens=_tokens(self._sent_bytes), output_tokens=_ANSWER_TOKENS)
        return Estimate(
            id=self._id,
            provider=self._candidate.provider,
            model=self._candidate.model.model_name,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost_microusd=self._cost(usage),
        )

    async def run(self) -> ModelResponse:
        """The complete answer. Its deltas are published as they come."""
        self._began = time.monotonic()
        self._started_at = clock.timestamp(clock.now())
        answer = await self._streamed(self._messages)
        while answer.state == "suspended":  # the provider pauses amid a long search with a tool of its own
            self._paused += answer.usage
            more = await self._streamed([*self._messages, answer])
            answer = replace(more, parts=[*answer.parts, *more.parts])
        return replace(answer, state="complete", usage=self._paused + answer.usage)

    async def _streamed(self, messages: list[ModelMessage]) -> ModelResponse:
        model, config, parameters = self._candidate.model, self._candidate.config, self._parameters
        prepared = model.prepare_messages(messages, parameters)
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(config.timeout_ms / 1000)
        try:
            async with (
                limit,
                model.request_stream(prepared, self._candidate.settings, parameters) as response,
            ):
                self._response = response
                async for event in response:
                    limit.reschedule(loop.time() + config.stall_ms / 1000)
                    self._publish(event)
        except TimeoutError as error:
            reason = self._waited_for() if limit.expired() else str(error) or "it took too long"
            raise ModelConnectionError(model.model_name, reason) from None
        answer = response.get()
        if answer.state == "incomplete":
            raise ModelConnectionError(model.model_name, "the answer ended before it was complete")
        return answer

    def attempt(self, failure: str | None) -> Attempt:
        """What this attempt used, for the bill, and why it failed if it did."""
        usage = self._paused + (self._response.usage if self._response is not None else RequestUsage())
        broke_off = failure is not None and self._response is not None
        if broke_off:
            usage = replace(usage, output_tokens=max(usage.output_tokens, _tokens(self._received_bytes)))
        self.unmeasured = broke_off and not usage.input_tokens
        if self.unmeasured:
            usage = replace(usage, input_tokens=_tokens(self._sent_bytes))
        return Attempt(
            id=self._id,
            provider=self._candidate.provider,
            model=self._candidate.model.model_name,
            input_tokens=usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
            cost_microusd=self._cost(usage),
            estimated=broke_off,
            started_at=self._started_at,
            duration_ms=(time.monotonic() - self._began) * 1000,
            first_delta_ms=self._first_delta_ms,
            error=failure,
        )

    def corrected(self, attempt: Attempt, whole: RequestUsage) -> Attempt:
        """The bill of an attempt that broke off, now that the same request was answered in whole.

        How much of it was read from a cache is not known, so none is taken to be.
        """
        usage = RequestUsage(input_tokens=whole.input_tokens, output_tokens=attempt.output_tokens)
        return replace(attempt, input_tokens=usage.input_tokens, cost_microusd=self._cost(usage))

    def _publish(self, event: ModelResponseStreamEvent) -> None:
        if self._first_delta_ms is None:
            self._first_delta_ms = (time.monotonic() - self._began) * 1000
        match event:
            case (
                PartStartEvent(part=TextPart(content=text))
                | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
            ):
                self._piece("text", text)
            case PartStartEvent(part=ThinkingPart(content=text)):
                self._piece("thinking", text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))):
                self._piece("thinking", text)
            case PartEndEvent(part=ToolCallPart() as call):
                text = call.args_as_json_str()
                self._received_bytes += len(call.tool_name) + len(text.encode())
                delta = Delta(kind="tool_call", text=text, tool=call.tool_name, call_id=call.tool_call_id)
                self._stream.publish(delta)
            case _:
                pass

    def _piece(self, kind: Literal["text", "thinking"], text: str) -> None:
        if text:
            self._received_bytes += len(text.encode())
            self._stream.publish(Delta(kind=kind, text=text))

    def _waited_for(self) -> str:
        config = self._candidate.config
        if self._first_delta_ms is None:
            return f"no answer began within {config.timeout_ms} ms"
        return f"the answer paused for more than {config.stall_ms} ms"

    def _cost(self, usage: RequestUsage) -> int | None:
        model, price = self._candidate.model, self._candidate.price
        return prices.cost_microusd(usage, model=model.model_name, base_url=model.base_url or "", price=price)


def _offered(candidate: Candidate, parameters: ModelRequestParameters) -> ModelRequestParameters:
    """What is asked for, without the provider's own tools that the model lacks: clients refuse them."""
    has = tuple(candidate.model.profile.get("supported_native_tools", ()))
    return replace(
        parameters, native_tools=[tool for tool in parameters.native_tools if isinstance(tool, has)]
    )


def _tokens(length_bytes: int) -> int:
    return -(-length_bytes // _BYTES_PER_TOKEN)


def _length_bytes(messages: list[ModelMessage], parameters: ModelRequestParameters) -> int:
    tools = [(tool.name, tool.description, tool.parameters_json_schema) for tool in parameters.function_tools]
    said = sum(len(stored_messages.stored(message).content.encode()) for message in messages)
    last = messages[-1]
    instructions = last.instructions if isinstance(last, ModelRequest) else None
    return said + len(json.dumps(tools).encode()) + len((instructions or "").encode())
