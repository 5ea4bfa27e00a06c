"""The searches of a reflection, and the citations that its answer may make."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nexus.broker.tools.recall import moment, require_time, visible_to
from nexus.broker.tools.tool import Arguments, Context, Tool, parameters
from nexus.context.wrapping import wrapped
from nexus.errors import ToolError
from nexus.memory.conclusions import batches, observations, support
from nexus.memory.conclusions.batches import ShownKind as Level
from nexus.memory.recall.item import PATIENT_MS, Query

if TYPE_CHECKING:
    from nexus.memory.recall.item import Item
    from nexus.roles.services import Services

# `[fact_01…]` or `[fact_01…, obs_01…]`; and an id that stands in the text without brackets.
_CITATION: Final = re.compile(
    r"[ \t]*\[((?:fact|obs|mod)_[^\]\n]*)\]|(?<![\w\[])((?:fact|obs|mod)_[0-9A-Za-z]{8,})"
)
_BETWEEN: Final = re.compile(r"[\s,;]+")
_END: Final = re.compile(r"(?<=[.!?])\s+|\n")
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Cited:
    """An answer whose every citation leads to something that was retrieved."""

    text: str
    ids: tuple[str, ...]
    """In the order in which they are first cited."""
    removed: tuple[str, ...]
    """What was cited and not retrieved, and is not in the text any more."""


def checked(text: str, retrieved: Mapping[str, str] | Set[str]) -> Cited:
    """The answer with only such citations as were retrieved.

    Given what each retrieved thing says, a citation must also support the names and numbers before it: one
    that is off is put right if exactly one retrieved thing fits, and taken out otherwise.
    """
    shown: Mapping[str, str] = retrieved if isinstance(retrieved, Mapping) else {}
    # An answer that recites an example says nothing about the memory.
    is_recited = support.copies_placeholder(text)
    kept: dict[str, None] = {}
    removed: dict[str, None] = {}

    def supported(statement: str, cited: list[str]) -> list[str]:
        known = [id_ for id_ in cited if id_ in retrieved]
        if is_recited or not shown or not known:
            return [] if is_recited else known
        right = support.repaired(statement, known, shown)
        return [] if right is None else list(right.fact_ids)

    def sorted_out(match: re.Match[str]) -> str:
        cited = [id_ for id_ in _BETWEEN.split(match[1] or match[2]) if id_]
        found = supported(_statement(text, match.start()), cited)
        kept.update(dict.fromkeys(found))
        removed.update(dict.fromkeys(id_ for id_ in cited if id_ not in found))
        told = ", ".join(found)
        return f" [{told}]" if told and match[1] else told

    cleaned = _CITATION.sub(sorted_out, text)
    return Cited(text=cleaned.strip(), ids=tuple(kept), removed=tuple(removed))


def _statement(text: str, end: int) -> str:
    """What a citation at that place stands behind: its sentence, after the citation before it."""
    before = _CITATION.split(text[:end])[-1] or ""
    return _END.split(before)[-1]


def searches(services: "Services") -> list[Tool]:
    """The three tools, for a home."""
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
            run=_search(services, kind),
            repeatable=True,
        )
        for name, kind in _LEVELS.items()
    ]


def retrieved(results: Iterable[str]) -> dict[str, str]:
    """Everything that some searches returned: what stands behind each id at the beginning of a line."""
    return {id_: line for result in results for id_, line in _RETRIEVED.findall(result)}


def _search(services: "Services", kind: Level) -> Run:
    async def run(arguments: Arguments, context: Context) -> str:
        assert context.call is not None  # noqa: S101 - an invariant, for the reader and the type checker
        visible = visible_to(context.call.request)
        if "observation" in arguments:
            if not visible.everything:
                raise ToolError("What supports an observation may not be seen on behalf of this request")
            return await _evidence(services, context.call.execution_id, arguments["observation"])
        recall = await services.recall(visible)
        answer = await recall.find(_query(arguments, kind))
        require_time(answer)
        found = [result.item for result in answer.results]
        await batches.note_shown(
            services.ledgers, context.call.execution_id, [(kind, item.id) for item in found]
        )
        return _lines(_line(item) for item in found)

    return run


def _query(arguments: Arguments, kind: Level) -> Query:
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


async def _evidence(services: "Services", execution_id: str, observation_id: str) -> str:
    found = await observations.shown(services.ledgers, observation_id)
    if found is None:
        raise ToolError(f"There is no observation {observation_id:.60}", hint="Give the id of one you found.")
    facts = found["evidence"][-_RESULTS:]
    await batches.note_shown(services.ledgers, execution_id, [("fact", fact["id"]) for fact in facts])
    return _lines(f"- [{fact['id']}] {fact['at'][:10]} {_one_line(fact['fact'])}" for fact in facts)


def _line(item: "Item") -> str:
    stale = f" (stale since {item.stale_since[:10]})" if item.stale_since else ""
    if item.replaced_by:
        stale = f" ({item.replaced_by.note} [{item.replaced_by.id}])"
    unsure = f" (confidence {item.confidence:.1f})" if item.confidence < 1 else ""
    return f"- [{item.id}] {item.at[:10]} {_one_line(item.text)}{stale}{unsure}"


def _lines(lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    # What was said is a record of somebody's words, never an instruction to whoever reads it here.
    return wrapped("memory", text) if text else "No matches at this level."


def _one_line(text: str) -> str:
    """A text cannot begin a line of its own."""
    return " ".join(text.split())


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


_CONCLUSIONS: Final = parameters(
    "query",
    query=_text("What to find, as a question or in its own words."),
    entity=_text("Only what is about this person or thing: its id, or any of its names."),
)
_FACTS: Final = parameters(
    "query",
    query=_text("What to find, as a question or in its own words."),
    entity=_text("Only what is about this person or thing: its id, or any of its names."),
    time_after=_text("Only what is from then on, such as 2026-05-01."),
    time_before=_text("Only before this time."),
    observation=_text("Instead of searching: the facts that support the observation with this id."),
)
