"""The model that a run's agent asks: every answer is a step of the run, and is kept in its journal."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.settings import ModelSettings

from nexus.broker.agent import blocks
from nexus.broker.agent import messages as stored_messages
from nexus.broker.agent.asking import Asking
from nexus.broker.agent.records import Journal, Step
from nexus.broker.streams import Stream
from nexus.errors import NexusError
from nexus.ledgers.agents.history import Turn
from nexus.runs import Delta


class RecordedModel(FallbackModel):
    """Answers from the journal where a step was recorded, otherwise from the models in order."""

    def __init__(
        self, step: Step, asking: Asking, journal: Journal, stream: Stream, history: Sequence[Turn]
    ) -> None:
        first, *others = [candidate.model for candidate in asking.candidates]
        super().__init__(first, *others)
        self._run_step = step
        self._asking = asking
        self._journal = journal
        self._stream = stream
        # Kept from the agent, which would go through all of it several times for each request.
        self._history = history
        self._question: ModelRequest | None = None
        self._answer: ModelResponse | None = None
        self._offset = 0
        self._last: str | None = None

    def expect(self, question: ModelRequest, offset: int) -> None:
        """Which message of the run is answered next, and its place in the journal."""
        self._question, self._answer, self._offset = question, None, offset

    @property
    def answered_by(self) -> str | None:
        """The model that gave the last answer."""
        return self._last

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """One step. When it ends, the question and its answer are in the journal."""
        await self._run_step("model", self._step, messages, model_request_parameters)
        answer = self._answer or await self._kept()
        if answer is None:
            # The engine says that it was answered, and the answer is gone: it is asked again.
            await self._step(messages, model_request_parameters)
            answer = self._answer
        assert answer is not None  # noqa: S101 - an invariant, for the reader and the type checker
        self._last = answer.model_name
        self._asking.resume(answer)
        return answer

    async def _step(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> None:
        assert self._question is not None  # noqa: S101 - an invariant, for the reader and the type checker
        # A crash may have come between the journal's record and the engine's.
        self._answer = await self._kept()
        if self._answer is not None:
            self._show_again(self._answer)
            return
        question = stored_messages.stored(self._question)
        try:
            conversation = blocks.join(self._history, messages)
            answer = await self._asking.answer(conversation, parameters, own=self._offset + 1)
        except BaseException:
            # Nobody answered, but it was asked. If the process dies meanwhile, the run is repeated and asks.
            with suppress(NexusError):
                await asyncio.shield(self._journal.append(self._offset, question))
            raise
        await self._journal.append(self._offset, question, stored_messages.stored(answer))
        self._answer = answer

    async def _kept(self) -> ModelResponse | None:
        kept = await self._journal.message(self._offset + 1)
        if kept is None:
            return None
        answer = stored_messages.loaded(kept)
        assert isinstance(answer, ModelResponse)  # noqa: S101 - an invariant, for the reader and the type checker
        return answer

    def _show_again(self, answer: ModelResponse) -> None:
        """Show an answer whose deltas a crash swallowed."""
        if self._stream.answers <= self._offset // 2:
            self._stream.publish(Delta(kind="begin"))
            self._stream.publish(Delta(kind="text", text=stored_messages.text_of(answer)))
            for call in answer.tool_calls:
                self._stream.publish(
                    Delta(
                        kind="tool_call",
                        text=call.args_as_json_str(),
                        tool=call.tool_name,
                        call_id=call.tool_call_id,
                    )
                )
            self._stream.publish(Delta(kind="done"))
