"""Trying a model outside of any request: what it can do, and how fast.

A trial goes the way of every request, so that a server that loads its model is waited for, a slow one is
given its time, and what it refuses is learned.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from jsonschema import Draft202012Validator
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from nexus import clock
from nexus.broker.agent import text_calls
from nexus.broker.agent.answering import Answering, Asked
from nexus.broker.agent.asking import Asking
from nexus.broker.agent.errors import advise, describe
from nexus.broker.agent.fitting import length_bytes
from nexus.broker.agent.message_json import Block
from nexus.broker.agent.model_requests import Form
from nexus.broker.agent.models import Candidate, Models
from nexus.broker.agent.records import Attempt, Estimate, Limits
from nexus.config import Config
from nexus.errors import ModelError
from nexus.ledgers import Database
from nexus.ledgers.runtime import models as known_models
from nexus.ledgers.runtime.models import Capabilities
from nexus.runs import Delta

PURPOSE: Final = "model-test"
"""Under this name the ledger keeps what trials used, in the place of a request."""
_ANSWER_TOKENS: Final = 512
_LIMIT_S: Final = 1_800.0
# Enough to read that its speed can be measured.
_TEXT: Final = """\
The lighthouse at Lindesnes is the oldest in Norway. Its first fire was lit in 1655, with coal in an iron \
basket, and put out again in the same year, because sailors took it for another light along the coast. It \
was lit again in 1725. The tower that stands there today was built of cast iron in 1915, is sixteen meters \
high, and its lens can be seen from thirty-two kilometers away. Ships that pass the cape meet the waters of \
two seas there: the North Sea in the west and the Skagerrak in the east. The wind is strong on most days, \
and in winter the spray freezes on the rocks. Keepers lived at the light with their families until it was \
automated in 2003. Today it is a museum; visitors climb the stairs, look out over the sea, and sleep in the \
rooms of the former assistants. A road leads there from Mandal, some forty kilometers through hills and past \
small harbors where boats with fish and crabs come in early in the morning."""
_QUESTION: Final = "Now count from one to twenty in words, separated by commas, and say nothing else."
_CALL: Final = "Use the tool to add 1725 and 278."
_ADD: Final = ToolDefinition(
    name="add",
    description="Add two whole numbers.",
    parameters_json_schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)
_FORM: Final = {
    "type": "object",
    "properties": {"country": {"type": "string"}, "year": {"type": "integer"}},
    "required": ["country", "year"],
    "additionalProperties": False,
}
_JSON: Final = (
    "The lighthouse at Lindesnes in Norway was first lit in 1655. Answer with a JSON object and nothing "
    "else: the country as `country`, and the year as the number `year`."
)
# Two answers at a time: how long the first must take, and how much longer the second, to show one place.
_LEAST_MS: Final = 300.0
_ONE_AFTER_THE_OTHER: Final = 1.7


class Account(Protocol):
    """On whose budget a trial goes: see `broker.budgets.Budgets`."""

    async def check_home(self) -> None: ...
    async def bill(self, attempt: Attempt, purpose: str) -> None: ...


class Nobody:
    """Nobody waits for the pieces."""

    def publish(self, delta: Delta) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a model did when it was tried."""

    name: str
    address: str
    known: Capabilities
    """Everything that is known of it now."""
    learned: Capabilities
    """What of that its server and its answers showed, to be kept."""
    attempts: tuple[Attempt, ...]

    @property
    def duration_ms(self) -> float:
        """How long its answers took, one after the other."""
        return sum(attempt.duration_ms for attempt in self.attempts)


async def try_model(
    config: Config,
    name: str,
    environ: Mapping[str, str] = os.environ,
    on_progress: Callable[[str], None] | None = None,
    on_text: Callable[[str], None] | None = None,
    account: Account | None = None,
    limit_s: float = _LIMIT_S,
) -> Trial:
    """Try a model; an error that says what to do where it does not answer in time.

    `on_progress` is called with the step that begins, and with the reason while its server is not ready yet;
    `on_text` with the pieces of its answers.
    Without an `account`, nobody's budget is asked.
    """
    async with Models(config, environ) as models:
        (candidate,) = await models.candidates((name,))
        # It is asked once: whoever waits for the trial can try again.
        candidate = replace(candidate, config=replace(candidate.config, max_retries=0))
        tester = _Tester(
            models=models, candidate=candidate, on_progress=on_progress, on_text=on_text, account=account
        )
        try:
            async with asyncio.timeout(limit_s):
                return await tester.run()
        except TimeoutError:
            raise ModelError(
                f"{name} didn't finish the test within {limit_s / 60:.0f} minutes",
                hint="Choose a smaller or faster model, or try again when the machine is less busy.",
            ) from None


async def keep(database: Database, trial: Trial) -> None:
    """Keep what a trial showed, in place of what was known of the model."""
    await database.write(
        known_models.replace_known, name=trial.name, address=trial.address, known=trial.learned
    )


