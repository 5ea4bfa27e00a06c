"""A server that transcribes in OpenAI's format, for tests: it knows what was said in each recording."""

import asyncio
from typing import Any, cast

from aiohttp import web

from threaded_server import ThreadedServer


class TranscriptionServer(ThreadedServer):
    """What isn't in `said` is refused as unreadable."""

    def __init__(self) -> None:
        self.said: dict[bytes, str] = {}
        self.asked: list[dict[str, Any]] = []
        self._may_answer = asyncio.Event()
        self._may_answer.set()
        super().__init__()

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post("/v1/audio/transcriptions", self._transcribe)

    def hold(self) -> None:
        """Let requests wait from now on."""
        self._may_answer.clear()

    def release(self) -> None:
        """Answer those that wait."""
        self._loop.call_soon_threadsafe(self._may_answer.set)

    async def hang_up(self) -> None:
        self._may_answer.set()

    async def _transcribe(self, request: web.Request) -> web.Response:
        given = await request.post()
        file = cast("web.FileField", given["file"])
        data = file.file.read()
        told = {"name": file.filename, "type": file.content_type, "key": request.headers.get("authorization")}
        self.asked.append({"model": given["model"], "language": given.get("language"), **told})
        await self._may_answer.wait()
        if data not in self.said:
            return web.json_response({"error": {"message": "Invalid file format."}}, status=400)
        return web.json_response({"text": self.said[data]})
