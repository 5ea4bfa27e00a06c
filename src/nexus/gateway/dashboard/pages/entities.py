"""Entities: who and what there is, what is known about it, and which of them are one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard.pages.facts import ACTOR
from nexus.gateway.dashboard.render import get, is_part, page, post, read_form, read_period, redirect
from nexus.gateway.dashboard.words import short
from nexus.gateway.views import address
from nexus.memory.views import conclusions, entities
from nexus.memory.views.entities import Neighbour

WIDTH: Final = 480
HEIGHT: Final = 320
_CENTRE: Final = (WIDTH / 2, HEIGHT / 2)
_REACH: Final = (120, 140)
_ROUNDNESS: Final = 0.85
_MOST: Final = 14
_THICKEST: Final = 5.0
_LABEL_CHARACTERS: Final = 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """One neighbour, where it is drawn."""

    neighbour: Neighbour
    label: str
    x: float
    y: float
    label_x: float
    label_y: float
    anchor: str
    radius: float
    edge: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """Ready to be drawn as SVG."""

    name: str
    centre: tuple[float, float]
    width: int
    height: int
    spots: tuple[Spot, ...]


def draw_neighbours(name: str, neighbours: Sequence[Neighbour]) -> Picture | None:
    """Draw the nearest neighbours around it; None where there are none."""
    shown = list(neighbours[:_MOST])
    if not shown:
        return None
    most = max(each.facts + each.episodes for each in shown)
    spots = tuple(_place_spot(each, place, len(shown), most) for place, each in enumerate(shown))
    return Picture(
        name=short(name, _LABEL_CHARACTERS), centre=_CENTRE, width=WIDTH, height=HEIGHT, spots=spots
    )


def _place_spot(neighbour: Neighbour, place: int, count: int, most: int) -> Spot:
    """Half of them to the right and half to the left, each at a height of its own for its label."""
    right = place % 2 == 0
    row, rows = place // 2, (count + 1) // 2 if right else count // 2
    height = (2 * row + 1) / rows - 1
    x = _CENTRE[0] + _REACH[0] * math.sqrt(1 - (height * _ROUNDNESS) ** 2) * (1 if right else -1)
    y = _CENTRE[1] + _REACH[1] * height
    share = (neighbour.facts + neighbour.episodes) / most
    radius = 4 + 6 * math.sqrt(share)
    return Spot(
        neighbour=neighbour,
        label=short(neighbour.name, _LABEL_CHARACTERS),
        x=round(x, 1),
        y=round(y, 1),
        label_x=round(x + (radius + 5) * (1 if right else -1), 1),
        label_y=round(y + 4, 1),
        anchor="start" if right else "end",
        radius=round(radius, 1),
        edge=round(max(1.0, _THICKEST * share), 1),
    )


async def list_entities(request: Request, app: App) -> Response:
    """List entities by last change."""
    query = request.query_params
    found = await entities.load_page(
        app.ledgers,
        matching=query.get("q") or None,
        type_=query.get("type") or None,
        period=read_period(request),
        cursor=query.get("cursor"),
    )
    if is_part(request) and query.get("cursor"):
        return await page(request, "part_entities.html", found=found)
    types = await entities.count_types(app.ledgers)
    return await page(request, "entities.html", active="memory", found=found, types=types)


async def show_entity(request: Request, app: App) -> Response:
    """Show one entity, with all that was merged into it."""
    entity = await entities.get(app.ledgers, request.path_params["id"])
    cursor = request.query_params.get("cursor")
    timeline = await entities.load_timeline(app.ledgers, entity.same, cursor=cursor)
    if is_part(request) and cursor:
        return await page(request, "part_facts.html", found=timeline, own=entity.same)
    return await page(
        request,
        "entity.html",
        active="memory",
        entity=entity,
        found=timeline,
        own=entity.same,
        picture=draw_neighbours(entity.name, entity.neighbours),
        observations=await conclusions.load_about(app.ledgers, "observation", entity.same),
        models=await conclusions.load_about(app.ledgers, "mental_model", entity.same),
    )


async def list_merges(request: Request, app: App) -> Response:
    """List pairs that may be one."""
    status = request.query_params.get("status", "pending")
    wanted = status if status != "all" else None
    found = await entities.load_candidates(app.ledgers, status=wanted, period=read_period(request))
    contacts = {
        id_: await entities.load_contacts(app.ledgers, id_) for pair in found for id_ in pair.entities
    }
    return await page(request, "merges.html", active="memory", found=found, wanted=status, contacts=contacts)


async def accept(request: Request, app: App) -> Response:
    """Let one entity stand for another."""
    given = await read_form(request)
    source, target = given.text("source"), given.text("target")
    done = await app.memory.run("merge", {"source": source, "target": target}, ACTOR)
    if is_part(request):
        return await page(request, "part_merged.html", merged=done["merged"], root=done["root"], kept=False)
    return redirect(address("memory/entities", done["root"]))


async def reject(request: Request, app: App) -> Response:
    """Keep two entities apart."""
    given = await read_form(request)
    await app.memory.run("reject", {"candidate": given.text("candidate")}, ACTOR)
    if is_part(request):
        return await page(request, "part_merged.html", merged="", root="", kept=True)
    return redirect("/memory/merges")


async def unmerge(request: Request, app: App) -> Response:
    """Take a merge back."""
    given = await read_form(request)
    done = await app.memory.run("unmerge", {"entity": given.text("entity")}, ACTOR)
    return redirect(address("memory/entities", done["entity_id"]))


ROUTES = (
    get("/memory/entities", list_entities),
    get("/memory/merges", list_merges),
    post("/memory/merges/accept", accept),
    post("/memory/merges/reject", reject),
    post("/memory/merges/undo", unmerge),
    get("/memory/entities/{id:path}", show_entity),
)
