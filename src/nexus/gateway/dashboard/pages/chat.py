"""The chat: say something, watch the answer being written, and see what the memory added."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from nexus.answer import Answer, Answered, Delta, Result
from nexus.app import App
from nexus.engine.errors import EndedError
from nexus.errors import MissingError
from nexus.gateway.dashboard.endpoint import back, form, get, post
from nexus.gateway.dashboard.render import is_part, page, segment
from nexus.gateway.views import sessions
from nexus.gateway.views.page import Page
from nexus.ledgers.runtime import executions

MAIN: Final = "main"
_SHOWN_SESSIONS: Final = 12
# Between two pieces of an answer a line without meaning shows whether somebody still listens.
_HEARTBEAT_S: Final = 15.0


async def shown(request: Request, app: App) -> Response:
    """A session as a conversation, with a place to go on."""
    label = request.path_params.get("label", MAIN)
    cursor = request.query_params.get("cursor")
    under_way = [run.id for run in await app.under_way(label)]
    found: Page[sessions.Message] = Page(items=())
    with suppress(MissingError):
        session = await sessions.get(app.ledgers, label)
        found = await sessions.transcript(app.ledgers, session.id, cursor=cursor)
    # What is still being written is shown as it comes, and not also as it stands in the ledger.
    said = [each for each in found.items if each.execution_id not in under_way or each.role == "user"]
    given: dict[str, Any] = {}
    values: dict[str, Any] = {"label": label, "said": said, "older": found.next, "given": given}
    if is_part(request) and cursor:
        return page(request, "part_chat.html", **values)
    others = await sessions.listed(app.ledgers, role="manager", limit=_SHOWN_SESSIONS)
    last = await _last(app, label)
    return page(
        request, "chat.html", active="chat", under_way=under_way, others=others.items, last=last, **values
    )


async def say(request: Request, app: App) -> Response:
    """Say something as the owner."""
    label, given = request.path_params["label"], await form(request)
    text = given.raw("text").strip()
    if not text:
        return back(f"/chat/{segment(label)}")
    answer = await app.say(text, session_label=label, channel="dashboard")
    if not is_part(request):
        return back(f"/chat/{segment(label)}")
    told = await _told(answer) if isinstance(answer, Answered) else None
    return page(request, "part_said.html", text=text, run_id=answer.id, label=label, told=told, offered=())


async def later(request: Request, app: App) -> Response:
    """What the agent said unasked since a run, such as when a worker has ended."""
    label, after = request.path_params["label"], request.query_params.get("after", "")
    runs = [run.id for run in await app.runs_after(label, after)] if after else []
    last = runs[-1] if runs else after or await _last(app, label)
    return page(request, "part_later.html", runs=runs, label=label, last=last)


async def stream(request: Request, app: App) -> Response:
    """The pieces of an answer, as server-sent events."""
    run = app.broker.run(request.path_params["id"])
    return StreamingResponse(
        _events(run), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def answered(request: Request, app: App) -> Response:
    """A finished answer, with what it cost and what the memory gave for it."""
    run = app.broker.run(request.path_params["id"])
    told = await _told(run)
    return page(request, "part_answer.html", told=told, offered=())


async def stop(request: Request, app: App) -> Response:
    """Stop a run."""
    await app.broker.run(request.path_params["id"]).cancel()
    return Response(status_code=204)


async def begin(request: Request, app: App) -> Response:
    """Go over to a session of a name."""
    label = (await form(request)).text("label") or MAIN
    await app.leave(MAIN, channel="dashboard")
    return back(f"/chat/{segment(label)}")


async def _told(answer: Answer) -> dict[str, Any]:
    """An answer's text and its cost, or why there is none."""
    try:
        result: Result = await answer.result()
    except EndedError as error:
        return {"request_id": answer.id, "run_id": answer.id, "error": error, "content": "", "usage": None}
    return {
        "request_id": result.request_id,
        "run_id": answer.id,
        "error": None,
        "content": result.response.content,
        "usage": result.usage,
    }


async def _last(app: App, label: str) -> str:
    """The newest run of a session."""
    read = partial(executions.newest_in, session_label=label)
    return await app.ledgers.runtime.read(read) or ""


async def _events(answer: Answer) -> AsyncGenerator[str]:
    pieces = answer.deltas()
    waiting = asyncio.ensure_future(anext(pieces, None))
    try:
        while True:
            done, _ = await asyncio.wait({waiting}, timeout=_HEARTBEAT_S)
            if not done:
                yield ": waiting\n\n"
                continue
            delta = waiting.result()
            if delta is None:
                break
            yield _event(delta)
            waiting = asyncio.ensure_future(anext(pieces, None))
    finally:
        waiting.cancel()
    yield "event: over\ndata: {}\n\n"


def _event(delta: Delta) -> str:
    told = {"text": delta.text, "tool": delta.tool, "failed": delta.failed}
    return f"event: {delta.kind}\ndata: {json.dumps({k: v for k, v in told.items() if v})}\n\n"


ROUTES = (
    get("/chat", shown),
    post("/chat", begin),
    get("/chat/runs/{id}/stream", stream),
    get("/chat/runs/{id}/answer", answered),
    post("/chat/runs/{id}/stop", stop),
    get("/chat/{label}", shown),
    post("/chat/{label}/say", say),
    get("/chat/{label}/later", later),
)
