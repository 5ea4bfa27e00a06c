"""uvicorn inside a program that has its own loop, signals and log: it serves, and touches nothing else."""

import asyncio
import socket
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

_POLL_S: Final = 0.002


def open_socket(host: str, port: int, *, backlog: int) -> socket.socket:
    """A socket that listens at that place."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, which is its default anyway: asyncio sends small pieces at once (TCP_NODELAY) only on
    # sockets that say so, and without it each answer waits 40 ms for the client's acknowledgement.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(backlog)
    except BaseException:
        made.close()
        raise
    return made


def build_server(
    app: ASGIApp,
    *,
    keep_alive_s: int,
    headers: bool = True,
    protocol: type[H11Protocol] = H11Protocol,
    most_requests: int | None = None,
    backlog: int = 2048,
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
        limit_concurrency=most_requests,
        backlog=backlog,
    )
    config.load()
    made = uvicorn.Server(config)
    made.lifespan = config.lifespan_class(config)
    return made


async def stop(serving: uvicorn.Server, *, grace_s: float, cut_s: float) -> int:
    """Accept no more, let what was accepted be answered for a while, then cut it off.

    Returns how many answers did not end even when they were cancelled.
    """
    for accepting in serving.servers:
        accepting.close()
    for connection in list(serving.server_state.connections):
        connection.shutdown()
    if not await _settles_within(serving, grace_s):
        abort(serving)
        cancel(serving)
        await _settles_within(serving, cut_s)
    return len(serving.server_state.tasks)


def abort(serving: uvicorn.Server) -> None:
    """Cut every connection, whatever is under way on it."""
    for connection in list(serving.server_state.connections):
        connection.transport.abort()  # pyright: ignore[reportOptionalMemberAccess]


def cancel(serving: uvicorn.Server) -> None:
    """Give up what is being answered: an endpoint that waits does not notice a cut connection."""
    for task in list(serving.server_state.tasks):
        task.cancel()


async def wait_until_settled(serving: uvicorn.Server) -> None:
    """Until no connection is open and nothing is being answered."""
    # uvicorn keeps these sets and tells nobody when they are empty.
    while serving.server_state.connections or serving.server_state.tasks:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_S)


async def _settles_within(serving: uvicorn.Server, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await wait_until_settled(serving)
    except TimeoutError:
        return False
    return True
