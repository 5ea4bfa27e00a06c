"""How errors are told over HTTP: as problem details (RFC 9457) with a stable type and what to do next."""

from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from nexus import errors
from nexus.engine.errors import (
    EngineBusyError,
    EngineFullError,
    EngineStateError,
    EngineUnreachableError,
    UnknownExecutionError,
)
from nexus.gateway.refusals import MEDIA_TYPE, problem


class Problem(BaseModel):
    """What every answer that is no success holds, as `application/problem+json` (RFC 9457)."""

    type: str = Field(description="Names the kind of error, and stays the same: see the reference of errors.")
    title: str = Field(description="The kind of error in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What failed.")
    hint: str = Field(default="", description="What to do.")


_NOT_ALLOWED = 405
_UNAVAILABLE = 503
_RETRY_AFTER_S = "5"
# The first that fits counts.
_STATUS: tuple[tuple[type[errors.NexusError], int], ...] = (
    (errors.MissingError, 404),
    (UnknownExecutionError, 404),
    (errors.UnknownAutomationError, 404),
    (errors.UsageError, 400),
    (errors.AccessError, 403),
    (errors.LedgerBusyError, 503),
    (errors.FencedError, 503),
    (errors.LedgerClosedError, 503),  # the home closes, or moves to another host
    (EngineUnreachableError, 503),
    (EngineBusyError, 503),
    (EngineFullError, 507),
    (errors.LedgerFullError, 507),
    (errors.LedgerCorruptError, 500),
    (errors.ModelError, 502),
    (EngineStateError, 409),
    (errors.NexusError, 409),
)
_PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
RESPONSES: dict[int | str, dict[str, Any]] = {
    401: {**_PROBLEM, "description": "Missing or invalid API token"},
    429: {**_PROBLEM, "description": "Too many requests"},
    "4XX": {**_PROBLEM, "description": "The request is invalid"},
    "5XX": {**_PROBLEM, "description": "Server error"},
}
"""What any endpoint may answer beside a success."""


def install(server: FastAPI) -> None:
    """Make every error of the application a `Problem`."""
    server.add_exception_handler(errors.NexusError, _nexus)
    server.add_exception_handler(HTTPException, _http)
    server.add_exception_handler(RequestValidationError, _invalid)
    server.add_exception_handler(Exception, _unforeseen)


def status_of(error: errors.NexusError) -> int:
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def document(schema: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document with the shape of a problem, to which every endpoint refers."""
    schema["components"]["schemas"]["Problem"] = Problem.model_json_schema()
    return schema


async def _nexus(request: Request, error: Exception) -> JSONResponse:
    told = cast("errors.NexusError", error)
    return _answer(status_of(told), told.message, told.hint, type(told))


async def _http(request: Request, error: Exception) -> JSONResponse:
    told = cast("HTTPException", error)
    answer = _answer(told.status_code, str(told.detail), "See GET /api/openapi.json.")
    answer.headers.update(told.headers or {})
    if told.status_code == _NOT_ALLOWED:
        # The route that refused it names its own methods only.
        routes = [each for each in request.app.routes if isinstance(each, Route)]
        methods = {
            method
            for each in routes
            if each.matches(request.scope)[0] is Match.PARTIAL
            for method in each.methods or ()
        }
        if methods:
            answer.headers["Allow"] = ", ".join(sorted(methods))
    return answer


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    first = cast("RequestValidationError", error).errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return _answer(422, f"{place}: {first['msg']}", "See GET /api/openapi.json for the expected format.")


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, ImportError):
        return _answer(500, f"A module can't be loaded: {error}", errors.RESTART_AFTER_UPGRADE)
    return _answer(500, "Internal error", "See `nexus logs`.")


def _answer(
    status: int, message: str, hint: str, kind: type[errors.NexusError] | None = None
) -> JSONResponse:
    headers = {"Retry-After": _RETRY_AFTER_S} if status == _UNAVAILABLE else None
    return problem(status, message, hint, kind=kind, headers=headers)
