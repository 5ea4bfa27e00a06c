"""Facts: add one, correct it, pin it, review what was learned, and forget."""

import asyncio
import json
import subprocess
import sys
from datetime import timedelta
from typing import Any, Final, cast, get_args

from starlette.requests import Request
from starlette.responses import Response

from nexus import clock
from nexus.app import App
from nexus.errors import UsageError
from nexus.gateway.dashboard.render import (
    get,
    is_part,
    page,
    post,
    read_form,
    read_number,
    read_period,
    redirect,
)
from nexus.gateway.views import address
from nexus.gateway.views.requests import load_uses
from nexus.ledgers.memory.reviews import Decision
from nexus.ledgers.runtime import requests
from nexus.memory.views import entities, facts, names
from nexus.memory.views.facts import Review
from nexus.memory.writing import Provenance

ACTOR: Final = Provenance(actor="person:dashboard", kind="owner", channel="dashboard")
DAYS: Final = (7, 1, 30, 365)
_USES: Final = 8
_ASKED_CHARACTERS: Final = 140
_PREVIEW: Final = ("--preview", "--json")
_PREVIEW_S: Final = 600
_SHOWN: Final = 6


async def list_facts(request: Request, app: App) -> Response:
    """List the observation log, the newest first, or what is pinned."""
    query = request.query_params
    cursor = query.get("cursor")
    if query.get("pinned"):
        found = await facts.load_pinned(app.ledgers, cursor=cursor)
    else:
        found = await facts.load_page(
            app.ledgers, matching=query.get("q"), period=read_period(request), cursor=cursor
        )
    if is_part(request) and cursor:
        return await page(request, "part_facts.html", found=found, own=())
    return await page(request, "facts.html", active="memory", found=found, own=())


async def add(request: Request, app: App) -> Response:
    """Record a fact in the owner's words."""
    given = await read_form(request)
    arguments = {"fact": given.text("fact"), "about": given.text("about"), "as_of": given.text("as_of")}
    done = await app.memory.add({name: value for name, value in arguments.items() if value}, ACTOR)
    return redirect(address("memory/facts", done["id"]))


async def show_fact(request: Request, app: App) -> Response:
    """Show one fact: where it comes from, what it replaced, and where it was used."""
    view = await facts.get(app.ledgers, request.path_params["id"])
    used = await load_uses(app.ledgers, view.fact.id, _USES)
    asked = await _load_questions(app, [each.root_request_id for each in used])
    return await page(
        request,
        "fact.html",
        active="memory",
        view=view,
        fact=view.fact,
        used=[(each, asked.get(each.root_request_id, "")) for each in used],
    )


async def correct(request: Request, app: App) -> Response:
    """Replace a fact by what is true now."""
    fact_id = request.path_params["id"]
    done = await app.memory.correct(fact_id, (await read_form(request)).text("fact"), ACTOR)
    if is_part(request):
        return await _show_row(request, app, done["id"])
    return redirect(address("memory/facts", done["id"]))


async def replace(request: Request, app: App) -> Response:
    """Record that a fact replaces another one."""
    fact_id, old = request.path_params["id"], (await read_form(request)).text("old")
    await app.memory.run("causal-link", {"cause": old, "effect": fact_id, "relation": "replaced"}, ACTOR)
    return redirect(address("memory/facts", fact_id))


async def keep_both(request: Request, app: App) -> Response:
    """Record that a fact and the one that replaced it are both true."""
    fact_id = request.path_params["id"]
    await app.memory.keep_both(fact_id, None, ACTOR)
    return redirect(address("memory/facts", fact_id))


async def decide(request: Request, app: App) -> Response:
    """Accept, reject or pin a fact, or take that back."""
    fact_id, decision = request.path_params["id"], request.path_params["decision"]
    if decision not in get_args(Decision):
        raise UsageError(f"Unknown decision `{decision:.40}`")
    await app.memory.decide(fact_id, cast("Decision", decision), ACTOR)
    if is_part(request):
        return await _show_row(request, app, fact_id)
    return redirect(address("memory/facts", fact_id))


async def list_to_review(request: Request, app: App) -> Response:
    """List what was learned lately: what waits, and what was decided."""
    query = request.query_params
    asked = query.get("status")
    wanted = cast("Review", asked if asked in get_args(Review) else "pending")
    days = read_number(request, "days", DAYS[0], among=DAYS)
    since = clock.timestamp(clock.now() - timedelta(days=days))
    cursor = query.get("cursor")
    found = await facts.load_to_review(app.ledgers, since=since, status=wanted, cursor=cursor)
    if is_part(request) and cursor:
        return await page(request, "part_review.html", found=found)
    return await page(
        request,
        "review.html",
        active="memory",
        found=found,
        wanted=wanted,
        days=days,
        waiting=await facts.count_waiting(app.ledgers, since=since),
        merges=len(await entities.load_candidates(app.ledgers)),
    )


