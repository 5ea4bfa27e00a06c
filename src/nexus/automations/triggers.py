"""Further conditions for firing, as a registration states them. All that are given must hold."""

from collections.abc import Callable, Collection
from fnmatch import fnmatchcase
from typing import Any, cast

from nexus.automations import timing
from nexus.errors import AutomationError
from nexus.request import Request

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


def check(triggers: dict[str, Any]) -> None:
    """Refuse a registration with a condition that would never be looked at."""
    for name in triggers:
        if name not in CONDITIONS and name not in timing.KEYS:
            raise AutomationError(f"`{name}` is not a trigger", hint=f"Known: {', '.join(CONDITIONS)}.")


def _as_list(given: object) -> list[str]:
    return list(map(str, cast("list[Any]", given))) if isinstance(given, list) else [str(given)]
