"""Every place where automations run: its name, when it fires, what is received, what may be returned.

`enrich` is merged into `request.enrichment`, where later stages and automations find it. At the two points
that have an assembled context, `enrich["memories"]` is also put before the current message. Whatever is
returned beyond what its hook point allows is an error of the automation.
"""

from dataclasses import dataclass

from nexus.errors import UnknownHookPointError

SCHEDULE = "schedule"


@dataclass(frozen=True, kw_only=True, slots=True)
class HookPoint:
    """One place. `budget_ms` is what all its blocking automations may take together."""

    name: str
    when: str
    receives: str
    returns: tuple[str, ...] = ("enrich",)
    budget_ms: int = 10_000


HOOK_POINTS: tuple[HookPoint, ...] = (
    HookPoint(
        name="after:receiveEvent",
        when="After a message was read and recorded, before anybody knows who sent it.",
        receives="the request with its event",
        returns=("enrich", "content"),
    ),
    HookPoint(
        name="after:resolveIdentity",
        when="After the sender was found among the contacts, or became one.",
        receives="the request with its principal",
    ),
    HookPoint(
        name="after:resolveAccess",
        when="After it was decided what the sender may reach. A denied request does not come here.",
        receives="the request with its access",
        returns=("enrich", "narrow", "deny"),
    ),
    HookPoint(
        name="runAutomations",
        when="As a stage of its own: the first point at which it is known who asks and what they may do.",
        receives="the request with its access",
        returns=("enrich", "route", "handled", "response"),
        budget_ms=30_000,
    ),
    HookPoint(
        name="after:assembleContext",
        when="After the context of the answering agent was put together, before its run is queued.",
        receives="the request and the assembled context",
    ),
    HookPoint(
        name="after:runAgent",
        when="After an agent's turn: the answer of a request, or a worker's.",
        receives="the request and the result of the run",
    ),
    HookPoint(
        name="after:deliverResponse",
        when="After the answer was handed to its channel.",
        receives="the request and the result of the run",
    ),
    HookPoint(
        name="finalize",
        when="As the last stage, also for a request that failed; not for one that was denied.",
        receives="the request, and the result of the run where there is one",
    ),
    HookPoint(
        name="worker:pre_execution",
        when="After a worker's context was put together, before its run is queued. The worker waits.",
        receives="the worker's request and its assembled context",
    ),
    HookPoint(
        name="command:new",
        when="When a person starts a session afresh with `/new`, before the old one is left.",
        receives="the request, whose session is the one that is left",
    ),
    HookPoint(
        name="agent:bootstrap",
        when="When a session runs for the first time, before its context is put together.",
        receives="the request",
    ),
    HookPoint(
        name="gateway:startup",
        when="When a process begins to serve the home.",
        receives="a request of the runtime itself, without a sender",
        budget_ms=30_000,
    ),
    HookPoint(
        name=SCHEDULE,
        when="When the automation's own schedule says so, in a process that serves the home.",
        receives="a request with the owner's rights, whose message is the moment that was due",
        returns=("enrich", "response"),
        budget_ms=0,
    ),
)

RETURNS: dict[str, str] = {
    "enrich": "an object whose keys are added to `request.enrichment`",
    "content": "a text that stands for the message from here on; the ledger keeps what was really said",
    "narrow": "`tools` and `network`: access is cut down to these; it can never be widened",
    "deny": "a reason; the request goes no further",
    "route": "`session_label` and `role`: who answers, and in which session",
    "handled": "true: no agent runs, and automations behind this one do not run either",
    "response": "the answer to give where it was handled; by the clock, a message to the owner",
    "flag": "at every point: why what came of it is no success, for `nexus automations logs`",
}

_BY_NAME = {point.name: point for point in HOOK_POINTS}


def get(name: str) -> HookPoint:
    """The hook point of that name. A name that is not in this file is an error."""
    try:
        return _BY_NAME[name]
    except KeyError:
        known = ", ".join(_BY_NAME)
        raise UnknownHookPointError(f"There is no hook point `{name}`", hint=f"Known: {known}.") from None
