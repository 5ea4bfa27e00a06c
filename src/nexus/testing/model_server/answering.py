"""From a request to the draft of its answer: checks, script, usage, faults."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

from nexus import ids
from nexus.testing.model_server.caching import Accounting
from nexus.testing.model_server.control import State
from nexus.testing.model_server.failures import ErrorEvent, HttpError, Silence
from nexus.testing.model_server.plan import Plan, Send, Wait, body_plan, stream_plan
from nexus.testing.model_server.record import Exchange, Usage
from nexus.testing.model_server.reply import Draft
from nexus.testing.model_server.request import Json, ModelRequest, tokens_in
from nexus.testing.model_server.script import Directive
from nexus.testing.model_server.turn import Turn
from nexus.testing.model_server.wire import RejectedError, Wire

UNSCRIPTED_HEADERS = {"x-should-retry": "false"}
"""The official clients retry a 5xx unless they are told that it is of no use."""


def parse_body(body: bytes) -> Json:
    """The body as an object."""
    try:
        value: Any = json.loads(body)
    except ValueError as error:
        raise RejectedError(f"The body is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise RejectedError("The body is not a JSON object.")
    return cast("Json", value)


def check_request(request: ModelRequest, wire: Wire) -> ModelRequest:
    """The request with its prompt and view; `RejectedError` where it breaks the format's rules."""
    with check_shape():
        wire.check(request.json, request.headers)
        return replace(request, prompt=wire.prompt(request.json), view=wire.view(request.json))


@contextmanager
def check_shape() -> Generator[None]:
    """A body with a string where an object belongs is refused, whatever it makes the reader stumble on."""
    try:
        yield
    except (AttributeError, KeyError, TypeError) as error:
        raise RejectedError(f"The request has an unexpected shape: {error!r}") from error


def admit(request: ModelRequest, state: State) -> None:
    """Refuse unknown keys and unknown models."""
    settings = state.settings
    if settings.keys and request.key not in settings.keys:
        raise RejectedError("", "authentication")
    if settings.models and request.model and request.model not in settings.models:
        raise RejectedError(f"model: {request.model}", "not_found")


def decide(request: ModelRequest, wire: Wire, state: State) -> tuple[Exchange, Draft]:
    """The answer to a request, as the script has it, and its record."""
    try:
        admit(request, state)
        request = replace(request, json=parse_body(request.body))
        admit(request, state)
        request = check_request(request, wire)
        state.settings.profile.admit(request)
        step = _take_step(request, state)
        step = state.settings.profile.shape(step) if isinstance(step, Turn) else step
    except RejectedError as error:
        step = HttpError(error.kind, message=error.message, headers=error.headers)
    scripted = not (isinstance(step, HttpError) and step.kind == "unscripted")
    return Exchange(request, scripted=scripted), draft(step, request, wire, state)


def _take_step(request: ModelRequest, state: State) -> Directive:
    try:
        step = state.script.take(request)
    except Exception as error:
        raise _unscripted(f"The script failed on {describe(request)}: {error!r}") from error
    if step is None:
        raise _unscripted(f"Nothing is scripted for {describe(request)}.")
    return step


def draft(step: Directive, request: ModelRequest, wire: Wire, state: State) -> Draft:
    """The draft that a step makes for a request."""
    request_id = ids.new("req")
    headers = {wire.request_id_header(): request_id}
    if isinstance(step, Silence):
        return Draft(status=None, headers={}, plan=Plan((Wait(step.hold_ms),), "silent"))
    if isinstance(step, Turn) and not request.stream:
        inner = next((fault for fault in step.faults if isinstance(fault, ErrorEvent)), None)
        step = HttpError(inner.kind, message=inner.message) if inner else step
    if isinstance(step, HttpError):
        return _draft_error(step, headers, request_id, wire, state)
    return _draft_turn(step, headers, request, wire, state)


def usage_of(turn: Turn, accounting: Accounting) -> Usage:
    """What a complete answer uses; an empty one counts as one token."""
    computed = replace(
        accounting.usage,
        output_tokens=max(1, tokens_in(turn.output_bytes)),
        thinking_tokens=tokens_in(turn.thinking_bytes),
    )
    return turn.usage or computed


def _draft_turn(
    turn: Turn, headers: dict[str, str], request: ModelRequest, wire: Wire, state: State
) -> Draft:
    accounting = state.account(request)
    usage = usage_of(turn, accounting)
    if request.stream:
        fault = next((fault for fault in turn.faults if isinstance(fault, ErrorEvent)), ErrorEvent())
        error = wire.error_body(fault.kind, fault.message, headers[wire.request_id_header()])
        plan = stream_plan(wire.events(request, turn, usage), turn, wire.error_event(error))
        headers |= {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    else:
        body = json.dumps(wire.body(request, turn, usage), ensure_ascii=False).encode()
        plan = body_plan(body, turn, turn.output_bytes)
        headers |= _body_headers(plan, body)
    return Draft(
        status=200,
        headers=headers,
        plan=plan,
        delay_ms=turn.pace.before_ms,
        usage=usage,
        output_bytes=turn.output_bytes,
        on_begin=partial(_keep, state, accounting),
    )


def _keep(state: State, accounting: Accounting) -> None:
    state.prefixes.keep(accounting, state.settings.clock())


def _body_headers(plan: Plan, body: bytes) -> dict[str, str]:
    sent = sum(len(action.data) for action in plan.actions if isinstance(action, Send))
    # A cut body still announces its whole length: that is how the client knows that it was cut.
    length_bytes = len(body) if plan.outcome == "cut" else sent
    return {"content-type": "application/json", "content-length": str(length_bytes)}


def _draft_error(
    error: HttpError, headers: dict[str, str], request_id: str, wire: Wire, state: State
) -> Draft:
    if error.body is None:
        body = json.dumps(wire.error_body(error.kind, error.message, request_id)).encode()
        kind = "application/json"
    else:
        body, kind = error.body.encode(), "text/html; charset=utf-8"
    after = error.retry_after.headers(state.settings.clock) if error.retry_after else {}
    headers |= {"content-type": kind, "content-length": str(len(body)), **after, **error.headers}
    return Draft(
        status=error.status or wire.errors[error.kind].status,
        headers=headers,
        plan=Plan((Send(body),), "error"),
        delay_ms=error.delay_ms,
    )


def _unscripted(message: str) -> RejectedError:
    return RejectedError(message, "unscripted", UNSCRIPTED_HEADERS)


def describe(request: ModelRequest) -> str:
    """A request in one line."""
    said = request.last_user if len(request.last_user) <= 80 else request.last_user[:80] + "…"
    return f"request {request.number} ({request.path}, model {request.model!r}, last user message {said!r})"