async def preview_forget(request: Request, app: App) -> Response:
    """Show what forgetting a fact or an entity would delete, and a button that does it."""
    query = request.query_params
    fact_id, entity_id = query.get("fact", ""), query.get("entity", "")
    mentions = query.get("mentions") != "no"
    plan = await app.forget_preview(fact=fact_id, entity=entity_id, mentions=mentions)
    subject = (await facts.get(app.ledgers, fact_id)).fact.fact if fact_id else ""
    entity = await entities.get(app.ledgers, entity_id) if not fact_id else None
    values: dict[str, Any] = {"plan": plan, "fact_id": fact_id, "statement": subject, "entity": entity}
    return await page(request, "forget.html", active="memory", mentions=mentions, report=None, **values)


async def preview(request: Request, app: App) -> Response:
    """Show which recorded prompts a correction, a rejection or a forget would have made different."""
    given = await read_form(request)
    fact_id, entity_id = given.text("fact_id"), given.text("entity")
    match given.text("change"):
        case "correct":
            command = ["memory", "correct", *_PREVIEW, "--", fact_id, given.text("fact")]
        case "reject":
            command = ["memory", "review", *_PREVIEW, "--reject", fact_id]
        case _ if fact_id:
            command = ["forget", "fact", *_PREVIEW, "--", fact_id]
        case _:
            mentions = ["--keep-mentions"] if given.text("mentions") == "no" else []
            command = ["forget", "entity", *_PREVIEW, *mentions, "--", entity_id]
    found = await _run_apart(app, command)
    newest = reversed(found["differences"])
    shown = sorted(newest, key=lambda each: not (each["removed"] or each["added"]))[:_SHOWN]
    return await page(request, "part_preview.html", found=found, shown=shown)


async def _run_apart(app: App, arguments: list[str]) -> dict[str, Any]:
    """Run a command in a process of its own: it takes seconds of a core, and the home goes on."""
    command = [sys.executable, "-m", "nexus", "--home", str(app.home.root), *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_PREVIEW_S):
            out, error = await process.communicate()
    except TimeoutError:
        raise UsageError(
            f"The preview took longer than {_PREVIEW_S // 60} minutes",
            hint="Run it in a terminal: `nexus memory correct ID TEXT --preview`.",
        ) from None
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if process.returncode:
        message, _, hint = error.decode(errors="replace").strip().removeprefix("nexus: ").partition("\n")
        raise UsageError(message[-400:] or "The preview failed", hint=hint.strip()[:400])
    return json.loads(out)


async def forget(request: Request, app: App) -> Response:
    """Delete a fact or an entity for good, and say what went."""
    given = await read_form(request)
    fact_id, entity_id = given.text("fact"), given.text("entity")
    if given.text("sure") != "yes":
        raise UsageError("Nothing deleted: not confirmed", hint="Check the box to confirm.")
    if fact_id:
        report = await app.forget_fact(fact_id)
    else:
        report = await app.forget(entity_id, mentions=given.text("mentions") != "no")
    erased = report if report.forget_id else None
    values: dict[str, Any] = {"plan": None, "fact_id": fact_id, "statement": "", "entity": None}
    if erased is not None:
        values["receipt"] = await asyncio.to_thread(app.find_receipt, erased.forget_id)
    return await page(
        request,
        "forget.html",
        active="memory",
        mentions=True,
        report=erased,
        **values,
    )


async def download_receipt(request: Request, app: App) -> Response:
    """Hand out the receipt of a deletion as a file."""
    forget_id = str(request.path_params["forget_id"])
    receipt = await asyncio.to_thread(app.find_receipt, forget_id)
    content = json.dumps(receipt.to_json(), indent=1)
    headers = {"content-disposition": f'attachment; filename="{receipt.id}.json"'}
    return Response(content, media_type="application/json", headers=headers)


async def _load_questions(app: App, request_ids: list[str]) -> dict[str, str]:
    """Load what the messages said that some requests answer."""
    found = await app.ledgers.runtime.read(requests.parties, request_ids=request_ids)
    events = {id_: each.event_id for id_, each in found.items()}
    said = await names.load_beginnings(app.ledgers, events.values(), _ASKED_CHARACTERS)
    return {id_: said.get(event_id or "", "") for id_, event_id in events.items()}


async def _show_row(request: Request, app: App, fact_id: str) -> Response:
    """Show one fact again, where a list shows it."""
    fact = (await facts.get(app.ledgers, fact_id)).fact
    where, _, key = request.headers.get("hx-target", "").partition("-")
    template = _ROWS.get(where, "part_fact.html")
    return await page(request, template, fact=fact, key=key, own=())


# How a fact is shown again, by what the script replaces.
_ROWS: Final = {
    "review": "part_reviewed.html",
    "offered": "part_corrected.html",
    "tools": "part_fact_tools.html",
}
ROUTES = (
    get("/memory/facts", list_facts),
    post("/memory/facts", add),
    get("/memory/review", list_to_review),
    get("/memory/forget", preview_forget),
    get("/memory/forget/{forget_id}.json", download_receipt),
    post("/memory/forget", forget),
    post("/memory/preview", preview),
    get("/memory/facts/{id}", show_fact),
    post("/memory/facts/{id}/correct", correct),
    post("/memory/facts/{id}/replace", replace),
    post("/memory/facts/{id}/keep-both", keep_both),
    post("/memory/facts/{id}/{decision}", decide),
)
