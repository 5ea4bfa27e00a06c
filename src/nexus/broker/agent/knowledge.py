"""What is known of models: what the catalog says, over it what the server says, over it what was learned."""

import asyncio
from typing import TYPE_CHECKING, Final

from nexus.broker.agent.builtin.server import CONTEXT_TOKENS
from nexus.broker.agent.probe import probe
from nexus.ledgers.runtime import models
from nexus.ledgers.runtime.models import Capabilities

if TYPE_CHECKING:
    from nexus.broker.agent.models import Candidate
    from nexus.broker.agent.records import Attempt
    from nexus.ledgers import Database

# What is too short to measure by, and how far off an earlier measure must be to be replaced.
_LEAST_PROMPT_TOKENS: Final = 200
_LEAST_OUTPUT_TOKENS: Final = 16
_LEAST_S: Final = 0.05
_OFF: Final = 0.3


class Knowledge:
    """What a home knows of its models. Without a ledger it is kept for as long as the process lives."""

    def __init__(self, database: "Database | None" = None) -> None:
        self._database = database
        self._learned: dict[str, Capabilities] = {}
        self._asking = asyncio.Lock()
        self._asked: set[str] = set()
        self._listed: dict[tuple[str, str], Capabilities] = {}

    async def of(self, candidate: "Candidate") -> Capabilities:
        """Everything that is known of a model. A server of one's own is asked once in each process."""
        if candidate.config.base_url and candidate.config.kind == "openai":
            async with self._asking:
                if candidate.name not in self._asked:
                    await self._ask(candidate)
        key = candidate.name, _address(candidate)
        if key not in self._listed:
            self._listed[key] = catalog(candidate)
        return (await self.learned(candidate)).over(self._listed[key])

    async def _ask(self, candidate: "Candidate") -> None:
        told = await probe(candidate.opening, candidate.model.model_name)
        if told is not None:
            self._asked.add(candidate.name)
            if told.known_fields():
                await self.learn(candidate, told)

    async def learn(self, candidate: "Candidate", learned: Capabilities) -> None:
        """Keep something that was found out about a model."""
        if self._database is not None:
            await self._database.write(
                models.learn, name=candidate.name, address=_address(candidate), learned=learned
            )
        else:
            self._learned[candidate.name] = learned.over(await self.learned(candidate))

    async def learned(self, candidate: "Candidate") -> Capabilities:
        """What was found out about a model, without what the catalog says."""
        if self._database is None:
            return self._learned.get(candidate.name, Capabilities())
        return await self._database.read_now(models.get, name=candidate.name, address=_address(candidate))


def catalog(candidate: "Candidate") -> Capabilities:
    """What the public list of models says. A server of one's own may give a model any name: it has none."""
    model = candidate.model
    if candidate.config.kind == "builtin":
        return Capabilities(context_tokens=CONTEXT_TOKENS, slots=1)
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, found = get_snapshot().find_provider_model(model.model_name, None, None, _address(candidate))
    except LookupError:
        return Capabilities()
    profile = model.profile
    return Capabilities(
        context_tokens=found.context_window,
        tool_calls="native" if profile.get("supports_tools", True) else "none",
        structured_output="schema" if profile.get("supports_json_schema_output") else None,
        images=profile.get("supports_image_input", True),
        reasoning=profile.get("supports_thinking", False),
    )


def measured(known: Capabilities, attempt: "Attempt", sent_bytes: int) -> Capabilities:
    """What an answer shows about a model's speed and its tokens, where that is news."""
    prompt = attempt.input_tokens + attempt.cache_read_tokens + attempt.cache_write_tokens
    first_s = (attempt.first_delta_ms or 0.0) / 1000
    rest_s = attempt.duration_ms / 1000 - first_s
    return Capabilities(
        bytes_per_token=_news(known.bytes_per_token, sent_bytes, prompt, prompt >= _LEAST_PROMPT_TOKENS),
        prompt_tokens_per_s=_news(
            known.prompt_tokens_per_s,
            attempt.input_tokens,
            first_s,
            attempt.input_tokens >= _LEAST_PROMPT_TOKENS and first_s > _LEAST_S,
        ),
        output_tokens_per_s=_news(
            known.output_tokens_per_s,
            attempt.output_tokens,
            rest_s,
            attempt.output_tokens >= _LEAST_OUTPUT_TOKENS and rest_s > _LEAST_S,
        ),
    )


def _news(before: float | None, much: float, over: float, counts: bool) -> float | None:
    if not counts:
        return None
    now = round(much / over, 2)
    return now if before is None or abs(now - before) > _OFF * before else None


def _address(candidate: "Candidate") -> str:
    return candidate.model.base_url or ""