@dataclass(kw_only=True)
class _Tester:
    """One trial, which keeps the bill."""

    models: Models
    candidate: Candidate
    on_progress: Callable[[str], None] | None
    on_text: Callable[[str], None] | None
    account: Account | None
    attempts: list[Attempt] = field(default_factory=list[Attempt])

    async def run(self) -> Trial:
        self._tell("question")
        await self._ask(f"{clock.timestamp(clock.now())}\n\n{_TEXT}\n\n{_QUESTION}")
        calls, form = await self._try_call(), await self._try_form()
        one_slot = await self._has_one_slot()
        seen = Capabilities(
            **calls.known_fields(),
            writes_json=form,
            slots=1 if one_slot else None,
            tested_at=clock.timestamp(clock.now()),
        )
        knowledge = self.models.knowledge
        await knowledge.learn(self.candidate, seen)
        return Trial(
            name=self.candidate.name,
            address=self.candidate.model.base_url or "",
            known=await knowledge.of(self.candidate),
            learned=await knowledge.load_learned(self.candidate),
            attempts=tuple(self.attempts),
        )

    def _tell(self, step: str) -> None:
        if self.on_progress is not None:
            self.on_progress(step)

    async def _try_call(self) -> Capabilities:
        self._tell("tool call")
        answer = await self._ask(_CALL, parameters=ModelRequestParameters(function_tools=[_ADD]))
        right = any(
            call.tool_name == _ADD.name and _is_valid(_ADD.parameters_json_schema, call.args_as_dict())
            for call in answer.tool_calls
        )
        in_text = bool((answer.metadata or {}).get(text_calls.CALLS_IN_TEXT))
        known = await self.models.knowledge.of(self.candidate)
        if in_text and known.tool_calls != "none":
            return Capabilities(calls_tools=right, tool_calls="text")
        return Capabilities(calls_tools=right)

    async def _try_form(self) -> bool:
        self._tell("JSON answer")
        answer = await self._ask(_JSON, form=Form(schema=_FORM))
        text = answer.text or ""
        try:
            value, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
        except ValueError:
            return False
        return _is_valid(_FORM, value)

    async def _has_one_slot(self) -> bool:
        """Whether a local server that does not say so answers one request after the other."""
        known = await self.models.knowledge.of(self.candidate)
        config = self.candidate.config
        if not config.is_local or config.concurrency or known.slots is not None:
            return False
        self._tell("two requests at a time")
        before = len(self.attempts)
        # Two answers at a time aren't shown: their pieces would mix.
        shown, self.on_text = self.on_text, None
        await asyncio.gather(self._ask(f"(1) {_QUESTION}"), self._ask(f"(2) {_QUESTION}"))
        self.on_text = shown
        first, second = sorted(self.attempts[before:], key=lambda attempt: attempt.duration_ms)[-2:]
        return (
            first.duration_ms >= _LEAST_MS
            and second.duration_ms >= _ONE_AFTER_THE_OTHER * first.duration_ms
            and (second.first_delta_ms or 0.0) >= 0.9 * first.duration_ms
        )

    async def _ask(
        self, question: str, *, parameters: ModelRequestParameters | None = None, form: Form | None = None
    ) -> ModelResponse:
        asking = Asking(
            candidates=[self.candidate],
            journal=self,
            limits=Limits(output_tokens=_ANSWER_TOKENS, patient=True),
            stream=self,
            redact=self.models.redact,
            deadline=time.monotonic() + _LIMIT_S,
            form=form,
            knowledge=self.models.knowledge,
            slots=self.models.slots,
            measures=True,
        )
        asked = Block([ModelRequest(parts=[UserPromptPart(question)])])
        try:
            return await asking.answer([asked], parameters or ModelRequestParameters())
        except ModelError as error:
            raise _failure(self.models, self.candidate, asking.error or error) from asking.error

    def publish(self, delta: Delta) -> None:
        if delta.kind == "waiting":
            self._tell(delta.text)
        elif delta.kind == "text" and self.on_text is not None:
            self.on_text(delta.text)

    async def spend(self, attempt: Attempt) -> None:
        self.attempts = [*(known for known in self.attempts if known.id != attempt.id), attempt]
        if self.account is not None:
            await self.account.bill(attempt, PURPOSE)

    async def count_requests(self) -> int:
        return 0

    async def wait(self, reason: str) -> float:
        return 0.0

    async def go_on(self) -> None:
        pass

    async def afford(self, estimate: Estimate) -> None:
        if self.account is not None:
            await self.account.check_home()

    async def release(self, attempt_id: str) -> None:
        pass


async def ask_once(models: Models, name: str, question: str) -> tuple[str, Attempt]:
    """What a model answers, and the bill; an error that says what to do where it does not answer."""
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(question)])]
    (candidate,) = await models.candidates((name,))
    answering = Answering(candidate, Nobody(), Asked(messages=messages, length_bytes=length_bytes(messages)))
    try:
        answer = await answering.run()
    except Exception as error:  # whatever a client raises
        raise _failure(models, candidate, error) from error
    return answer.text or "", answering.attempt(None)


def _failure(models: Models, candidate: Candidate, error: Exception) -> ModelError:
    return ModelError(
        f"{candidate.name} failed: {describe(error, models.redact)}", hint=advise(error, candidate)
    )


def _is_valid(schema: Mapping[str, Any], value: Any) -> bool:
    return Draft202012Validator(schema).is_valid(value)  # pyright: ignore[reportUnknownMemberType]
