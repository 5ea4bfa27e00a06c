"""Every place where automations run: its name, when it fires, what is received, what may be returned.

Every key that may be returned has a destination, which `RETURNS` names. Whatever is returned beyond what its
hook point allows is an error of the automation; what nobody would read is a warning in the invocation's log,
and an error in a test.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

from nexus import clock
from nexus.config import AutomationsConfig
from nexus.engine import cron as crons
from nexus.engine.cron import Schedule
from nexus.errors import AutomationError, UnknownHookPointError
from nexus.ledgers.runtime.automations import NewAutomation
from nexus.request import Request

SCHEDULE: Final = "schedule"
BEFORE_DELIVERY: Final = "before:deliverResponse"

SENT = ("reply", "remember")
ANYWHERE = ("log", "flag")


@dataclass(frozen=True, kw_only=True, slots=True)
class HookPoint:
    """One place. `budget` is the setting that bounds all its blocking automations together."""

    name: str
    when: str
    receives: str
    returns: tuple[str, ...] = ("enrich",)
    budget: str = "budget_ms"
    sends: bool = True
    """Whether `reply` and `remember` may be returned: only where it is known who asks."""
    is_last: bool = False
    """Whether nothing comes after it that could read `enrich`."""
    guards: bool = False
    """Whether the answer is withheld where a blocking automation fails, unless its settings say otherwise."""

    @property
    def allowed(self) -> tuple[str, ...]:
        """Every key that may be returned here."""
        return (*self.returns, *(SENT if self.sends else ()), *ANYWHERE)

    def budget_ms(self, settings: AutomationsConfig) -> int:
        """How long all its blocking automations may take together; 0: none blocks."""
        return int(getattr(settings, self.budget)) if self.budget else 0


HOOK_POINTS: tuple[HookPoint, ...] = (
    HookPoint(
        name="after:receiveEvent",
        when="After a message is recorded, before its sender is known.",
        receives="the request with its event",
        returns=("enrich", "context", "content"),
        sends=False,
    ),
    HookPoint(
        name="after:resolveIdentity",
        when="After the sender is resolved to a contact.",
        receives="the request with its principal",
        returns=("enrich", "context"),
        sends=False,
    ),
    HookPoint(
        name="after:resolveAccess",
        when="After the sender's access is decided. Not for denied requests.",
        receives="the request with its access",
        returns=("enrich", "context", "narrow", "deny"),
    ),
    HookPoint(
        name="runAutomations",
        when="As its own stage, once sender and access are known.",
        receives="the request with its access",
        returns=("enrich", "context", "route", "handled", "response"),
        budget="decision_budget_ms",
    ),
    HookPoint(
        name="after:assembleContext",
        when="When the run that answers a message begins, after the agent's context is assembled.",
        receives="the request and the assembled context",
        returns=("enrich", "context", "memories"),
    ),
    HookPoint(
        name="after:runAgent",
        when="After an agent's turn, the manager's or a worker's.",
        receives="the request and the result of the run",
    ),
    HookPoint(
        name=BEFORE_DELIVERY,
        when="Before an answer is sent to its channel. Not for workers' results.",
        receives="the request and the answer, `ctx.answer`",
        returns=("enrich", "answer", "withhold"),
        budget="decision_budget_ms",
        guards=True,
    ),
    HookPoint(
        name="after:deliverResponse",
        when="After the answer is sent to its channel.",
        receives="the request and the result of the run",
    ),
    HookPoint(
        name="finalize",
        when="As the last stage, including failed requests, but not denied ones.",
        receives="the request, and the result of the run if there is one",
        is_last=True,
    ),
    HookPoint(
        name="worker:pre_execution",
        when="When a worker's run begins, after its context is assembled.",
        receives="the worker's request and its assembled context",
        returns=("enrich", "context", "memories"),
        budget="worker_budget_ms",
    ),
    HookPoint(
        name="command:new",
        when="When a person starts a new session with `/new`.",
        receives="the request, with the thread and the session that is left; a fork has its conversation",
        is_last=True,
    ),
    HookPoint(
        name="agent:bootstrap",
        when="When the first run of a session begins, a worker's too.",
        receives="the request; in a worker's session, its assembled context too",
        returns=("enrich", "context"),
    ),
    HookPoint(
        name="gateway:startup",
        when="When a process starts serving the home.",
        receives="a request without a sender",
        budget="startup_budget_ms",
        is_last=True,
    ),
    HookPoint(
        name=SCHEDULE,
        when="When the automation's schedule is due, while the home is served.",
        receives="a request with the owner's rights, whose message is the scheduled time",
        returns=("enrich", "response"),
        budget="",
        is_last=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Field:
    """One key that may be returned: its types in JSON, and what becomes of it."""

    kinds: tuple[type, ...]
    about: str


RETURNS: dict[str, Field] = {
    "context": Field(
        (str,), "a text for the agent, put before the message or task and marked with the automation's name"
    ),
    "memories": Field(
        (str,), "the same for memories, in `<memory_context>`; a later automation's replace an earlier one's"
    ),
    "reply": Field(
        (str, dict, list),
        "a message to people: a text, sent where the request came from, or an object with `text` and "
        "`session` or `channel`, or a list of these",
    ),
    "remember": Field(
        (str, dict, list),
        "what the memory is to keep, through its gate: a text, or an object such as "
        '`{"fact": …, "about": …}`, or a list of these',
    ),
    "enrich": Field(
        (dict,), "an object whose keys are added to `request.enrichment`, for automations that run later"
    ),
    "content": Field((str,), "text that replaces the message from here on; the ledger keeps the original"),
    "narrow": Field((dict,), "`tools` and `network`: narrows access; never widens it"),
    "deny": Field((str,), "a reason; the request stops here"),
    "route": Field((dict,), "`session_label` and `role`: who answers, and in which session"),
    "handled": Field((bool,), "true: no agent and no later automation runs"),
    "response": Field((str,), "the answer if handled; for a schedule, a message to the owner"),
    "answer": Field(
        (str,),
        "the text that is delivered in place of the answer, which the ledger keeps. In Python: "
        "`Answer(text)`",
    ),
    "withhold": Field(
        (str,),
        "why the answer is not delivered; no later automation runs. In Python: `Answer.withhold(why)`",
    ),
    "log": Field(
        (dict,), "at every point: an object that is kept with the invocation, for `nexus automations logs`"
    ),
    "flag": Field(
        (str,), "at every hook point: why the result is not a success, for `nexus automations logs`"
    ),
}

_BY_NAME = {point.name: point for point in HOOK_POINTS}


def find(name: str) -> HookPoint | None:
    """The hook point of that name; None where there is none."""
    return _BY_NAME.get(name)


def get(name: str) -> HookPoint:
    """The hook point of that name. A name that is not in this file is an error."""
    try:
        return _BY_NAME[name]
    except KeyError:
        known = ", ".join(_BY_NAME)
        raise UnknownHookPointError(f"Unknown hook point `{name}`", hint=f"Known: {known}.") from None


KEYS: Final = frozenset({"cron", "at", "zone"})
WORK: Final = "automations.due"
PREFIX: Final = "automation:"
"""What the names of these schedules begin with on the engine."""


def build_schedule(name: str, triggers: dict[str, Any]) -> Schedule:
    """The engine's schedule of an automation. What was missed while nobody served is made up for once."""
    cron, zone = str(triggers.get("cron", "")), str(triggers.get("zone", "UTC"))
    if "at" in triggers:
        cron, zone = crons.once(_parse_moment(triggers["at"])), "UTC"
    return Schedule(name=f"{PREFIX}{name}", cron=cron, zone=zone, work=WORK, payload={"automation": name})


