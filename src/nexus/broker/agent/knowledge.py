"""What is known of models: what the catalog says, over it what the server says, over it what was learned."""

from functools import partial
from typing import TYPE_CHECKING

from genai_prices.data_snapshot import get_snapshot

from nexus.ledgers.runtime import models
from nexus.ledgers.runtime.models import Capabilities

if TYPE_CHECKING:
    from nexus.broker.agent.models import Candidate
    from nexus.ledgers import Database


class Knowledge:
    """What a home knows of its models. Without a ledger it is kept for as long as the process lives."""

    def __init__(self, database: "Database | None" = None) -> None:
        self._database = database
        self._learned: dict[str, Capabilities] = {}

    async def of(self, candidate: "Candidate") -> Capabilities:
        """Everything that is known of a model."""
        return (await self._kept(candidate)).over(catalog(candidate))

    async def learn(self, candidate: "Candidate", learned: Capabilities) -> None:
        """Keep something that was found out about a model."""
        if self._database is not None:
            keep = partial(models.learn, name=candidate.name, address=_address(candidate), learned=learned)
            await self._database.write(keep)
        else:
            self._learned[candidate.name] = learned.over(await self._kept(candidate))

    async def _kept(self, candidate: "Candidate") -> Capabilities:
        if self._database is None:
            return self._learned.get(candidate.name, Capabilities())
        return await self._database.read(
            partial(models.get, name=candidate.name, address=_address(candidate))
        )


def catalog(candidate: "Candidate") -> Capabilities:
    """What the public list of models says. A server of one's own may give a model any name: it has none."""
    model = candidate.model
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


def _address(candidate: "Candidate") -> str:
    return candidate.model.base_url or ""
