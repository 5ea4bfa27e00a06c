"""One attempt at one answer: streamed, timed, and its bill."""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from pydantic_ai.exceptions import ModelConnectionError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
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
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.usage import RequestUsage

from nexus import clock, ids
from nexus.broker import pace
from nexus.broker.agent import fitting, prices
from nexus.broker.agent.models import Candidate
from nexus.broker.agent.records import Attempt, Estimate
from nexus.broker.agent.short_ids import Expander, ShortIds
from nexus.broker.agent.text_calls import Holdback
from nexus.ledgers.runtime.models import Capabilities
from nexus.runs import Delta

# Assumed length of an answer when estimating: few are longer.
_ANSWER_TOKENS = 4_096
# An answer that isn't streamed may take this many times the longest allowed pause.
_WHOLE_STALLS = 10
_REPEATED = "\n\n[Cut off: the model began to repeat itself.]"
# How often a span must come again, and how much text that must be: tables and code repeat themselves too.
_REPEATED_TIMES = 8
_LEAST_REPEATED = 2_000
_LONGEST_SPAN = 500
# Text that repeats has its last so many characters one span earlier, too: only then is the rest compared.
_SAMPLE = 24
# How much new text there must be before it is looked at again.
_LOOK_EVERY = 200


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as one model gets it."""

    messages: list[ModelMessage]
    parameters: ModelRequestParameters = field(default_factory=ModelRequestParameters)
    settings: ModelSettings = field(default_factory=ModelSettings)
    known: Capabilities = field(default_factory=Capabilities)
    length_bytes: int = 0
    """About how long it is."""
    first_ms: int = 0
    """How long to wait until an answer begins; 0: as the provider's settings say."""
    stall_ms: int = 0
    """How long it may pause; 0: as the provider's settings say."""
    ids: ShortIds = field(default_factory=ShortIds)
    holds_back: bool = False
    """Whether what may be a call is not shown as text before it is known not to be one."""
    call_keys: tuple[str, ...] = ()
    """Keys with which arguments that are written without their tool may begin."""


class Listener(Protocol):
    """Who is told the pieces of an answer as they come."""

    def publish(self, delta: Delta) -> None: ...


