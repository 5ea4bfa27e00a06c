"""The searches of a reflection: one tool for each level of the memory."""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from nexus.broker.tools.recall import moment, require_time, visible_to
from nexus.broker.tools.tool import Arguments, Context, Tool, parameters
from nexus.context.wrapping import wrapped
from nexus.errors import ToolError
from nexus.memory.conclusions import batches, observations
from nexus.memory.conclusions.batches import ShownKind as Level
from nexus.memory.recall.item import PATIENT_MS, Query
from nexus.text import join_lines

if TYPE_CHECKING:
    from nexus.memory.recall.item import Item
    from nexus.roles.services import Services

_LEVELS: Final[dict[str, Level]] = {
    "search_mental_models": "mental_model",
    "search_observations": "observation",
    "search_facts": "fact",
}
NAMES: Final = tuple(_LEVELS)
_RESULTS: Final = 12
_TOKENS: Final = 4_000
_RETRIEVED: Final = re.compile(r"^- \[([^\]\s]+)\](.*)$", re.MULTILINE)

Run = Callable[[Arguments, Context], Awaitable[str]]


def make_searches(services: "Services") -> list[Tool]:
    """Make the three tools for a home."""
    described = {
        "search_mental_models": "What was concluded about a subject as a whole. Search here first.",
        "search_observations": "What several facts say together about somebody or something.",
        "search_facts": "Single statements with their dates, and the facts that support an observation.",
    }
    return [
        Tool(
            name=name,
            description=described[name],
            parameters=_FACTS if kind == "fact" else _CONCLUSIONS,
            run=_make_search(services, kind),
            repeatable=True,
            reads_memory=True,
        )
        for name, kind in _LEVELS.items()
    ]


def find_retrieved(results: Iterable[str]) -> dict[str, str]:
    """Find everything that some searches returned: the text behind each id at the beginning of a line."""
    return {id_: line for result in results for id_, line in _RETRIEVED.findall(result)}


def _make_search(services: "Services", kind: Level) -> Run:
    async def run(arguments: Arguments, context: Context) -> str:
        assert context.call is not None  # noqa: S101 - an invariant, for the reader and the type checker
        visible = visible_to(context.call.request)
        if "observation" in arguments:
            if not visible.everything:
                raise ToolError("What supports an observation may not be seen on behalf of this request")
            return await _show_evidence(services, context.call.execution_id, arguments["observation"])
        recall = await services.open_recall(visible)
        answer = await recall.find(_make_query(arguments, kind))
        require_time(answer)
        found = [result.item for result in answer.results]
        await batches.note_shown(
            services.ledgers, context.call.execution_id, [(kind, item.id) for item in found]
        )
        return _wrap_lines(_format_item(item) for item in found)

    return run


def _make_query(arguments: Arguments, kind: Level) -> Query:
    return Query(
        text=arguments["query"],
        kinds=frozenset({kind}),
        entity_id=arguments.get("entity"),
        time_after=moment(arguments, "time_after"),
        time_before=moment(arguments, "time_before"),
        max_results=_RESULTS,
        max_tokens=_TOKENS,
        budget="high",
        deadline_ms=PATIENT_MS,
    )


async def _show_evidence(services: "Services", execution_id: str, observation_id: str) -> str:
    found = await observations.load_observation(services.ledgers, observation_id)
    if found is None:
        raise ToolError(f"There is no observation {observation_id:.60}", hint="Give the id of one you found.")
    facts = found["evidence"][-_RESULTS:]
    await batches.note_shown(services.ledgers, execution_id, [("fact", fact["id"]) for fact in facts])
    return _wrap_lines(f"- [{fact['id']}] {fact['at'][:10]} {join_lines(fact['fact'])}" for fact in facts)


def _format_item(item: "Item") -> str:
    by = item.replaced_by or item.outdated_by
    stale = f" ({item.note} [{by.id}])" if by else f" ({item.note})" if item.note else ""
    unsure = f" (confidence {item.confidence:.1f})" if item.confidence < 1 else ""
    return f"- [{item.id}] {item.at[:10]} {join_lines(item.text)}{stale}{unsure}"


def _wrap_lines(lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    # What was said is a record of somebody's words, never an instruction to whoever reads it here.
    return wrapped("memory", text) if text else "No matches at this level."


def _describe_text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


_CONCLUSIONS: Final = parameters(
    "query",
    query=_describe_text("What to find, as a question or in its own words."),
    entity=_describe_text("Only what is about this person or thing: its id, or any of its names."),
)
_FACTS: Final = parameters(
    "query",
    query=_describe_text("What to find, as a question or in its own words."),
    entity=_describe_text("Only what is about this person or thing: its id, or any of its names."),
    time_after=_describe_text("Only what is from then on, such as 2026-05-01."),
    time_before=_describe_text("Only before this time."),
    observation=_describe_text("Instead of searching: the facts that support the observation with this id."),
)
