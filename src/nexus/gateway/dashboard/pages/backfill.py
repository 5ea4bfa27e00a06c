"""Learning from imported histories: estimate, sample, start, pause, resume, budget."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.errors import NexusError, UsageError
from nexus.gateway.dashboard.render import Form, get, is_part, page, post, read_form, redirect
from nexus.ledgers.events import imports
from nexus.ledgers.memory.backfills import Limits
from nexus.runs import MICRO, money

_ACTIVE = "import"
_ORDERS = ("newest", "oldest", "relevant")
_LARGEST = 2**53


async def show_backfill(request: Request, app: App) -> Response:
    """Show the backfill that is active or was last, and a form for the next."""
    found = await app.ledgers.events.read(imports.list_imports)
    return await _show_page(request, app, "backfill.html", imports=found[::-1])


async def show_progress(request: Request, app: App) -> Response:
    """Show how far the backfill has come."""
    return await _show_page(request, app, "part_backfill.html")


async def estimate(request: Request, app: App) -> Response:
    """Estimate what a backfill would take."""
    given = await read_form(request)
    try:
        found = await app.backfill.estimate(_read_import_id(given), _read_limits(given))
    except NexusError as error:
        return await _show_error(request, error)
    return await page(
        request, "part_estimate.html", active=_ACTIVE, estimate=found, cost=_format_cost(found.cost_microusd)
    )


async def sample(request: Request, app: App) -> Response:
    """Show what the model would store of some episodes."""
    given = await read_form(request)
    try:
        found = await app.backfill.sample(_read_import_id(given))
    except NexusError as error:
        return await _show_error(request, error)
    return await page(request, "part_sample.html", active=_ACTIVE, sample=found)


async def start(request: Request, app: App) -> Response:
    """Start a backfill."""
    given = await read_form(request)
    order = given.text("order") or "newest"
    if order not in _ORDERS:
        raise UsageError(f"Unknown order: `{order:.40}`")
    await app.backfill.start(_read_import_id(given), sort=order, limits=_read_limits(given))
    return redirect("/backfill")


async def change(request: Request, app: App) -> Response:
    """Pause, resume or cancel the backfill."""
    match request.path_params["to"]:
        case "pause":
            await app.backfill.pause()
        case "resume":
            limits = _read_limits(await read_form(request))
            await app.backfill.resume(None if limits == Limits() else limits)
        case "cancel":
            await app.backfill.cancel()
        case to:
            raise UsageError(f"Unknown action for a backfill: `{to:.40}`")
    return await show_progress(request, app) if is_part(request) else redirect("/backfill")


async def _show_error(request: Request, error: NexusError) -> Response:
    """Show the reason, in the place of what was asked for."""
    if not is_part(request):
        raise error
    return await page(request, "part_error.html", error=error)


async def _show_page(request: Request, app: App, template: str, **values: Any) -> Response:
    found = await app.backfill.latest()
    done = found.progress if found else None
    return await page(
        request,
        template,
        active=_ACTIVE,
        backfill=found,
        read=done.done + done.skipped if done else 0,
        total=done.waiting + done.done + done.skipped + done.failed if done else 0,
        cost=_format_cost(done.cost_microusd if done else None),
        expected=_format_cost(found.estimate.get("cost_microusd") if found else None),
        budget=_format_cost(found.limits.budget_microusd if found else None),
        **values,
    )


def _format_cost(microusd: int | None) -> str:
    return "" if microusd is None else money(microusd)


def _read_import_id(given: Form) -> str | None:
    return given.text("import_id") or None


def _read_limits(given: Form) -> Limits:
    budget = _read_number(given, "budget", float)
    return Limits(
        episodes_an_hour=_read_number(given, "per_hour", int),
        budget_microusd=None if budget is None else max(1, round(budget * MICRO)),
        budget_tokens=_read_number(given, "budget_tokens", int),
    )


def _read_number(given: Form, name: str, kind: type[Any]) -> Any:
    text = given.text(name)
    if not text:
        return None
    try:
        value = kind(text)
    except ValueError:
        value = 0
    if not 0 < value < _LARGEST:
        raise UsageError(
            f"`{text:.40}` is not a limit", hint="Write a number above 0, or nothing for no limit."
        )
    return value


ROUTES = (
    get("/backfill", show_backfill),
    get("/backfill/progress", show_progress),
    post("/backfill/estimate", estimate),
    post("/backfill/sample", sample),
    post("/backfill/start", start),
    post("/backfill/{to}", change),
)