def upcoming(triggers: dict[str, Any], after: datetime) -> datetime | None:
    """When it runs next, in its own time zone; None if that has passed."""
    found = build_schedule("", triggers)
    due = crons.upcoming(found.cron, found.zone, after)
    return due and due.astimezone(ZoneInfo(str(triggers.get("zone", "UTC"))))


def check(new: NewAutomation) -> None:
    """Refuse a condition that is none, and a schedule that could never come due or would not be looked at."""
    _check_conditions(new.triggers)
    said = KEYS & new.triggers.keys()
    if new.hook_point != SCHEDULE:
        if said:
            raise AutomationError(
                f"{new.hook_point} has no schedule",
                hint="Leave out --hook-point, or --schedule and --zone.",
            )
        return
    if len({"cron", "at"} & said) != 1:
        raise AutomationError(
            "A schedule is missing",
            hint="Such as `--schedule '0 8 * * *'`: daily at eight.",
        )
    if others := ", ".join(sorted(new.triggers.keys() - KEYS)):
        raise AutomationError(
            f"A scheduled automation can't have triggers ({others})", hint="Leave out --trigger."
        )
    if new.blocking:
        raise AutomationError("A scheduled automation can't be blocking", hint="Leave out --blocking.")
    if "at" in said and new.mode != "once":
        raise AutomationError("An automation with a single date runs once", hint="Pass --once.")
    if "cron" in said and upcoming(new.triggers, clock.now()) is None:
        raise AutomationError(f"The schedule `{new.triggers['cron']}` never comes due")
    build_schedule(new.name, new.triggers)


def _parse_moment(given: object) -> datetime:
    try:
        return clock.parse(str(given))
    except ValueError:
        raise AutomationError(
            f"`{given}` is not a moment", hint="Such as `2026-05-01T09:00:00.000Z`."
        ) from None


CONDITIONS: dict[str, Callable[[Request, list[str]], bool]] = {
    "channels": lambda request, given: (request.event.channel or "") in given,
    "contains": lambda request, given: any(
        text.casefold() in request.event.content.casefold() for text in given
    ),
    "enriched": lambda request, given: any(name in request.enrichment for name in given),
    "levels": lambda request, given: request.access.level in given,
    "roles": lambda request, given: request.agent.role in given,
    "sessions": lambda request, given: any(
        fnmatchcase(request.agent.session_label, pattern) for pattern in given
    ),
}


def are_met(triggers: dict[str, Any], request: Request, ignoring: Collection[str] = ()) -> bool:
    """Whether a request meets the conditions. What this program does not know is no condition."""
    return all(
        CONDITIONS[name](request, _as_list(given))
        for name, given in triggers.items()
        if name in CONDITIONS and name not in ignoring
    )


def _check_conditions(triggers: dict[str, Any]) -> None:
    """Refuse a registration with a condition that would never be looked at."""
    for name in triggers:
        if name not in CONDITIONS and name not in KEYS:
            raise AutomationError(f"`{name}` is not a trigger", hint=f"Known: {', '.join(CONDITIONS)}.")


def _as_list(given: object) -> list[str]:
    return list(map(str, cast("list[Any]", given))) if isinstance(given, list) else [str(given)]
