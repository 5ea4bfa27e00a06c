"""Entities: who and what there is, what is known about it, and which of them are one."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard import graph
from nexus.gateway.dashboard.endpoint import back, form, get, post
from nexus.gateway.dashboard.pages.facts import ACTOR
from nexus.gateway.dashboard.periods import period
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.views import conclusions, entities
from nexus.gateway.views.page import address


async def listed(request: Request, app: App) -> Response:
    """List entities by last change."""
    query = request.query_params
    found = await entities.listed(
        app.ledgers,
        matching=query.get("q") or None,
        type_=query.get("type") or None,
        period=period(request),
        cursor=query.get("cursor"),
    )
    if is_part(request) and query.get("cursor"):
        return await page(request, "part_entities.html", found=found)
    types = await entities.types(app.ledgers)
    return await page(request, "entities.html", active="memory", found=found, types=types)


async def shown(request: Request, app: App) -> Response:
    """One entity, with all that was merged into it."""
    entity = await entities.get(app.ledgers, request.path_params["id"])
    cursor = request.query_params.get("cursor")
    timeline = await entities.timeline(app.ledgers, entity.same, cursor=cursor)
    if is_part(request) and cursor:
        return await page(request, "part_facts.html", found=timeline, own=entity.same)
    return await page(
        request,
        "entity.html",
        active="memory",
        entity=entity,
        found=timeline,
        own=entity.same,
        picture=graph.drawn(entity.name, entity.neighbours),
        observations=await conclusions.about(app.ledgers, "observation", entity.same),
        models=await conclusions.about(app.ledgers, "mental_model", entity.same),
    )


async def merges(request: Request, app: App) -> Response:
    """Pairs that may be one."""
    status = request.query_params.get("status", "pending")
    wanted = status if status != "all" else None
    found = await entities.candidates(app.ledgers, status=wanted, period=period(request))
    contacts = {id_: await entities.channels(app.ledgers, id_) for pair in found for id_ in pair.entities}
    return await page(request, "merges.html", active="memory", found=found, wanted=status, contacts=contacts)


async def accept(request: Request, app: App) -> Response:
    """Let one entity stand for another."""
    given = await form(request)
    source, target = given.text("source"), given.text("target")
    done = await app.memory.run("merge", {"source": source, "target": target}, ACTOR)
    if is_part(request):
        return await page(request, "part_merged.html", merged=done["merged"], root=done["root"], kept=False)
    return back(address("memory/entities", done["root"]))


async def reject(request: Request, app: App) -> Response:
    """Keep two entities apart."""
    given = await form(request)
    await app.memory.run("reject", {"candidate": given.text("candidate")}, ACTOR)
    if is_part(request):
        return await page(request, "part_merged.html", merged="", root="", kept=True)
    return back("/memory/merges")


async def unmerge(request: Request, app: App) -> Response:
    """Take a merge back."""
    given = await form(request)
    done = await app.memory.run("unmerge", {"entity": given.text("entity")}, ACTOR)
    return back(address("memory/entities", done["entity_id"]))


ROUTES = (
    get("/memory/entities", listed),
    get("/memory/merges", merges),
    post("/memory/merges/accept", accept),
    post("/memory/merges/reject", reject),
    post("/memory/merges/undo", unmerge),
    get("/memory/entities/{id:path}", shown),
)
