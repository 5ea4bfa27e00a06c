"""The chat: say something, watch the answer being written, and see what the memory added."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from nexus import ids
from nexus.app import App
from nexus.engine.errors import EndedError
from nexus.errors import MissingError
from nexus.gateway.dashboard import parts
from nexus.gateway.dashboard.endpoint import back, form, get, post
from nexus.gateway.dashboard.pages import reminders
from nexus.gateway.dashboard.render import is_part, page, segment
from nexus.gateway.views import injections, sessions
from nexus.gateway.views.page import Page
from nexus.ledgers import events
from nexus.ledgers.runtime import executions
from nexus.runs import FinishedRun, Run, Totals

MAIN: Final = "main"
_CHANNEL: Final = "web"
_SHOWN_SESSIONS: Final = 12
_LATEST: Final = "9999"
"""Sorts behind every time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """An answer's text and its cost, or why there is none."""

    run_id: str
    request_id: str
    content: str = ""
    usage: Totals | None = None
    error: EndedError | None = None


async def shown(request: Request, app: App) -> Response:
    """A session as a conversation, with a place to go on."""
    label = request.path_params.get("label", MAIN)
    cursor = request.query_params.get("cursor")
    under_way = [run.id for run in await app.active_runs(label)]
    found: Page[sessions.Message] = Page(items=())
    with suppress(MissingError):
        session = await sessions.get(app.ledgers, label)
        found = parts.fitting(await sessions.transcript(app.ledgers, session.id, cursor=cursor))
    # What is still being written is shown as it comes, and not also as it stands in the ledger.
    said = [each for each in found.items if each.execution_id not in under_way or each.role == "user"]
    given = await injections.of_requests(app.ledgers, [each.request_id for each in said])
    since = said[0].created_at if said and found.next else ""
    until = said[-1].created_at if said and cursor else _LATEST
    sent = (
        []
        if cursor and not said
        else await app.ledgers.events.read(
            events.unasked_between, external_id=label, since=since, until=until
        )
    )
    lines = sorted([*said, *sent], key=_time)
    newest = max((each.seq for each in sent), default=0)
    values: dict[str, Any] = {"label": label, "said": lines, "older": found.next, "given": given}
    if is_part(request) and cursor:
        return await page(request, "part_chat.html", **values)
    others = await sessions.listed(app.ledgers, role="manager", limit=_SHOWN_SESSIONS)
    last = await _last(app, label)
    values |= {"under_way": under_way, "others": others.items, "last": last, "sent": newest}
    return await page(request, "chat.html", active="chat", **values)


async def say(request: Request, app: App) -> Response:
    """Say something as the owner."""
    label, given = request.path_params["label"], await form(request)
    text = given.raw("text").strip()
    if not text:
        return back(f"/chat/{segment(label)}")
    if reminders.asked(text):
        return await reminders.drafted(request, app, text, label)
    answer = await app.send(text, session_label=label, channel=_CHANNEL)
    if not is_part(request):
        return back(f"/chat/{segment(label)}")
    told = await _told(answer) if isinstance(answer, FinishedRun) else None
    return await page(
        request,
        "part_said.html",
        text=text,
        run_id=answer.id,
        label=label,
        told=told,
        offered=(),
        sent=_seq(given.text("sent")),
    )


async def later(request: Request, app: App) -> Response:
    """What came unasked since a run and a message: when a worker has ended, or a reminder is due."""
    label, after = request.path_params["label"], request.query_params.get("after", "")
    runs = [run.id for run in await app.runs_after(label, after)] if after else []
    last = runs[-1] if runs else after or await _last(app, label)
    seen = _seq(request.query_params.get("sent", ""))
    new = await app.ledgers.events.read(events.unasked, channel=_CHANNEL, external_id=label, after=seen)
    sent = new[-1].seq if new else seen
    return await page(request, "part_later.html", runs=runs, new=new, label=label, last=last, sent=sent)


async def answered(request: Request, app: App) -> Response:
    """A finished answer, with what it cost and what the memory gave for it."""
    run = app.broker.run(request.path_params["id"])
    told = await _told(run)
    given = await injections.of_requests(app.ledgers, [told.request_id])
    return await page(request, "part_answer.html", told=told, offered=given.get(told.request_id, ()))


async def begin(request: Request, app: App) -> Response:
    """Go over to another session; automations may still do something about the one that is left."""
    given = await form(request)
    label = given.text("label") or MAIN
    if (left := given.text("left")) and left != label:
        await app.new_session(left, channel=_CHANNEL)
    return back(f"/chat/{segment(label)}")


async def _told(answer: Run) -> Told:
    try:
        result = await answer.result()
    except EndedError as error:
        return Told(run_id=answer.id, request_id=answer.id, error=error)
    return Told(
        run_id=answer.id,
        request_id=result.request_id,
        content=result.response.content,
        usage=result.usage,
    )


def _time(line: sessions.Message | events.Unasked) -> str:
    return line.occurred_at if isinstance(line, events.Unasked) else line.created_at


def _seq(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 19 else 0


async def _last(app: App, label: str) -> str:
    """The newest run of a session, or an id to look for later ones from."""
    # Ids sort by time: in a session without runs, the first one to come is after this.
    return await app.ledgers.runtime.read(executions.newest_in, session_label=label) or ids.new("exe")


# A label may hold anything, slashes too: nothing else is asked for below /chat/.
ROUTES = (
    get("/chat", shown),
    post("/chat", begin),
    get("/chat/{label:path}", shown),
    post("/chat/{label:path}", say),
    get("/chat-later/{label:path}", later),
    get("/chat-answers/{id}", answered),
)