class Answering:
    """A request that is made once."""

    def __init__(self, candidate: Candidate, stream: Listener, asked: Asked) -> None:
        self._id = ids.new("use")
        self._candidate = candidate
        self._stream = stream
        self.asked = replace(asked, parameters=_offer_tools(candidate, asked.parameters))
        self._first_ms = asked.first_ms or candidate.config.timeout_ms
        self._stall_ms = asked.stall_ms or candidate.config.stall_ms
        self._began = time.monotonic()
        self._started_at = clock.timestamp(clock.now())
        self._first_delta_ms: float | None = None
        self._response: StreamedResponse | ModelResponse | None = None
        self._paused = RequestUsage()
        """What the parts of the answer before the provider's pauses used."""
        self.sent_bytes = asked.length_bytes
        self._received_bytes = 0
        self._repetitions = {"text": Repetition(), "thinking": Repetition()}
        self._holdback = Holdback(asked.call_keys)
        self._expander = Expander(asked.ids)
        self._said = {"text": "", "thinking": ""}
        self._repeating: Literal["text", "thinking"] | None = None
        self.unmeasured = False
        """The answer broke off before the provider said how long the prompt was."""

    @property
    def has_images(self) -> bool:
        return any(
            isinstance(item, BinaryContent)
            for message in self.asked.messages
            for part in message.parts
            if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
            for item in part.content
        )

    def estimate(self) -> Estimate:
        """What it may come to: the prompt as if none of it were cached, and a long answer."""
        answer = self.asked.settings.get("max_tokens") or _ANSWER_TOKENS
        usage = RequestUsage(
            input_tokens=self._tokens(self.sent_bytes), output_tokens=min(answer, _ANSWER_TOKENS)
        )
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
        await pace.let_pass()
        model, parameters = self._candidate.model, self.asked.parameters
        settings = merge_model_settings(self._candidate.settings, self.asked.settings)
        messages, loop = self.asked.messages, asyncio.get_running_loop()
        earlier: list[ModelResponse] = []
        while True:
            prepared = model.prepare_messages([*messages, *earlier], parameters)
            if self.asked.known.streams is False:
                answer = await self._whole(model.request(prepared, settings, parameters))
            else:
                limit, has_begun = asyncio.timeout(self._first_ms / 1000), False
                try:
                    async with limit, model.request_stream(prepared, settings, parameters) as response:
                        self._response = response
                        async for event in response:
                            await pace.let_pass()
                            has_begun = True
                            limit.reschedule(loop.time() + self._stall_ms / 1000)
                            self._publish(event)
                            if self._repeating is not None:
                                break
                except TimeoutError as error:
                    reason = (
                        self._waited_for(has_begun=has_begun)
                        if limit.expired()
                        else str(error) or "timed out"
                    )
                    raise ModelConnectionError(model.model_name, reason) from None
                answer = response.get()
                if self._repeating is not None:
                    answer = self._cut_off(answer)
                elif answer.state == "incomplete":
                    raise ModelConnectionError(model.model_name, "the answer was cut off")
            answer = replace(answer, parts=[part for each in (*earlier, answer) for part in each.parts])
            if answer.state != "suspended":
                return replace(answer, state="complete", usage=self._paused + answer.usage)
            # The provider pauses amid a long search with a tool of its own.
            self._paused += answer.usage
            self._response = None
            earlier = [answer]

    async def _whole(self, request: Awaitable[ModelResponse]) -> ModelResponse:
        """The answer of a server that does not stream: it must read the prompt and write all of it first."""
        limit_ms = self._first_ms + _WHOLE_STALLS * self._stall_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                answer = self._response = await request
        except TimeoutError:
            reason = f"no answer within {limit_ms} ms"
            raise ModelConnectionError(self._candidate.model.model_name, reason) from None
        for number, part in enumerate(answer.parts):
            self._publish(PartStartEvent(index=number, part=part))
            self._publish(PartEndEvent(index=number, part=part))
        return answer if self._repeating is None else self._cut_off(answer)

    def publish(self, delta: Delta) -> None:
        """Show something of this answer that did not come as such."""
        self._stream.publish(delta)

    def show_rest(self) -> None:
        """Show what was held back: it is no call."""
        self._show("text", self._expander.add(self._holdback.rest()) + self._expander.rest())

    def attempt(self, failure: str | None) -> Attempt:
        """What this attempt used, for the bill, and why it failed if it did."""
        usage = self._paused + (self._response.usage if self._response is not None else RequestUsage())
        broke_off = (failure is not None or self._repeating is not None) and self._response is not None
        if broke_off:
            usage = replace(
                usage,
                output_tokens=max(usage.output_tokens, fitting.tokens(self._received_bytes, Capabilities())),
            )
        self.unmeasured = broke_off and not usage.input_tokens
        if self.unmeasured:
            usage = replace(usage, input_tokens=self._tokens(self.sent_bytes))
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

    def correct(self, attempt: Attempt, whole: RequestUsage) -> Attempt:
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
            case PartEndEvent(part=TextPart()):
                self._show("text", self._expander.rest())
            case PartEndEvent(part=ToolCallPart() as call):
                text = self.asked.ids.expand(call.args_as_json_str())
                self._received_bytes += len(call.tool_name) + len(text.encode())
                delta = Delta(kind="tool_call", text=text, tool=call.tool_name, call_id=call.tool_call_id)
                self._stream.publish(delta)
            case _:
                pass

    def _piece(self, kind: Literal["text", "thinking"], text: str) -> None:
        if not text:
            return
        self._received_bytes += len(text.encode())
        self._said[kind] += text
        repeated = self._repetitions[kind].add(text)
        if repeated:
            self._repeating = kind
            self._said[kind] = self._said[kind][:-repeated]
            return
        self._show_piece(kind, text)

    def _show_piece(self, kind: Literal["text", "thinking"], text: str) -> None:
        if kind == "text":
            text = self._expander.add(self._holdback.add(text) if self.asked.holds_back else text)
        self._show(kind, text)

    def _show(self, kind: Literal["text", "thinking"], text: str) -> None:
        if text:
            self._stream.publish(Delta(kind=kind, text=text))

    def _cut_off(self, answer: ModelResponse) -> ModelResponse:
        """The answer up to where it began to repeat itself, and a mark.

        What was streamed beyond that is withdrawn, so that everybody sees what is stored.
        """
        text = self._said["text"] + _REPEATED
        self._holdback = Holdback(self.asked.call_keys)
        self._expander = Expander(self.asked.ids)
        self._stream.publish(Delta(kind="restart", text="the model began to repeat itself"))
        self._show("thinking", self._said["thinking"])
        self._show_piece("text", text)
        # Calls that come after are as worthless, and one of them may be torn.
        thinking = [part for part in answer.parts if isinstance(part, ThinkingPart)]
        return replace(answer, parts=[*thinking, TextPart(text)], state="complete", finish_reason="length")

    def _waited_for(self, *, has_begun: bool) -> str:
        if not has_begun:
            return f"no answer within {self._first_ms} ms"
        return f"the answer stalled for more than {self._stall_ms} ms"

    def _tokens(self, length_bytes: int) -> int:
        return fitting.tokens(length_bytes, self.asked.known)

    def _cost(self, usage: RequestUsage) -> int | None:
        model, candidate = self._candidate.model, self._candidate
        return prices.cost_microusd(
            usage,
            model=model.model_name,
            base_url=model.base_url or "",
            price=candidate.price,
            is_local=candidate.config.is_local,
        )


