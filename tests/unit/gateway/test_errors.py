"""Errors over HTTP: what passes is told apart from what was asked wrongly."""

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from nexus.engine.errors import EngineBusyError, EngineStateError, EngineUnreachableError
from nexus.errors import LedgerBusyError, LedgerClosedError, NexusError
from nexus.gateway import errors


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (EngineUnreachableError("Postgres does not answer"), 503),
        (EngineBusyError("another process holds it"), 503),
        (LedgerBusyError("another process holds it"), 503),
        (LedgerClosedError("The runtime ledger is closed"), 503),
        (EngineStateError("it is running"), 409),
    ],
)
def test_what_passes_is_503_with_the_time_to_try_again(error: NexusError, status: int) -> None:
    server = FastAPI()
    errors.install(server)

    @server.get("/")
    async def fail() -> None:  # pyright: ignore[reportUnusedFunction]
        raise error

    answer = TestClient(server).get("/")

    assert answer.status_code == status
    assert ("retry-after" in answer.headers) == (status == 503)


def test_a_method_that_is_not_allowed_is_answered_with_those_that_are() -> None:
    server = FastAPI()
    errors.install(server)

    @server.get("/things/{name}")
    @server.delete("/things/{name}")
    async def act(name: str) -> None:  # pyright: ignore[reportUnusedFunction]
        return None

    answer = TestClient(server).post("/things/one")

    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET")


def test_a_program_that_was_replaced_while_it_ran_says_to_restart_it() -> None:
    server = FastAPI()
    errors.install(server)

    @server.get("/")
    async def fail() -> None:  # pyright: ignore[reportUnusedFunction]
        raise ImportError("cannot import name 'recall'")

    answer = TestClient(server, raise_server_exceptions=False).get("/")

    assert (answer.status_code, "restart" in answer.json()["hint"]) == (500, True)
