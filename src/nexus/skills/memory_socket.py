"""Memory sockets: unix sockets by which a skill's scripts reach the running home.

Who may do what is decided by which socket a script can reach, never by what it says: each stands in a
directory of its own, which is granted to one principal, and knows on whose behalf it is used.
"""

import os
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nexus import asgi
from nexus.errors import HomeError, NexusError, UsageError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE

SOCKET: Final = "memory.sock"
# The socket for the person's own shells and programs.
OWNER: Final = "owner"
# The shortest that any system allows for the address of a unix socket, its final zero included.
_LONGEST_ADDRESS_BYTES: Final = 104
_LARGEST_BODY_BYTES: Final = 64 * 1024 * 1024
_BACKLOG: Final = 256
_KEEP_ALIVE_S: Final = 5
# How long what was accepted may take to be answered when the socket closes.
_GRACE_S: Final = 5.0
_CUT_S: Final = 3.0
_JSON: Final = "application/json"

Answer = Callable[[str, bytes], Awaitable[bytes]]
"""Carries out a command (`write`, `batch`, `search`, `models`) on what was sent with it; answers in JSON."""


@dataclass(frozen=True, kw_only=True)
class _Listening:
    server: uvicorn.Server
    directory: int


class MemorySocket:
    """One socket, open while the context lasts."""

    def __init__(self, directory: Path, answer: Answer) -> None:
        self.path = directory / SOCKET
        self._answer = answer
        self._listening: _Listening | None = None

    async def __aenter__(self) -> Self:
        self.path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        self.path.parent.chmod(PRIVATE_DIRECTORY)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            bound = _bind(self.path, directory)
            app = Starlette(routes=[Route("/{command}", self._respond, methods=["POST"])])
            server = asgi.server(app, keep_alive_s=_KEEP_ALIVE_S, headers=False)
            await server.startup(sockets=[bound])
        except BaseException:
            os.close(directory)
            raise
        self._listening = _Listening(server=server, directory=directory)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Accept no more, and let what was accepted be answered."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        self.path.unlink(missing_ok=True)
        # Somebody may have begun a request and not end it, or not read the answer.
        await asgi.stop(listening.server, grace_s=_GRACE_S, cut_s=_CUT_S)
        os.close(listening.directory)

    async def _respond(self, request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LARGEST_BODY_BYTES:
                return PlainTextResponse(
                    f"More than {_LARGEST_BODY_BYTES} bytes at once: send it in parts", status_code=413
                )
        try:
            answer = await self._answer(request.path_params["command"], bytes(body))
        except UsageError as error:
            return PlainTextResponse(str(error), status_code=400)
        except NexusError as error:
            return PlainTextResponse(str(error), status_code=409)
        return Response(answer, media_type=_JSON)


def _bind(path: Path, directory: int) -> socket.socket:
    """Listen at the path, and replace a socket that a killed process left."""
    address = _make_address(path, directory)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _refuse_second(path, address)
        path.unlink(missing_ok=True)
        listening.bind(address)
        path.chmod(PRIVATE_FILE)
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _make_address(path: Path, directory: int) -> str:
    """Return the path, or if it is too long for an address, a way to it through the open directory."""
    if len(os.fsencode(path)) < _LONGEST_ADDRESS_BYTES:
        return str(path)
    if sys.platform != "linux":
        raise HomeError(
            f"{path} is too long for a socket, which may have {_LONGEST_ADDRESS_BYTES - 1} bytes here",
            hint="Put the home at a shorter path.",
        )
    return f"/proc/self/fd/{directory}/{path.name}"


def _refuse_second(path: Path, address: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        if asking.connect_ex(address) == 0:
            raise HomeError(
                f"Another process answers at {path}: the home is running already",
                hint="Stop that one first, or go on using it.",
            )