def _offer_tools(candidate: Candidate, parameters: ModelRequestParameters) -> ModelRequestParameters:
    """What is asked for, without the provider's own tools that the model lacks: clients refuse them."""
    has = tuple(candidate.model.profile.get("supported_native_tools", ()))
    return replace(
        parameters, native_tools=[tool for tool in parameters.native_tools if isinstance(tool, has)]
    )


class Repetition:
    """Notices that a model has begun to say the same thing over and over, while it does so."""

    def __init__(self) -> None:
        self._tail = ""
        self._unseen = 0

    def add(self, text: str) -> int:
        """How many characters at the end of the text so far only repeat what stands before them; 0: none."""
        self._tail = (self._tail + text)[-_LONGEST_SPAN * _REPEATED_TIMES :]
        self._unseen += len(text)
        if self._unseen < _LOOK_EVERY:
            return 0
        self._unseen = 0
        return count_repeated(self._tail)


def count_repeated(text: str) -> int:
    """How many characters at the end of a text repeat the span before them, beyond its first occurrence."""
    if text.find(text[-_SAMPLE:], max(0, len(text) - _LONGEST_SPAN - _SAMPLE), len(text) - 1) < 0:
        return 0  # its end doesn't stand within a span before: the look below takes a hundred times as long
    backwards = text[::-1]
    # The failure function of the text read from its end: how long a beginning comes again where it ends.
    matches = [0] * len(backwards)
    best = 0
    for place in range(1, len(backwards)):
        length = matches[place - 1]
        while length and backwards[place] != backwards[length]:
            length = matches[length - 1]
        matches[place] = length + (backwards[place] == backwards[length])
        period, covered = place + 1 - matches[place], place + 1
        if period <= _LONGEST_SPAN and covered >= max(_LEAST_REPEATED, _REPEATED_TIMES * period):
            best = max(best, covered - period)
    return best
