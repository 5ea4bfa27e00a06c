"""uvicorn inside a program that has its own loop, signals and log: it serves, and touches nothing else."""

import asyncio
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

_POLL_S: Final = 0.002


def server(
    app: ASGIApp,
    *,
    keep_alive_s: int,
    headers: bool = True,
    protocol: type[H11Protocol] = H11Protocol,
    most_connections: int | None = None,
) -> uvicorn.Server:
    """A server that is ready for `startup`; with `headers` it says who it is and what time it is."""
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=headers,
        date_header=headers,
        timeout_keep_alive=keep_alive_s,
        limit_concurrency=most_connections,
    )
    config.load()
    made = uvicorn.Server(config)
    made.lifespan = config.lifespan_class(config)
    return made


def abort(serving: uvicorn.Server) -> None:
    """Cut every connection, whatever is under way on it."""
    for connection in list(serving.server_state.connections):
        connection.transport.abort()  # pyright: ignore[reportOptionalMemberAccess]


def cancel(serving: uvicorn.Server) -> None:
    """Give up what is being answered: an endpoint that waits does not notice a cut connection."""
    for task in list(serving.server_state.tasks):
        task.cancel()


async def settled(serving: uvicorn.Server) -> None:
    """Until no connection is open and nothing is being answered."""
    # uvicorn keeps these sets and tells nobody when they are empty.
    while serving.server_state.connections or serving.server_state.tasks:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_S)
