"""What the memory concludes by itself, by the clock, and when somebody asks for it."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, cast

from nexus import clock, ids
from nexus.context.wrapping import wrapped
from nexus.engine import Schedule, StartedExecution, WorkContext
from nexus.memory.conclusions import batches, observations, support
from nexus.memory.conclusions.batches import labels_of
from nexus.memory.gate import is_confidential
from nexus.memory.profile import Line, NewVersion, OwnerProfile, Version, local, versions
from nexus.request import Agent, Event, Request
from nexus.roles import reflection, runs
from nexus.roles.consolidation import SETTLED, Consolidation, Report, explain_off
from nexus.roles.reflection import make_reflect_tool, refresh_stale
from nexus.text import join_lines

if TYPE_CHECKING:
    from nexus.memory.profile.local import Material
    from nexus.roles.services import Services


CONSOLIDATION: Final = "memory.consolidation"
# Apart from the background, where the runs are that this waits for.
_LANE: Final = "automations"
REFRESHING: Final = "memory.refreshing"
ROLE: Final = "consolidation"
_PROFILE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "facts": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["text", "facts"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["lines"],
    "additionalProperties": False,
}
# So few facts are a profile as they are.
_FEW_LINES: Final = 12
_LONGEST_LINE: Final = 240
_PROFILE_TURNS: Final = 2
_PROFILE_TIMEOUT_MS: Final = 180_000


@cache
def load_profile_task() -> str:
    """Load what the model is told to do."""
    file = resources.files("nexus.roles.consolidation") / "PROFILE.md"
    return file.read_text(encoding="utf-8").strip()


async def write_profile(services: "Services", context: "WorkContext") -> Version | None:
    """Have the profile written again if there is something new to write; None where there is not."""
    before = await versions.newest(services.ledgers)
    since = None if before is None else before.written_at
    found = await local.load_material(services.ledgers, now=clock.timestamp(clock.now()), after=since)
    chosen = await context.step("profile_facts", _ids, found)
    if len(chosen) < _FEW_LINES:
        return None
    made = ids.derived("pro", chosen[0], " ".join((since or "", *chosen)))
    if await versions.exists(services.ledgers, made):
        return None
    if await runs.find_limit(services.ledgers, services.config.memory):
        return None
    facts = {id_: found.facts[id_] for id_ in chosen if id_ in found.facts}
    execution_id = ids.derived("exe", context.id, made)
    request, answer = await _ask_model(services, facts, execution_id)
    lines = check_lines(answer, facts)
    if not lines:
        return await OwnerProfile(services.ledgers).refresh()
    own = None if before is None else before.written
    new = NewVersion(
        lines=versions.choose_fitting(_add_missing(lines, found), own or ""),
        origin="consolidation",
        written=own,
        written_at=since,
        request_id=request.request_id,
    )
    return await versions.append(services.ledgers, new, now=clock.timestamp(clock.now()), id_=made)


def check_lines(answer: str, facts: Mapping[str, str]) -> list[Line]:
    """Keep the lines of an answer that facts support, each with those that do."""
    named = {label.upper(): id_ for id_, label in labels_of(tuple(facts)).items()}
    lines: dict[str, Line] = {}
    for text, cited in _parse_lines(answer):
        known = [named[label] for label in cited if label in named]
        right = support.repair_citations(text, known, facts) if known else None
        if right is None or support.copies_placeholder(text) or is_confidential(text):
            continue
        lines.setdefault(text.casefold(), Line(text=f"- {text}", fact_ids=right.fact_ids))
    return list(lines.values())


def _parse_lines(answer: str) -> Iterator[tuple[str, list[str]]]:
    start, end = answer.find("{"), answer.rfind("}")
    try:
        found: object = json.loads(answer[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return
    lines = cast("dict[str, object]", found).get("lines") if isinstance(found, dict) else None
    for each in cast("list[object]", lines) if isinstance(lines, list) else []:
        fields = cast("dict[str, object]", each) if isinstance(each, dict) else {}
        text, facts = fields.get("text"), fields.get("facts")
        if isinstance(text, str) and 0 < len(text.strip()) <= _LONGEST_LINE and isinstance(facts, list):
            labels = [str(label).strip(" []").upper() for label in cast("list[object]", facts)]
            yield join_lines(text).removeprefix("- "), labels


def _add_missing(lines: Sequence[Line], found: "Material") -> list[Line]:
    """Add the name, and every restriction that the lines leave out."""
    cited = {id_ for line in lines for id_ in line.fact_ids}
    name = [line for line in found.lines if not line.fact_ids]
    missing = [line for line in found.lines if found.restrictions.intersection(line.fact_ids) - cited]
    return [*name, *missing, *lines]


async def _ids(found: "Material") -> list[str]:
    return list(found.facts)


async def _ask_model(
    services: "Services", facts: Mapping[str, str], execution_id: str
) -> tuple[Request, str]:
    request = Request(
        request_id=ids.derived("req", execution_id, ROLE),
        event=Event(content=""),
        agent=Agent(role=ROLE, session_label=ROLE),
    )
    labels = labels_of(tuple(facts))
    listed = "\n".join(f"{labels[id_]}. {text}" for id_, text in facts.items())
    key = hashlib.sha256(listed.encode()).hexdigest()[:20]
    assembled = await services.broker.assemble_context(
        request,
        session_label=f"meeseeks:{ROLE}:profile:{key}",
        task=f"{wrapped('facts', listed)}\n\nWrite the owner's profile. Answer with the JSON object.",
        role=ROLE,
    )
    assembled.tools = ()
    assembled.situation = ""
    assembled.knows_owner = False
    assembled.role_context = load_profile_task()
    assembled.output_schema = _PROFILE_SCHEMA
    assembled.max_turns = _PROFILE_TURNS
    assembled.timeout_ms = _PROFILE_TIMEOUT_MS
    await batches.note_shown(services.ledgers, execution_id, [("fact", id_) for id_ in facts])
    result = await runs.run_once(services, request, assembled, execution_id)
    return request, "" if isinstance(result, runs.FailedRun) else result.response.content


def _make_schedule(work: str, cron: str) -> Schedule:
    """Make a schedule. Runs missed while nobody served the home are not made up for."""
    return Schedule(name=work, cron=cron, work=work, payload={"by_clock": True}, lane=_LANE, missed="skip")


_SCHEDULES: Final = (_make_schedule(CONSOLIDATION, "10,40 * * * *"), _make_schedule(REFRESHING, "25 * * * *"))


class Conclusions:
    """Consolidation and reflection in one home. Make it before the engine opens; `schedule` it afterwards."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        services.engine.register(CONSOLIDATION, self._consolidate)
        services.engine.register(REFRESHING, self._refresh)
        services.broker.add_tools(reflection.make_searches(services), for_everybody=False)
        services.broker.add_tools([make_reflect_tool(services)])

    async def schedule(self) -> None:
        """See to it that the schedules are there; those that are keep their next moment."""
        schedules = self._services.engine.schedules
        for schedule in _SCHEDULES:
            await schedules.put(schedule)

    async def consolidate(self, *, again: bool = False) -> StartedExecution:
        """Consolidate everything that waits, now; `again`: also what was set aside.

        It waits its turn behind a run of the clock, and gives a `Report` as JSON.
        """
        if again:
            await observations.take_up_again(self._services.ledgers)
        return await self._services.engine.start(
            CONSOLIDATION, {"by_clock": False}, key=f"schedule:{CONSOLIDATION}", lane=_LANE
        )

    async def _consolidate(self, context: WorkContext, payload: Any) -> dict[str, Any]:
        config, by_clock = self._services.config, bool(payload["by_clock"])
        off = explain_off(config)
        if by_clock and not config.memory.consolidation:
            off = "consolidation is switched off (consolidation in [memory])"
        await context.step("profile", self._refresh_profile, bool(off))
        if off:
            return Report(stopped=off).to_json()
        now = clock.now()
        until = clock.timestamp(now - SETTLED if by_clock else now)
        begun = await context.step("begin", _same, until)
        report = await Consolidation(services=self._services, context=context, until=begun)()
        if not report.stopped:
            await write_profile(self._services, context)
        return report.to_json()

    async def _refresh_profile(self, off: bool) -> None:
        """Keep the owner's profile up to date by rule, unless a model writes it."""
        version = await versions.newest(self._services.ledgers)
        if off or version is None or version.origin != "consolidation":
            await OwnerProfile(self._services.ledgers).refresh()

    async def _refresh(self, context: WorkContext, payload: Any) -> dict[str, Any]:
        return (await refresh_stale(self._services, context)).to_json()


async def _same(value: str) -> str:
    return value
