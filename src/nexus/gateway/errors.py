"""How errors are told over HTTP: a status, what happened and what to do next."""

from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from nexus import errors
from nexus.engine.errors import (
    EngineBusyError,
    EngineFullError,
    EngineStateError,
    EngineUnreachableError,
    UnknownExecutionError,
)


class Problem(BaseModel):
    """What every answer that is no success holds."""

    message: str = Field(description="What failed.")
    hint: str = Field(default="", description="What to do.")


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
RESPONSES: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "Missing or invalid API token"},
    429: {"model": Problem, "description": "Too many requests"},
    "4XX": {"model": Problem, "description": "The request is invalid"},
    "5XX": {"model": Problem, "description": "Server error"},
}
"""What any endpoint may answer beside a success."""
_PROBLEM = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
JSON_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {**_PROBLEM, "description": told["description"]} for status, told in RESPONSES.items()
}
"""The same for one whose success is no JSON, while its errors are."""


def install(server: FastAPI) -> None:
    """Make every error of the application a `Problem`."""
    server.add_exception_handler(errors.NexusError, _nexus)
    server.add_exception_handler(HTTPException, _http)
    server.add_exception_handler(RequestValidationError, _invalid)
    server.add_exception_handler(Exception, _unforeseen)


def status_of(error: errors.NexusError) -> int:
    return next(status for kind, status in _STATUS if isinstance(error, kind))


async def _nexus(request: Request, error: Exception) -> JSONResponse:
    told = cast("errors.NexusError", error)
    return _answer(status_of(told), told.message, told.hint)


async def _http(request: Request, error: Exception) -> JSONResponse:
    told = cast("HTTPException", error)
    return _answer(told.status_code, str(told.detail), "See GET /api/openapi.json.")


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    first = cast("RequestValidationError", error).errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return _answer(422, f"{place}: {first['msg']}", "See GET /api/openapi.json for the expected format.")


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    return _answer(500, "Internal error", "See `nexus logs`.")


def _answer(status: int, message: str, hint: str) -> JSONResponse:
    headers = {"Retry-After": _RETRY_AFTER_S} if status == _UNAVAILABLE else None
    return JSONResponse(Problem(message=message, hint=hint).model_dump(), status_code=status, headers=headers)
