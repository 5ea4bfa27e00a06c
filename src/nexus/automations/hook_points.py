"""Every place where automations run: its name, when it fires, what is received, what may be returned.

Every key that may be returned has a destination, which `RETURNS` names. Whatever is returned beyond what its
hook point allows is an error of the automation; what nobody would read is a warning in the invocation's log,
and an error in a test.
"""

from dataclasses import dataclass
from typing import Final

from nexus.config import AutomationsConfig
from nexus.errors import UnknownHookPointError

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
