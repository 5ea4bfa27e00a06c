"""The chat: send a message, watch the answer, and stop, edit or regenerate it."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast, get_args

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from nexus import attachments, commands, ids
from nexus.app import App
from nexus.attachments import File, detect_type
from nexus.broker.approvals import Decision
from nexus.broker.questions import NOT_A_BOUNDARY, code_of, describe_all, describe_rule, make_visible
from nexus.broker.run_handle import Run as BrokerRun
from nexus.engine.errors import EndedError
from nexus.errors import MissingError, UsageError
from nexus.gateway.dashboard import render
from nexus.gateway.dashboard.pages import reminders
from nexus.gateway.dashboard.render import Form, get, is_part, page, post, read_form, redirect
from nexus.gateway.views import address, answers, sessions
from nexus.gateway.views.answers import Answer, Question
from nexus.ledgers import events
from nexus.ledgers.events import Unasked
from nexus.ledgers.runtime import executions, requests
from nexus.ledgers.runtime.approvals import Approval
from nexus.ledgers.runtime.executions import FINAL
from nexus.memory.views import names
from nexus.memory.views.page import Page
from nexus.roles.memory_injection import experiment
from nexus.runs import FinishedRun, Run

MAIN: Final = "main"
_CHANNEL: Final = "web"
_SHOWN_SESSIONS: Final = 12
_LATEST: Final = "9999"
"""Sorts behind every time."""
# Whatever somebody attached is shown by the browser as a picture or played, or not at all.
_FILE_HEADERS: Final = {"content-security-policy": "default-src 'none'; sandbox", "cache-control": "private"}


async def show_chat(request: Request, app: App) -> Response:
    """Show a session as a conversation, with a place to go on."""
    label = request.path_params.get("label", MAIN)
    cursor = request.query_params.get("cursor")
    under_way = [run.id for run in await app.active_runs(label)]
    found: Page[sessions.Message] = Page(items=())
    with suppress(MissingError):
        session = await sessions.get(app.ledgers, label)
        if session.source != "nexus":
            return redirect(address("sessions", label))
        found = render.fit_messages(
            await sessions.load_transcript(
                app.ledgers, session.id, cursor=cursor, most=answers.MOST_CHARACTERS, replaced=False
            )
        )
    said = await answers.load_lines(app.ledgers, found.items, under_way)
    asked = {line.run_id for line in said if isinstance(line, Question)}
    since = found.items[0].created_at if said and found.next else ""
    until = found.items[-1].created_at if said and cursor else _LATEST
    sent: list[Unasked] = []
    if said or not cursor:
        sent = await app.ledgers.events.read(
            events.list_unasked_between, external_id=label, since=since, until=until
        )
    lines = sorted([*said, *sent], key=_sort_key)
    newest = max((each.seq for each in sent), default=0)
    values: dict[str, Any] = {"label": label, "lines": lines, "older": found.next}
    if is_part(request) and cursor:
        return await page(request, "part_chat.html", **values)
    others = await sessions.load_page(app.ledgers, kind="people", limit=_SHOWN_SESSIONS, archived=False)
    values |= {
        "title": await sessions.load_title(app.ledgers, label),
        "pending": [await _load_pending(app, run_id, asked=run_id in asked) for run_id in under_way],
        "others": others.items,
        "last": await _find_last_run(app, label),
        "sent": newest,
        "models": _models(app),
        "commands": [
            {"name": f"/{each.name}", "about": each.about, "takes": bool(each.arguments)}
            for each in commands.list_for("dashboard")
        ],
        "approvals": await _load_approvals(app, label),
        "oob": False,
    }
    return await page(request, "chat.html", active="chat", **values)


async def say(request: Request, app: App) -> Response:
    """Send a message as the owner, or replace one that was sent before."""
    label = request.path_params["label"]
    given, files = await _read_message(request)
    text, replaces = given.raw("text").strip(), given.text("replaces") or None
    if replaces and (places := given.all("keep")):
        files = [*await _load_kept_files(app, replaces, places), *files]
    if not text and not files:
        return redirect(address("chat", label))
    command = None if files else commands.parse(text, "dashboard")
    if command is None and not files and commands.parse(text, "terminal"):
        raise UsageError(
            f"{text.split()[0]} works only in `nexus chat`", hint="Use the buttons below a message."
        )
    if command and command[0].name in {"remind", "reminders"}:
        return await reminders.answer_command(request, app, text, command[1], label)
    receipt = await app.receive(
        text or _name_files(files),
        session_label=label,
        channel=_CHANNEL,
        model=given.text("model"),
        mode="interrupt" if replaces else "followup",
        files=files,
        replaces=replaces,
    )
    if not is_part(request):
        return redirect(address("chat", label))
    run = receipt.run
    asked = await _load_question(app, receipt.request_id, run.id)
    values: dict[str, Any] = {"label": label, "last": run.id, "sent": _parse_number(given.text("sent"))}
    if isinstance(run, FinishedRun):
        result = await run.result()
        return await page(
            request, "part_said.html", asked=asked, said=result.response.content, run_id=run.id, **values
        )
    answer = await _load_running_answer(app, run.id)
    return await page(request, "part_said.html", asked=asked, said=None, answer=answer, **values)


async def regenerate(request: Request, app: App) -> Response:
    """Answer a message again, perhaps with another model."""
    run_id, given = request.path_params["id"], await read_form(request)
    state = await app.broker.run(run_id).state()
    run = await app.regenerate(run_id, given.text("model"))
    label = state.session_label
    if not is_part(request):
        return redirect(address("chat", label))
    answer = await _load_running_answer(app, run.id)
    values: dict[str, Any] = {"label": label, "last": run.id, "sent": _parse_number(given.text("sent"))}
    return await page(request, "part_said.html", asked=None, said=None, answer=answer, **values)


async def ask_without(request: Request, app: App) -> Response:
    """Ask for an answer once more without some of its memories, beside the conversation."""
    run_id, given = request.path_params["id"], await read_form(request)
    left_out = given.all("memory")
    offered = (await _load_answer(app, app.broker.run(run_id))).offered
    run = await app.experiment(run_id, without=left_out)
    if not is_part(request):
        return redirect(address("requests", run.id))
    answer = await _load_running_answer(app, run.id)
    texts = [each.text for each in offered if each.injection.item_id in left_out]
    return await page(request, "part_experiment.html", answer=answer, texts=texts)


async def show_news(request: Request, app: App) -> Response:
    """Show what came unasked since a run and a message: when a worker has ended, or a reminder is due."""
    label, after = request.path_params["label"], request.query_params.get("after", "")
    runs = [run.id for run in await app.runs_after(label, after)] if after else []
    last = runs[-1] if runs else after or await _find_last_run(app, label)
    seen = _parse_number(request.query_params.get("sent", ""))
    new = await app.ledgers.events.read(events.list_unasked, channel=_CHANNEL, external_id=label, after=seen)
    pending = [await _load_pending(app, run_id) for run_id in runs]
    sent = new[-1].seq if new else seen
    return await page(
        request,
        "part_later.html",
        pending=pending,
        new=new,
        label=label,
        last=last,
        sent=sent,
        approvals=await _load_approvals(app, label),
        oob=True,
    )


async def show_answer(request: Request, app: App) -> Response:
    """Show an answer as it stands: finished, or so far as it is recorded."""
    answer = await _load_answer(app, app.broker.run(request.path_params["id"]))
    return await page(request, "part_answer.html", answer=answer)


async def decide(request: Request, app: App) -> Response:
    """Allow or deny a call that waits."""
    given, id_ = await read_form(request), request.path_params["id"]
    decision = given.text("decision")
    if decision not in get_args(Decision):
        raise UsageError(f"Unknown decision `{decision:.40}`")
    label = (await app.broker.approvals.get(id_)).session_label
    with suppress(UsageError):  # somebody else was quicker: the page shows what waits now
        await app.broker.approvals.decide(id_, cast("Decision", decision), given.text("call_hash"))
    if not is_part(request):
        return redirect(address("chat", label))
    found = await _load_approvals(app, label)
    return await page(request, "part_approvals.html", approvals=found, oob=False)


async def show_approval(request: Request, app: App) -> Response:
    """Show one call, whole, and what can be answered while it waits: where questions elsewhere link to."""
    found = await app.broker.approvals.get(request.path_params["id"])
    waits = [each for each in await _load_approvals(app, found.session_label) if each["id"] == found.id]
    label, shown = found.session_label, _describe_approval(found)
    return await page(
        request, "approval.html", active="chat", found=shown, approvals=waits, label=label, oob=False
    )


async def show_worker(request: Request, app: App) -> Response:
    """Show a worker as it stands, in the place where it was dispatched."""
    found = await answers.load_worker(app.ledgers, request.path_params["id"])
    return await page(request, "part_worker.html", worker=found)


async def show_text(request: Request, app: App) -> Response:
    """Show the text of a message as it was written, to copy it."""
    return PlainTextResponse(
        (await sessions.get_message(app.ledgers, request.path_params["id"])).content, headers=_FILE_HEADERS
    )


async def show_file(request: Request, app: App) -> Response:
    """Show a file that came with a message."""
    place = _parse_number(request.path_params["place"])
    found = await answers.load_files(app.ledgers, request.path_params["id"])
    data = await asyncio.to_thread(attachments.read, app.home, found[place]) if place < len(found) else None
    if data is None:
        raise MissingError("No such file", hint="It may have been deleted.")
    return Response(data, media_type=found[place].media_type, headers=_FILE_HEADERS)


async def begin(request: Request, app: App) -> Response:
    """Open another session, and fire `command:new` for the one that is left."""
    given = await read_form(request)
    label = given.text("label") or MAIN
    if (left := given.text("left")) and left != label:
        await app.new_session(left, channel=_CHANNEL)
    return redirect(address("chat", label))


async def _read_message(request: Request) -> tuple[Form, list[File]]:
    """Read the fields of a form and the files that came with it."""
    if not request.headers.get("content-type", "").startswith("multipart/"):
        return await read_form(request), []
    async with request.form() as given:
        fields = [(name, value) for name, value in given.multi_items() if isinstance(value, str)]
        uploads = [value for value in given.getlist("files") if isinstance(value, UploadFile)]
        files = [File(name=each.filename or "file", data=await each.read()) for each in uploads]
    return Form(fields), [each for each in files if each.data]


async def _load_kept_files(app: App, run_id: str, places: list[str]) -> list[File]:
    """Load the files of a message that is replaced, as far as the new one keeps them.

    What was said in a recording is in the text that was edited.
    """
    state = await app.broker.run(run_id).state()
    found = (await _load_question(app, state.request_id, run_id)).files
    wanted = [found[_parse_number(place)] for place in places if _parse_number(place) < len(found)]
    read = [
        (each.name, await asyncio.to_thread(attachments.read, app.home, each))
        for each in wanted
        if not each.is_audio
    ]
    return [File(name=name, data=data) for name, data in read if data is not None]


def _name_files(files: list[File]) -> str:
    """Name the files, as the message of somebody who only attached them. A voice note is one by itself."""
    silent = (each.name for each in files if not (detect_type(each.data) or "").startswith("audio/"))
    return ", ".join(silent)


async def _load_pending(
    app: App, run_id: str, *, asked: bool | None = None
) -> tuple[Question | None, Answer]:
    """Load a run under way: what was asked, unless the page has that, and what is answered so far.

    What the page was made of is from before: a turn that is recorded meanwhile is not on it.
    """
    state = await app.broker.run(run_id).state()
    answer = await _load_running_answer(app, run_id)
    if asked or (asked is None and answer.request_id is not None):
        return None, answer
    question = await _load_question(app, state.request_id, run_id)
    # A run that takes up a worker's result has the request of the message that dispatched it.
    given = cast("dict[str, Any]", state.input)["context"]["current_message"]
    return (question if question.text in given else None), answer


async def _load_running_answer(app: App, run_id: str) -> Answer:
    """Load the answer so far, unless an automation may still change it."""
    state = await app.broker.run(run_id).state()
    request = await requests.restore(app.ledgers, state.request_id)
    is_held = request is not None and await app.pipeline.may_change_answer(request, state.session_label)
    answer = await answers.load_answer(app.ledgers, run_id, "running", None, is_held=is_held)
    return _mark_experiment(answer, state.session_label)


async def _load_question(app: App, request_id: str, run_id: str) -> Question:
    """Load what a request asked for."""
    found = await app.ledgers.runtime.read(requests.get, request_id=request_id)
    event_id = found and found.event_id
    said = await names.load_beginnings(app.ledgers, [event_id], answers.MOST_CHARACTERS)
    files = await answers.load_files(app.ledgers, event_id) if event_id else ()
    text = answers.strip_files(said.get(event_id or "", ""), files)
    return Question(run_id=run_id, text=text, at="", event_id=event_id, files=files)


async def _load_answer(app: App, run: BrokerRun) -> Answer:
    state = await run.state()
    if state.taken_by is not None:
        return await _load_answer(app, app.broker.run(state.taken_by))
    if state.status not in FINAL:
        return await _load_running_answer(app, run.id)
    status = "failed" if state.status == "timeout" else state.status
    answer = await answers.load_answer(app.ledgers, run.id, status, await _find_error(run))
    return _mark_experiment(answer, state.session_label)


def _mark_experiment(answer: Answer, session_label: str) -> Answer:
    """Say of an experiment that it is one; what belongs to the message's own answer stays there."""
    if not session_label.startswith(experiment.LABEL):
        return answer
    return replace(answer, is_experiment=True, offered=(), follow_ups=())


