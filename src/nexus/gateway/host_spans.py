"""Export of traces by OTLP from a host: those of all its homes, to the collector that the host names."""

import asyncio
import logging
import socket
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from nexus.gateway.spans import Exporter, Send
from nexus.hosting.pool import OpenHome

_LOOK_S: Final = 5.0
_log = logging.getLogger("nexus.host")


class HostExporter:
    """Exports from homes while they are open, and once more before they close."""

    def __init__(self, send: Send, host_name: str = "") -> None:
        self._send = send
        self._host_name = host_name or socket.gethostname()
        self._open: dict[str, tuple[Exporter, asyncio.Lock]] = {}
        self._is_taking = True
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="host-spans")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # To the end of what is being exported: where that is noted comes last, and it would be sent again.
        if self._task is not None:
            self._stopping.set()
            await self._task

    def opened(self, home: OpenHome) -> None:
        """Export what ends in a home from now on, until it is closed."""
        about = {"service.instance.id": self._host_name, "nexus.home": home.id}
        exporter = Exporter(home.app.ledgers, self._send, about=about)
        self._open[home.id] = exporter, asyncio.Lock()
        home.on_close.push_async_callback(self._close, home.id)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _LOOK_S)
            for home_id in list(self._open):
                if self._stopping.is_set():
                    break
                await self._export(home_id)
                if not self._is_taking:
                    break

    async def _close(self, home_id: str) -> None:
        # Closing waits for no collector that is away: the home goes on from there when it is next opened.
        if self._is_taking:
            await self._export(home_id)
        _, using = self._open[home_id]
        async with using:
            del self._open[home_id]

    async def _export(self, home_id: str) -> None:
        exporter, using = self._open.get(home_id, (None, None))
        if exporter is None or using is None:
            return
        async with using:
            if home_id not in self._open:
                return
            try:
                await exporter.once()
                self._is_taking = not exporter.is_refused
            except Exception:
                self._is_taking = False
                _log.exception("traces could not be exported, and will be tried again")
