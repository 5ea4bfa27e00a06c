"""`memory-search.sh`: a question to the memory, answered with scores and with why each result is there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Self, cast, get_args

from nexus import clock
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.memory.recall import Budget, Query, Recall, Result
from nexus.memory.recall.item import Kind
from nexus.memory.recall.naming import entities_named
from nexus.memory.recall.question import understand

EXAMPLE: Final = 'memory-search.sh "project timeline" --scope entities,episodes,events --limit 10'
# The words of the specification, which are plural, and ours.
_SCOPES: Final[dict[str, Kind]] = {
    "events": "event",
    "facts": "fact",
    "relationships": "fact",
    "episodes": "episode",
    "observations": "observation",
    "mental_models": "mental_model",
    "entities": "entity",
}
_FLAGS: Final = ("scope", "limit", "budget", "max-tokens", "channel", "entity", "after", "before")
_MOST: Final = 200


@dataclass(frozen=True, kw_only=True)
class Search:
    """One question, read and checked."""

    query: Query

    @classmethod
    def of(cls, words: list[str], given: Mapping[str, str | list[str]]) -> Self:
        """What the arguments of the script mean."""
        text = " ".join(words).strip()
        if not text:
            raise _error("Say what to search for")
        for name in given:
            if name not in _FLAGS:
                raise _error(f"There is no flag `--{name}`: there are {', '.join(_FLAGS)}")
        values = {name: value if isinstance(value, str) else value[-1] for name, value in given.items()}
        return cls(
            query=Query(
                text=text,
                kinds=_kinds(given.get("scope")),
                max_results=_number(values, "limit", 10),
                max_tokens=_number(values, "max-tokens", 4000, most=100_000),
                budget=_budget(values.get("budget", "mid")),
                channel=values.get("channel"),
                entity_id=values.get("entity"),
                time_after=_moment(values, "after"),
                time_before=_moment(values, "before"),
            )
        )

    async def run(self, ledgers: Ledgers, recall: Recall) -> dict[str, Any]:
        """The answer, in the form in which the script prints it."""
        answer = await recall.find(self.query)
        # Entities have no place: whoever may see only some threads is told of none.
        asked = "entity" in self.query.kinds and recall.visible.everything
        named = await self._named(ledgers) if asked else []
        return {
            "query": self.query.text,
            "entities": named,
            "results": [_plain(result) for result in answer.results],
            "took_ms": round(answer.timings_ms["total"]),
        }

    async def _named(self, ledgers: Ledgers) -> list[dict[str, str]]:
        question = understand(self.query.text, clock.now())
        found = await ledgers.identity.read(lambda connection: entities_named(connection, question))
        return [{"id": id_, "matched": named.name} for id_, named in found.items()]


def _plain(result: Result) -> dict[str, Any]:
    item, reasons = result.item, result.reasons
    plain = {
        "type": item.kind,
        "id": item.id,
        "strength": result.strength,
        "score": round(result.probability, 3),
        "text": item.text,
        "at": item.at,
        "speaker": item.speaker,
        "thread_id": item.thread_id,
        "source_event_id": item.source_event_id,
        "entity_ids": list(item.entity_ids),
        "stale_since": item.stale_since,
        "replaced_by": asdict(item.replaced_by) if item.replaced_by else None,
        "found_by": sorted(reasons.arms),
        "matched_words": list(reasons.matched_words),
        "matched_names": list(reasons.matched_names),
        "neighbour_of": reasons.neighbour_of,
        "caused_by": [asdict(link) for link in item.caused_by],
        "leads_to": [asdict(link) for link in item.leads_to],
    }
    return {name: value for name, value in plain.items() if value not in (None, [], "")}


def _kinds(given: str | list[str] | None) -> frozenset[Kind]:
    if given is None:
        return Query(text="").kinds
    names = [
        name.strip() for part in ([given] if isinstance(given, str) else given) for name in part.split(",")
    ]
    for name in names:
        if name not in _SCOPES:
            raise _error(f"`--scope` knows {', '.join(_SCOPES)}, and not {name!r}")
    return frozenset(_SCOPES[name] for name in names)


def _number(values: Mapping[str, str], name: str, default: int, most: int = _MOST) -> int:
    text = values.get(name, str(default))
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise _error(f"`--{name}` must be a number from 1 to {most}, not {text!r}")
    return int(text)


def _budget(text: str) -> Budget:
    if text not in get_args(Budget):
        raise _error(f"`--budget` must be one of {', '.join(get_args(Budget))}, not {text!r}")
    return cast("Budget", text)


def _moment(values: Mapping[str, str], name: str) -> datetime | None:
    if name not in values:
        return None
    try:
        return clock.parse(values[name])
    except ValueError:
        raise _error(f"`--{name}` must be a time such as 2026-05-01, not {values[name]!r}") from None


def _error(message: str) -> UsageError:
    return UsageError(message, hint=f"For example: {EXAMPLE}")
