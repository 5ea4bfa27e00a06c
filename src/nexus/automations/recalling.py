"""Recall, for automations: a question on behalf of a request finds what its principal may know."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, cast, get_args

from nexus import clock
from nexus.config import MemoryConfig
from nexus.errors import AutomationError, ModelFileError
from nexus.ledgers import Ledgers
from nexus.memory.embedding import Vectors, opened
from nexus.memory.recall import Budget, Kind, Query, Recall, Result
from nexus.memory.recall.reranker import installed_reranker
from nexus.request import Request

_OPTIONS = (
    "about",
    "budget",
    "channel",
    "deadline_ms",
    "kinds",
    "limit",
    "max_tokens",
    "since",
    "until",
)


Opened = Callable[[], Awaitable[Recall]]
"""Gives a home's memory, ready to be asked."""


class Recaller:
    """A home's memory, asked on behalf of requests."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> list[dict[str, Any]]:
        """The best matches, each marked strong or weak."""
        asked = query(request, question, options)
        recall = await self._opened()
        return [_told(result) for result in (await recall.find(asked)).results]


class Alone:
    """The memory of a home that nobody serves; the model that finds by meaning is loaded when it is asked."""

    def __init__(self, ledgers: Ledgers, settings: MemoryConfig) -> None:
        self._ledgers = ledgers
        self._settings = settings
        self._loading = asyncio.Lock()
        self._recall: Recall | None = None

    async def __call__(self) -> Recall:
        async with self._loading:
            if self._recall is None:
                reranker = await asyncio.to_thread(installed_reranker)
                self._recall = Recall(self._ledgers, await self._vectors(), reranker=reranker)
            return self._recall

    async def _vectors(self) -> Vectors | None:
        try:
            return await opened(self._ledgers, self._settings)
        except ModelFileError:
            return None  # by words alone


def query(request: Request, question: str, options: dict[str, Any]) -> Query:
    """What is asked on behalf of a request; an error where an option isn't one."""
    unknown = ", ".join(sorted(options.keys() - set(_OPTIONS)))
    if unknown:
        raise AutomationError(f"recall has no option {unknown}", hint=f"Known: {', '.join(_OPTIONS)}.")
    budget = options.get("budget", "low")
    if budget not in get_args(Budget):
        raise AutomationError(f"{budget!r} is not a budget", hint="Use low, mid or high.")
    visible = request.access.visibility(request.event.thread_id)
    if visible.nothing:
        raise AutomationError("Nothing may be recalled on behalf of this request")
    return Query(
        text=question,
        kinds=_kinds(options.get("kinds")),
        entity_id=options.get("about"),
        time_after=_moment(options.get("since")),
        time_before=_moment(options.get("until")),
        thread_ids=visible.thread_ids,
        channel=options.get("channel"),
        max_results=int(options.get("limit", 10)),
        max_tokens=int(options.get("max_tokens", 2_000)),
        budget=budget,
        deadline_ms=int(options["deadline_ms"]) if "deadline_ms" in options else None,
    )


def _kinds(given: list[str] | None) -> frozenset[Kind]:
    known = get_args(Kind)
    if unknown := set(given or ()) - set(known):
        raise AutomationError(f"{', '.join(sorted(unknown))} is no kind", hint=f"Known: {', '.join(known)}.")
    return cast("frozenset[Kind]", frozenset(given or known))


def _moment(given: str | None) -> datetime | None:
    try:
        return None if given is None else clock.parse(given)
    except (TypeError, ValueError):
        raise AutomationError(f"{given!r} is not a moment", hint="Such as 2026-05-01T08:00Z.") from None


def _told(result: Result) -> dict[str, Any]:
    item = result.item
    return {
        "kind": item.kind,
        "id": item.id,
        "text": item.text,
        "at": item.at,
        "speaker": item.speaker,
        "strength": result.strength,
        "probability": result.probability,
    }