async def _find_error(run: Run) -> str | None:
    try:
        await run.result()
    except EndedError as error:
        return f"{error.message}\n{error.hint}".strip()
    return None


async def _load_approvals(app: App, label: str) -> list[dict[str, Any]]:
    """Load the calls of a session that wait, with what will run."""
    return [_describe_approval(each) for each in await app.broker.approvals.waiting(label)]


def _describe_approval(found: Approval) -> dict[str, Any]:
    return {
        "id": found.id,
        "code": code_of(found),
        "tool": found.tool,
        "call_hash": found.call_hash,
        "fields": describe_all(found),
        "reason": make_visible(found.reason),
        "status": found.status,
        "always": describe_rule(found) if found.may_become_rule else None,
        "caution": NOT_A_BOUNDARY,
    }


def _models(app: App) -> list[str]:
    """The models that the settings name, the manager's first."""
    return list(app.config.models.roles)


def _sort_key(line: Question | Answer | Unasked) -> str:
    return line.occurred_at if isinstance(line, Unasked) else line.at


def _parse_number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 19 else 0


async def _find_last_run(app: App, label: str) -> str:
    """Find the newest run of a session, or an id to look for later ones from."""
    # Ids sort by time: in a session without runs, the first one to come is after this.
    return await app.ledgers.runtime.read(executions.newest_in, session_label=label) or ids.new("exe")


# A label may hold anything, slashes too: nothing else is asked for below /chat/.
ROUTES = (
    get("/chat", show_chat),
    post("/chat", begin),
    get("/chat/{label:path}", show_chat),
    post("/chat/{label:path}", say),
    get("/chat-later/{label:path}", show_news),
    get("/chat-answers/{id}", show_answer),
    post("/chat-answers/{id}/again", regenerate),
    post("/chat-answers/{id}/without", ask_without),
    get("/chat-workers/{id}", show_worker),
    get("/approvals/{id}", show_approval),
    post("/approvals/{id}", decide),
    get("/messages/{id}/text", show_text),
    get("/events/{id}/files/{place}", show_file),
)
