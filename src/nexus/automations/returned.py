"""What an automation returned, checked against what its hook point allows."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from nexus.automations.hook_points import RETURNS, HookPoint
from nexus.context.wrapping import wrapped
from nexus.errors import ScriptError
from nexus.request import Request
from nexus.runs import Answer

MOST_BYTES = 256 * 1024
CONTEXT = "context"
"""The key of a request's enrichment, and the tag of a prompt, that hold what automations say to agents."""
# Said by scripts that follow the older form; the registration decides, not the answer.
_IGNORED = frozenset({"fire", "blocking"})
_NARROWS = frozenset({"tools", "network"})
_ROUTES = frozenset({"session_label", "role"})
_REPLIES = frozenset({"text", "session", "channel"})
_MOST_SENT = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A message to people. Where it says nothing else, it goes where the request came from."""

    text: str
    session: str | None = None
    channel: str | None = None


@dataclass(kw_only=True)
class Returned:
    """What one automation returned, or what all those of a hook point returned together."""

    enrich: dict[str, Any] = field(default_factory=dict[str, Any])
    context: str | None = None
    reply: list[Reply] = field(default_factory=list[Reply])
    remember: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    log: dict[str, Any] = field(default_factory=dict[str, Any])
    content: str | None = None
    narrow: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    deny: str | None = None
    route: dict[str, str] = field(default_factory=dict[str, str])
    handled: bool = False
    response: str | None = None
    answer: str | None = None
    withhold: str | None = None
    changed_by: str = ""
    """Which automation said `answer` or `withhold`."""
    flag: str | None = None
    """Why what came of it is not to be called a success."""
    warnings: list[str] = field(default_factory=list[str])
    """What of it nobody reads."""

    def add(self, later: "Returned") -> None:
        """Merge what a later automation returned: it has the last word, except that a denial stands."""
        self.enrich |= later.enrich
        self.content = later.content if later.content is not None else self.content
        self.narrow += later.narrow
        self.deny = self.deny or later.deny
        self.route |= later.route
        self.handled = self.handled or later.handled
        self.response = later.response if later.response is not None else self.response
        self.answer = later.answer if later.answer is not None else self.answer
        self.withhold = self.withhold or later.withhold
        self.changed_by = later.changed_by or self.changed_by

    @property
    def ends(self) -> bool:
        """Whether automations behind this one are not asked any more."""
        return self.handled or self.deny is not None or self.withhold is not None


def apply(request: Request, returned: Returned, source: str) -> None:
    """Put into the request what the automation `source` returned for those behind it."""
    request.enrichment |= returned.enrich
    if returned.context is not None:
        request.enrichment[CONTEXT] = {**request.enrichment.get(CONTEXT, {}), source: returned.context}
    if returned.content is not None:
        request.event.content = returned.content
    for asked in returned.narrow:
        tools = asked.get("tools")
        request.access = request.access.narrow(
            tools=None if tools is None else frozenset(map(str, tools)),
            network=bool(asked.get("network", True)),
        )
    request.agent.session_label = str(returned.route.get("session_label", request.agent.session_label))
    request.agent.role = str(returned.route.get("role", request.agent.role))


def as_context(text: str, source: str) -> str:
    """What an automation has to say to an agent: data, with its source named."""
    return wrapped(CONTEXT, text.strip(), source=source)


def contexts(request: Request) -> list[str]:
    """What automations had to say before there was a context to put it into."""
    given: dict[str, str] = request.enrichment.get(CONTEXT) or {}
    return [as_context(text, source) for source, text in given.items()]


def as_json(value: object) -> object:
    """What an automation returned, as JSON can hold it: `Answer(text)` is short for an object."""
    return value.to_json() if isinstance(value, Answer) else value


def parse(value: object, point: HookPoint, *, blocking: bool = True) -> Returned:
    """Read what an automation returned; raises ScriptError where it may not return that here."""
    value = as_json(value)
    if value is None or value is False:
        return Returned()
    if not isinstance(value, dict):
        raise ScriptError(f"It returned {_shown(value)}", hint="Return an object, or nothing.")
    given = {key: each for key, each in cast("dict[Any, Any]", value).items() if key not in _IGNORED}
    for key, each in given.items():
        if key not in point.allowed:
            raise ScriptError(
                f"It returned `{key}`, which is not for {point.name}",
                hint=f"Allowed: {_listed(point.allowed)}.",
            )
        kinds = RETURNS[key].kinds
        if each is not None and type(each) not in kinds:
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise ScriptError(f"`{key}` must be of type {wanted}, and is {_shown(each)}")
    _require_size(given)
    given = {key: each for key, each in given.items() if each is not None}
    if "memories" in given:
        given["enrich"] = {**given.get("enrich", {}), "memories": given.pop("memories")}
    built = _built(given)
    built.warnings = list(_unread(built, point, blocking=blocking))
    return built


def _unread(returned: Returned, point: HookPoint, *, blocking: bool) -> Iterator[str]:
    """What of it has no reader."""
    reaches_agent = "memories" in point.returns and blocking
    if returned.enrich.get("memories") and not reaches_agent:
        why = "no agent waits for an async automation" if not blocking else f"{point.name} has no context"
        yield f"`memories` reaches no agent: {why}. Return `context` or `log`."
    if returned.context is not None and not blocking:
        yield "`context` reaches no agent: none waits for an async automation. Return `log`."
    others = returned.enrich.keys() - {"memories"}
    if others and (point.is_last or not blocking):
        why = "nothing runs after it" if point.is_last else "later automations don't wait for an async one"
        yield f"nobody reads `enrich` ({_listed(others)}): {why}. Return `log`, `reply` or `remember`."
    if not blocking and (returned.answer is not None or returned.withhold is not None):
        yield "`answer` comes too late: the answer doesn't wait for an async automation. Make it blocking."
    if returned.response is not None and not returned.handled and "handled" in point.returns:
        yield "nobody reads `response` without `handled`. Return `reply`, or `handled` too."


def _built(given: dict[str, Any]) -> Returned:
    for key, known in (("narrow", _NARROWS), ("route", _ROUTES)):
        unknown = given.get(key, {}).keys() - known
        if unknown:
            raise ScriptError(f"`{key}` has no {_listed(unknown)}", hint=f"Known: {_listed(known)}.")
    if "narrow" in given:
        given = {**given, "narrow": [given["narrow"]]}
    if "reply" in given:
        given = {**given, "reply": [_reply(each) for each in _each(given["reply"], "reply")]}
    if "remember" in given:
        given = {**given, "remember": [_statement(each) for each in _each(given["remember"], "remember")]}
    return Returned(**given)


def _each(value: object, key: str) -> list[object]:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    if len(listed) > _MOST_SENT:
        raise ScriptError(f"`{key}` has {len(listed)} parts", hint=f"At most {_MOST_SENT}.")
    return listed


def _reply(value: object) -> Reply:
    given: object = {"text": value} if isinstance(value, str) else value
    if not isinstance(given, dict):
        raise ScriptError(f"`reply` holds {_shown(value)}", hint="Return a text, or an object with `text`.")
    fields = cast("dict[str, Any]", given)
    if unknown := fields.keys() - _REPLIES:
        raise ScriptError(f"`reply` has no {_listed(unknown)}", hint=f"Known: {_listed(_REPLIES)}.")
    texts = {key: each for key, each in fields.items() if each is not None}
    if not all(isinstance(each, str) for each in texts.values()) or not str(texts.get("text", "")).strip():
        raise ScriptError("`reply` needs a `text`", hint="`session` and `channel` are texts too.")
    return Reply(**texts)


def _statement(value: object) -> dict[str, Any]:
    given: object = {"fact": value} if isinstance(value, str) else value
    if not isinstance(given, dict) or not str(cast("dict[str, Any]", given).get("fact") or "").strip():
        raise ScriptError(
            f"`remember` holds {_shown(value)}", hint="Return a text, or an object with `fact` and `about`."
        )
    return cast("dict[str, Any]", given)


def _require_size(given: dict[str, Any]) -> None:
    try:
        size_bytes = len(json.dumps(given))
    except (TypeError, ValueError) as error:
        raise ScriptError(f"It returned what JSON cannot hold: {error}") from error
    if size_bytes > MOST_BYTES:
        raise ScriptError(f"It returned {size_bytes // 1024} KiB", hint=f"At most {MOST_BYTES // 1024} KiB.")


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in sorted(map(str, names)))


def _shown(value: object) -> str:
    return f"{value!r:.80}"
