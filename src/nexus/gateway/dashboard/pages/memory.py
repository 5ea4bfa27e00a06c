"""The memory: asking it, with why it answers so; episodes."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard import parts
from nexus.gateway.dashboard.endpoint import get
from nexus.gateway.dashboard.periods import period
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.views import episodes
from nexus.memory.recall.item import PATIENT_MS, Budget, Query, kinds

BUDGETS: Final[tuple[Budget, ...]] = ("low", "mid", "high")
SCOPES: Final = ("events", "facts", "observations", "mental_models", "episodes", "entities")
_RESULTS: Final = 15


async def recall(request: Request, app: App) -> Response:
    """The recall playground: a question, what is found, and why."""
    query = request.query_params
    text, scope = query.get("q", "").strip(), query.get("scope", "")
    answer = None
    if text:
        asked = Query(
            text=text,
            kinds=kinds(scope),
            entity_id=query.get("entity") or None,
            budget=_budget(query.get("budget")),
            max_results=_RESULTS,
            deadline_ms=PATIENT_MS,
        )
        answer = await (await app.open_recall()).find(asked)
    template = "part_recall.html" if is_part(request) else "recall.html"
    return await page(
        request,
        template,
        active="memory",
        answer=answer,
        asked=text,
        budgets=BUDGETS,
        scopes=SCOPES,
        largest=_largest(answer),
    )


async def episode_list(request: Request, app: App) -> Response:
    """Stretches of conversation, the latest first."""
    cursor = request.query_params.get("cursor")
    found = await episodes.listed(app.ledgers, period=period(request), cursor=cursor)
    if is_part(request) and cursor:
        return await page(request, "part_episodes.html", found=found)
    return await page(request, "episodes.html", active="memory", found=found)


async def episode(request: Request, app: App) -> Response:
    """One episode."""
    view = await episodes.get(app.ledgers, request.path_params["id"])
    return await page(request, "episode.html", active="memory", view=view, shown=parts.beginning(view.said))


def _budget(text: str | None) -> Budget:
    found: list[Budget] = [each for each in BUDGETS if each == text]
    return found[0] if found else "mid"


def _largest(answer: object) -> float:
    """The largest part of any score, against which the bars of all are drawn."""
    results = getattr(answer, "results", ())
    parts = [abs(value) for result in results for value in result.reasons.factors.values()]
    return max(parts, default=1.0) or 1.0


ROUTES = (
    get("/memory", recall),
    get("/memory/episodes", episode_list),
    get("/memory/episodes/{id}", episode),
)
