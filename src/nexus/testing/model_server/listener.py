"""uvicorn in a thread of its own: started when it returns, and gone without a trace when stopped."""

import asyncio
import threading
from concurrent.futures import Future

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from nexus import asgi

KEEP_ALIVE_S = 75
BACKLOG = 1024


class Listener:
    """Serves one application on one socket."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = asgi.open_socket(host, port, backlog=BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        self.ready: Future[None] = Future()
        self.ended: Future[None] = Future()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._server: uvicorn.Server | None = None

    def launch(self, app: ASGIApp) -> None:
        """Start the thread; `ready` tells when it serves."""
        self._thread = threading.Thread(target=self._run, args=(app,), name="nexus-model-server", daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """Ask the thread to end; `ended` tells when it did."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def close_connection(self, scope: Scope) -> None:
        """Close the connection that a request came by, after what was written to it."""
        assert self._server is not None  # noqa: S101 - an invariant, for the reader and the type checker
        for connection in list(self._server.server_state.connections):
            if isinstance(connection, H11Protocol) and connection.client == tuple(scope["client"]):
                connection.transport.close()

    def _run(self, app: ASGIApp) -> None:
        try:
            asyncio.run(self._serve(app))
        except BaseException as error:
            if not self.ready.done():
                self.ready.set_exception(error)
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)
        finally:
            self._socket.close()

    async def _serve(self, app: ASGIApp) -> None:
        self._loop = asyncio.get_running_loop()
        server = self._server = asgi.build_server(app, keep_alive_s=KEEP_ALIVE_S)
        await server.startup(sockets=[self._socket])
        self.ready.set_result(None)
        await self._stop.wait()
        await self._end(server)

    async def _end(self, server: uvicorn.Server) -> None:
        # uvicorn's own shutdown lets open answers finish; a stalled one never would.
        for listening in server.servers:
            listening.close()
        asgi.abort(server)
        await asgi.wait_until_settled(server)
        for listening in server.servers:
            await listening.wait_closed()
