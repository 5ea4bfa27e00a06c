"""Runs: how they stand, their answers as they are written, and stopping them."""

import json
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, Header, Path
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field

from nexus.broker.run_handle import Run
from nexus.engine.errors import EndedError
from nexus.gateway.dependencies import ServedApp, api_router
from nexus.gateway.views import sessions as views
from nexus.ledgers.runtime.executions import Status
from nexus.runs import Result

router = api_router("executions", "/executions")
ExecutionId = Annotated[str, Path(description="Run id, `exe_…`.")]


class Execution(BaseModel):
    """A run."""

    id: str
    request_id: str
    session: str
    status: Status
    taken_by: str | None = Field(description="The run that answered this one.")
    error: str | None = Field(description="Error, if any.")
    enqueued_at: str
    started_at: str | None
    ended_at: str | None
    waiting_since: str | None = Field(description="Waiting for a provider since.")
    waiting_for: str | None = Field(description="Last provider error.")
    workers_at_work: int = Field(description="Number of unfinished workers.")
    partial: str | None = Field(description="What a stopped run had written.")


_STORED = Execution.model_fields.keys() - {"session", "workers_at_work", "partial"}


class Cancelled(BaseModel):
    """Result of a cancellation."""

    cancelled: bool = Field(description="False: already finished.")


class Retried(BaseModel):
    """A retried run."""

    execution_id: str = Field(description="The new run.")


class Dismissed(BaseModel):
    """What came of a dismissal."""

    dismissed: bool = Field(description="False: it was not a dead letter.")


async def _find_run(app: ServedApp, execution_id: ExecutionId) -> Run:
    run = app.broker.run(execution_id)
    await run.state()
    return run


Known = Annotated[Run, Depends(_find_run)]


@router.get("/{execution_id}")
async def get_execution(app: ServedApp, run: Known) -> Execution:
    """Show a run."""
    state = await run.state()
    return Execution(
        session=state.session_label,
        workers_at_work=await app.broker.workers.at_work(run.id),
        partial=await views.load_partial(app.ledgers, run.id) if state.status == "cancelled" else None,
        **{name: getattr(state, name) for name in _STORED},
    )


@router.get("/{execution_id}/result")
async def get_result(run: Known) -> Result:
    """Wait for the result of a run."""
    return await run.result()


@router.get("/{execution_id}/stream", response_class=EventSourceResponse)
async def stream_answer(
    app: ServedApp,
    run: Known,
    last_event_id: Annotated[int, Header(ge=0, le=2**31, description="Last event received.")] = 0,
) -> AsyncIterable[ServerSentEvent]:
    """Stream the answer from its beginning, as server-sent events.

    `delta` events carry one piece each: `begin` and `done` enclose a model answer; `text`, `thinking`,
    `tool_call` and `tool_result` are in between; `status` says what is being done until the answer comes;
    `approval` asks the owner about a call; `restart` withdraws everything since `begin`; `waiting` says why
    no provider answers. The last event is `result`, or `failed` with a status, message and hint,
    and with what a stopped run had written as `partial`.
    Reconnect with `Last-Event-ID` to resume. A minute after the end, only the last event is kept.
    """
    number = 0
    async for delta in run.deltas():
        number += 1
        if number > last_event_id:
            said = {key: value for key, value in asdict(delta).items() if value}
            yield _event("delta", number, said)
    async for event in _end(app, run, number + 1):
        yield event


@router.post("/{execution_id}/cancel")
async def cancel_execution(run: Known) -> Cancelled:
    """Cancel a queued run, or ask a running one to stop."""
    return Cancelled(cancelled=await run.cancel())


@router.post("/{execution_id}/retry", status_code=202)
async def retry_execution(app: ServedApp, run: Known) -> Retried:
    """Run a finished run again, at the end of its session's queue."""
    return Retried(execution_id=(await app.queue.retry(run.id)).id)


class Regeneration(BaseModel):
    """How a message is answered again."""

    model: str = Field(
        default="", max_length=200, description="`provider/model` to use. Empty: the configured one."
    )


@router.post("/{execution_id}/regenerate", status_code=202)
async def regenerate_execution(app: ServedApp, run: Known, wanted: Regeneration) -> Retried:
    """Answer the message of a finished run again. The new answer replaces the old one."""
    return Retried(execution_id=(await app.regenerate(run.id, wanted.model)).id)


class Experiment(BaseModel):
    """How a prompt is changed before it is asked again."""

    without: list[str] = Field(default=[], max_length=200, description="Ids of memories to leave out.")
    memories: str | None = Field(
        default=None, max_length=50_000, description="Lines in the place of the memories that it had."
    )
    profile: str | None = Field(
        default=None, max_length=10_000, description="Text in the place of the owner profile."
    )


@router.post("/{execution_id}/experiment", status_code=202)
async def experiment_with_execution(app: ServedApp, run: Known, changed: Experiment) -> Retried:
    """Ask for a finished answer once more with other memories.

    An extra call of the model, charged to the message. The answer is not part of the conversation, and
    nothing is remembered from it.
    """
    return Retried(execution_id=(await app.experiment(run.id, **changed.model_dump())).id)


@router.post("/{execution_id}/dismiss")
async def dismiss_execution(app: ServedApp, run: Known) -> Dismissed:
    """Take a run that crashed its process too often off the dead letters, without another attempt."""
    return Dismissed(dismissed=await app.engine.close_letter(run.id))


async def _end(app: ServedApp, run: Run, number: int) -> AsyncIterator[ServerSentEvent]:
    try:
        yield _event("result", number, (await run.result()).to_json())
    except EndedError as error:
        status = (await run.state()).status
        said = {"status": status, "message": error.message, "hint": error.hint}
        if status == "cancelled" and (text := await views.load_partial(app.ledgers, run.id)):
            said["partial"] = text
        yield _event("failed", number, said)


def _event(kind: str, number: int, value: dict[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(event=kind, id=str(number), raw_data=json.dumps(value, separators=(",", ":")))
