"""The recall tool: an agent asks the memory, and reads what it says as data, with its source."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from nexus import clock
from nexus.broker.tools.tool import Arguments, Context, Tool, parameters
from nexus.context.wrapping import wrapped
from nexus.errors import ToolError, UsageError
from nexus.memory.recall.item import PATIENT_MS, Link, Match, Matches, Query, kinds, label
from nexus.memory.recall.recall import Recall
from nexus.request import Request, Visibility

_BUDGETS = ("low", "mid", "high")
# A small model asks for a single result; what answers is often the second.
_FEWEST_RESULTS, _MOST_RESULTS = 5, 50
_MOST_TOKENS = 4_000
# The arguments that narrow a search, and the field of the query that each sets.
_LIMITS = {"scope": "kinds", "channel": "channel", "time_after": "time_after", "time_before": "time_before"}

Ask = Callable[[Context], Awaitable[Recall]]
"""The memory as the principal of the request may see it. The agent cannot choose another."""


def recall_tool(ask: Ask) -> Tool:
    """A tool that asks the memory, as whoever the call is made for may see it."""

    async def run(arguments: Arguments, context: Context) -> str:
        recall = await ask(context)
        query, note = _query(arguments), ""
        if query.entity_id is not None and not await recall.knows(query.entity_id):
            # A name that nobody goes by is a word like any other.
            note = f"Searched for {query.entity_id!r:.60} as a word: no entity has that name."
            query = replace(query, text=f"{query.entity_id}: {query.text}", entity_id=None)
        answer, dropped = await _find(recall, query)
        if dropped:
            note = f"Found without {', '.join(dropped)}, which left no strong match."
        require_time(answer)
        return "\n".join(filter(None, (_text(answer), note if answer.results else "")))

    return Tool(
        name="recall",
        description="Search the memory. Ask one question at a time, in full words.",
        parameters=_PARAMETERS,
        run=run,
        reads_memory=True,
    )


def visible_to(request: Request) -> Visibility:
    """What of the memory a request may see; a `ToolError` where that is nothing."""
    visible = request.access.visibility(request.event.thread_id)
    if visible.nothing:
        raise ToolError("Nothing may be recalled on behalf of this request")
    return visible


def require_time(answer: Matches) -> None:
    """Refuse an answer that is empty because it was late."""
    if answer.is_too_late:
        raise ToolError("The search of the memory took too long and was stopped", hint="Make the call again.")


async def _find(recall: Recall, query: Query) -> tuple[Matches, list[str]]:
    """What answers a question, and the limits that were dropped because they left no strong match.

    Small models fill in every argument that there is, and a memory that says "nothing" while it knows is
    worse than none. Weak matches within the limits are shown as well.
    """
    answer, unlimited = await recall.find(query), Query(text=query.text)
    dropped = [name for name, field in _LIMITS.items() if getattr(query, field) != getattr(unlimited, field)]
    if not dropped or any(result.is_strong for result in answer.results):
        return answer, []
    wider = await recall.find(
        replace(query, kinds=unlimited.kinds, channel=None, time_after=None, time_before=None)
    )
    weak = {result.item.id for result in answer.results}
    added = [each for each in wider.results if each.item.id not in weak and (each.is_strong or not weak)]
    if not added:
        return answer, []
    return replace(wider, results=(*added, *answer.results)), dropped


def _query(given: Arguments) -> Query:
    # Small models name every argument, and leave empty what they have no use for.
    arguments: Arguments = {name: value for name, value in given.items() if value != "" or name == "query"}
    budget = arguments.get("budget", "mid")
    if budget not in _BUDGETS:
        raise ToolError(f"`budget` must be one of {', '.join(_BUDGETS)}, not {budget!r:.40}")
    try:
        wanted = kinds(arguments.get("scope"))
    except UsageError as error:
        raise ToolError(error.message, hint=error.hint) from error
    return Query(
        text=arguments["query"],
        kinds=wanted,
        entity_id=arguments.get("entity"),
        channel=arguments.get("channel"),
        time_after=moment(arguments, "time_after"),
        time_before=moment(arguments, "time_before"),
        max_results=max(_FEWEST_RESULTS, min(arguments.get("max_results", 10), _MOST_RESULTS)),
        max_tokens=_MOST_TOKENS,
        budget=budget,
        deadline_ms=PATIENT_MS,
    )


def moment(arguments: Arguments, name: str) -> datetime | None:
    """A time that a model gave, if it gave one."""
    if name not in arguments:
        return None
    try:
        return clock.parse(arguments[name])
    except ValueError:
        raise ToolError(
            f"`{name}` is not a time: {arguments[name]!r:.40}", hint="Write it as 2026-05-01."
        ) from None


def _text(answer: Matches) -> str:
    if not answer.results:
        return "No matches."
    names = ", ".join(map(label, answer.late_arms))
    late = f"Left out for lack of time: {names}." if names else ""
    # What was said is a record of somebody's words, never an instruction to whoever reads it here.
    who = [f"{said} → {', '.join(names)}" for said, names in answer.meant.items()]
    strong = [_line(result) for result in answer.results if result.is_strong]
    weak = [_line(result) for result in answer.results if not result.is_strong]
    lines = [*who, *strong, *(["Weak matches:"] if weak else []), *weak]
    return "\n".join(filter(None, (wrapped("memory", "\n".join(lines)), late)))


def _line(result: Match) -> str:
    item = result.item
    notes = [item.kind.replace("_", " "), item.id, item.at[:10]]
    if item.note:
        by = item.replaced_by or item.outdated_by
        notes.append(f"{item.note} ({by.id})" if by else item.note)
    if item.confidence < 1:
        notes.append(f"confidence {item.confidence:.1f}")
    if item.source_event_id and item.source_event_id != item.id:
        notes.append(f"from {item.source_event_id}")
    who = f"{item.speaker}: " if item.speaker else ""
    lines = [f"- {who}{' '.join(item.text.split())} ({', '.join(notes)})"]
    lines += [f"  because: {_render_link(link)}" for link in item.caused_by]
    lines += [f"  led to: {_render_link(link)}" for link in item.leads_to]
    return "\n".join(lines)


def _render_link(link: Link) -> str:
    return f"{' '.join(link.text.split())} ({link.relation}, {link.id})"


def _property(type_: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "description": text, **more}


_PARAMETERS = parameters(
    "query",
    query={"type": "string"},
    entity=_property("string", "Only about this person or thing, by name."),
    scope=_property("string", "facts, events, episodes, entities, observations, mental_models"),
    time_after=_property("string", "ISO date"),
    time_before={"type": "string"},
    channel={"type": "string"},
    max_results={"type": "integer", "minimum": 1},
    budget=_property("string", "low, mid or high"),
)
