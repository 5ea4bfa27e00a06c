"""One run of the loop against a model server, with a journal and steps in memory that outlive it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from nexus import ids
from nexus.broker.agent import loop
from nexus.broker.agent.models import Models
from nexus.broker.agent.records import (
    Attempt,
    BegunCall,
    CallTool,
    Estimate,
    Limits,
    Message,
    Outcome,
    ToolCall,
)
from nexus.broker.streams import Streams
from nexus.broker.tools import Tool
from nexus.broker.tools.tool import check, parameters
from nexus.config import Config, ModelsConfig, ProviderConfig
from nexus.errors import BudgetError, ToolError
from nexus.ledgers.agents.history import Turn
from nexus.ledgers.agents.messages import StoredMessage
from nexus.runs import Delta
from nexus.testing import ModelServer, Usage

T = TypeVar("T")
KEY = "sk-secret-0123456789"


class Steps:
    """Recorded steps of one run: what a resumed run finds again."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, Any]] = []
        self.names: list[str] = []
        """The steps that really ran, in the order in which they began."""
        self._next = 0

    def resume(self) -> None:
        self._next = 0

    async def __call__(self, name: str, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        place = self._next
        self._next += 1
        if place < len(self.recorded) and self.recorded[place][0]:
            assert self.recorded[place][0] == name, "a resumed run must go through the same steps"
            return self.recorded[place][1]
        self.names.append(name)
        while len(self.recorded) <= place:
            self.recorded.append(("", None))
        result = await function(*arguments)
        self.recorded[place] = (name, result)
        return result


@dataclass
class MemoryJournal:
    """A journal that lasts as long as the test."""

    messages: dict[int, Message] = field(default_factory=dict[int, Message])
    calls: dict[str, tuple[ToolCall, str | None, str | None, bool]] = field(
        default_factory=dict[str, tuple[ToolCall, str | None, str | None, bool]]
    )
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    asked_before: int = 0
    broke: BudgetError | None = None
    estimates: list[Estimate] = field(default_factory=list[Estimate])

    waited: list[str] = field(default_factory=list[str])

    async def wait(self, reason: str) -> float:
        self.waited.append(reason)
        return 0.0

    async def go_on(self) -> None:
        pass

    async def message(self, offset: int) -> str | None:
        return self.messages[offset].parts_json if offset in self.messages else None

    async def append(self, offset: int, *messages: Message) -> None:
        for place, message in enumerate(messages, start=offset):
            self.messages.setdefault(place, message)

    async def begin_call(self, call: ToolCall) -> BegunCall:
        if call.call_id not in self.calls:
            self.calls[call.call_id] = (call, None, None, False)
            return BegunCall(state="new")
        _, result, error, ended = self.calls[call.call_id]
        return BegunCall(state="ended" if ended else "interrupted", result=result, error=error)

    async def end_call(
        self, call_id: str, *, result: str | None, error: str | None, is_refused: bool = False
    ) -> None:
        self.calls[call_id] = (self.calls[call_id][0], result, error, True)

    async def spend(self, attempt: Attempt) -> None:
        self.attempts = [known for known in self.attempts if known.id != attempt.id] + [attempt]
        self.attempts.sort(key=lambda known: known.id)

    async def count_requests(self) -> int:
        return self.asked_before + len(self.attempts)

    async def afford(self, estimate: Estimate) -> None:
        if self.broke is not None:
            raise self.broke
        self.estimates.append(estimate)

    async def release(self, attempt_id: str) -> None:
        self.estimates = [each for each in self.estimates if each.id != attempt_id]

    @property
    def bill(self) -> Usage:
        """What was recorded, in the server's terms."""
        return sum(
            (
                Usage(
                    input_tokens=attempt.input_tokens,
                    cache_read_tokens=attempt.cache_read_tokens,
                    cache_write_tokens=attempt.cache_write_tokens,
                    output_tokens=attempt.output_tokens,
                )
                for attempt in self.attempts
            ),
            Usage(),
        )


WEATHER = parameters("city", city={"type": "string"}, days={"type": "integer", "minimum": 1})


async def _never(arguments: Mapping[str, Any], context: Any) -> str:
    raise AssertionError("the loop runs tools through the callable that it is given")


TOOLS = (
    Tool(name="weather", description="The weather.", parameters=WEATHER, run=_never),
    Tool(name="look", description="Look again.", parameters=WEATHER, run=_never, repeatable=True),
)


async def _weather(tool: Tool, arguments: Mapping[str, Any], call_id: str) -> str:
    check(tool.parameters, arguments)
    if arguments["city"] == "Atlantis":
        raise ToolError("There is no such city", hint="Ask for another.")
    return f"{arguments['city']}: snow"


async def _silence(recorded: int | None) -> list[str]:
    return []


def past_turn(stored: Sequence[str]) -> Turn:
    """A turn with messages that are known by their exact form."""
    return Turn(
        position=0,
        status="done",
        messages=tuple(
            StoredMessage(
                id=f"msg_{place}",
                turn_id="trn_0",
                position=place,
                role="user",
                content="",
                parts_json=text,
                model=None,
                event_id=None,
                created_at="",
            )
            for place, text in enumerate(stored)
        ),
    )


@dataclass
class Run:
    """What a test gives to the loop, and finds afterwards."""

    server: ModelServer
    place: Path
    wire: str = "anthropic"
    provider: Mapping[str, Any] = field(default_factory=dict[str, Any])
    names: tuple[str, ...] = ()
    tools: Sequence[Tool] = TOOLS
    limits: Limits = field(default_factory=Limits)
    history: list[str] = field(default_factory=list[str])
    call: CallTool = _weather
    steered: loop.Steered = _silence
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    steps: Steps = field(default_factory=Steps)
    execution_id: str = field(default_factory=lambda: ids.new("exe"))
    system_prompt: str = "You know the weather."
    output_schema: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        self.streams = Streams(self.place)

    @property
    def name(self) -> str:
        return "anthropic/claude-opus-5" if self.wire == "anthropic" else "openai/gpt-4.1"

    @property
    def config(self) -> Config:
        common: dict[str, Any] = {"api_key": "env:KEY", "max_retries": 2, **self.provider}
        claude: dict[str, Any] = {"kind": "anthropic", "base_url": self.server.url, **common}
        gpt: dict[str, Any] = {"base_url": self.server.openai_url, **common}
        return Config(
            models=ModelsConfig(manager=(self.name,)),
            providers={"anthropic": ProviderConfig(**claude), "openai": ProviderConfig(**gpt)},
        )

    async def __call__(self, prompt: str = "How is the weather in Bern?") -> Outcome:
        self.steps.resume()
        async with Models(self.config, {"KEY": KEY}) as models:
            with self.streams.open(self.execution_id) as stream:
                return await loop.run(
                    loop.Job(
                        execution_id=self.execution_id,
                        step=self.steps,
                        system_prompt=self.system_prompt,
                        prompt=prompt,
                        history=[past_turn(self.history)] if self.history else [],
                        tools=self.tools,
                        models=models,
                        names=self.names or (self.name,),
                        limits=self.limits,
                        journal=self.journal,
                        stream=stream,
                        call=self.call,
                        steered=self.steered,
                        output_schema=self.output_schema,
                    )
                )

    @property
    def server_bill(self) -> Usage:
        """What the server counted; thinking is a part of its output tokens and is not billed apart."""
        return replace(self.server.totals().usage, thinking_tokens=0)

    async def deltas(self) -> list[Delta]:
        """Everything that was streamed until now."""

        async def over() -> bool:
            return True

        async with asyncio.timeout(10):
            return [delta async for delta in self.streams.subscribe(self.execution_id, over)]

    def stored(self) -> list[str]:
        """The messages of this run, for the history of the next."""
        return [self.journal.messages[offset].parts_json for offset in sorted(self.journal.messages)]
