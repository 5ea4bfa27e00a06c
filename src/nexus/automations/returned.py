"""What an automation returned, checked against what its hook point allows."""

import json
from dataclasses import dataclass, field
from typing import Any, cast

from nexus.automations.hook_points import HookPoint
from nexus.errors import ScriptError
from nexus.request import Request

MOST_BYTES = 256 * 1024
_KINDS: dict[str, type] = {
    "enrich": dict,
    "content": str,
    "narrow": dict,
    "deny": str,
    "route": dict,
    "handled": bool,
    "response": str,
    "flag": str,
}
# What may be returned at every hook point, beside what the point itself allows.
_ANYWHERE = ("flag",)
# Said by scripts that follow the older form; the registration decides, not the answer.
_IGNORED = frozenset({"fire", "blocking"})
_NARROWS = frozenset({"tools", "network"})
_ROUTES = frozenset({"session_label", "role"})


@dataclass(kw_only=True)
class Returned:
    """What one automation returned, or what all those of a hook point returned together."""

    enrich: dict[str, Any] = field(default_factory=dict[str, Any])
    content: str | None = None
    narrow: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    deny: str | None = None
    route: dict[str, str] = field(default_factory=dict[str, str])
    handled: bool = False
    response: str | None = None
    flag: str | None = None
    """Why what came of it is not to be called a success."""

    def add(self, later: "Returned") -> None:
        """Merge what a later automation returned: it has the last word, except that a denial stands."""
        self.enrich |= later.enrich
        self.content = later.content if later.content is not None else self.content
        self.narrow += later.narrow
        self.deny = self.deny or later.deny
        self.route |= later.route
        self.handled = self.handled or later.handled
        self.response = later.response if later.response is not None else self.response

    @property
    def ends(self) -> bool:
        """Whether automations behind this one are not asked any more."""
        return self.handled or self.deny is not None


def apply(request: Request, returned: Returned) -> None:
    """Put into the request what an automation returned for those behind it."""
    request.enrichment |= returned.enrich
    if returned.content is not None:
        request.event.content = returned.content
    for asked in returned.narrow:
        tools = asked.get("tools")
        request.access = request.access.narrowed(
            tools=None if tools is None else frozenset(map(str, tools)),
            network=bool(asked.get("network", True)),
        )
    request.agent.session_label = str(returned.route.get("session_label", request.agent.session_label))
    request.agent.role = str(returned.route.get("role", request.agent.role))


def parse(value: object, point: HookPoint) -> Returned:
    """Read what an automation returned; raises ScriptError where it may not return that here."""
    if value is None or value is False:
        return Returned()
    if not isinstance(value, dict):
        raise ScriptError(f"It returned {_shown(value)}", hint="Return an object, or nothing.")
    given = {key: each for key, each in cast("dict[Any, Any]", value).items() if key not in _IGNORED}
    for key, each in given.items():
        if key not in (*point.returns, *_ANYWHERE):
            raise ScriptError(
                f"It returned `{key}`, which is not for {point.name}",
                hint=f"Allowed: {_listed((*point.returns, *_ANYWHERE))}.",
            )
        if each is not None and type(each) is not _KINDS[key]:
            raise ScriptError(f"`{key}` must be of type {_KINDS[key].__name__}, and is {_shown(each)}")
    _require_size(given)
    return _built({key: each for key, each in given.items() if each is not None})


def _built(given: dict[str, Any]) -> Returned:
    for key, known in (("narrow", _NARROWS), ("route", _ROUTES)):
        unknown = given.get(key, {}).keys() - known
        if unknown:
            raise ScriptError(f"`{key}` has no {_listed(unknown)}", hint=f"Known: {_listed(known)}.")
    if "narrow" in given:
        given = {**given, "narrow": [given["narrow"]]}
    return Returned(**given)


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
