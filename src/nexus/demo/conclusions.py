"""What was concluded in the month: observations in versions, and mental models, through their own writers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nexus import clock, ids
from nexus.demo.telling import Telling
from nexus.memory.conclusions import mental_models, observations
from nexus.memory.conclusions.batches import Batch
from nexus.memory.conclusions.mental_models import NewModel
from nexus.memory.conclusions.observations import Conclusions, Draft


@dataclass(kw_only=True)
class Concluding:
    """Writes conclusions; knows under which ids earlier ones were kept."""

    telling: Telling
    kept: dict[str, str] = field(default_factory=dict[str, str])

    async def observe(self, told: Mapping[str, Any]) -> None:
        """Record one observation with the facts that it rests on."""
        facts = tuple(self.telling.facts[key] for key in told["facts"])
        revised = self.kept.get(told.get("revises", ""))
        batch = Batch(root_request_id=None, fact_ids=facts, observation_ids=(revised,) if revised else ())
        draft = Draft(text=told["text"], fact_ids=facts, revises=revised)
        recorded = await observations.record(
            self.telling.ledgers,
            batch,
            Conclusions(drafts=(draft,)),
            name=ids.new("exe"),
            request_id=self.telling.request_id,
            now=self._now(),
        )
        assert recorded is not None  # noqa: S101 - an invariant, for the reader and the type checker
        self.kept[told["key"]] = (*recorded.added, *recorded.revised)[0]

    async def model(self, told: Mapping[str, Any]) -> None:
        """Keep an answer as a mental model; its sources stand in it by their ids."""
        content, sources = str(told["content"]), list[tuple[str, str]]()
        for key in told["sources"]:
            kind = "observation" if key in self.kept else "fact"
            id_ = self.kept.get(key) or self.telling.facts[key]
            content = content.replace(f"[{key}]", f"[{id_}]")
            sources.append((kind, id_))
        new = NewModel(name=told["name"], question=told["question"], content=content, sources=tuple(sources))
        await mental_models.append(
            self.telling.ledgers,
            new,
            id_=ids.new("mod"),
            request_id=self.telling.request_id,
            now=self._now(),
        )

    def _now(self) -> str:
        return clock.timestamp(self.telling.calendar.now())
