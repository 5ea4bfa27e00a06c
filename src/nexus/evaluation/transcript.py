"""A model that says what a transcript says: the assistant's lines of a conversation that is played again.

It is a server on loopback in the OpenAI chat format, so the conversation passes through the same broker,
client and bookkeeping as with any other model. Only what the memory does afterwards is evaluated.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nexus import asgi
from nexus.config import ProviderConfig

PROVIDER: Final = "transcript"
MODEL: Final = f"{PROVIDER}/recorded"
_KEEP_ALIVE_S: Final = 75
_GRACE_S: Final = 1.0
_USAGE: Final = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@dataclass
class Transcript:
    """The server, and the line that it says next."""

    url: str = ""
    reply: str = ""

    @property
    def provider(self) -> ProviderConfig:
        return ProviderConfig(kind="openai", base_url=self.url)

    async def answer(self, request: Request) -> Response:
        """Say the line."""
        body = await request.json()
        if body.get("stream"):
            return StreamingResponse(_events(self.reply), media_type="text/event-stream")
        message = {"role": "assistant", "content": self.reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({**_envelope("chat.completion"), "choices": [choice], "usage": _USAGE})


@asynccontextmanager
async def transcript() -> AsyncGenerator[Transcript]:
    """Serve a transcript until the block ends."""
    made = Transcript()
    app = Starlette(routes=[Route("/v1/chat/completions", made.answer, methods=["POST"])])
    socket = asgi.listening("127.0.0.1", 0, backlog=16)
    server = asgi.server(app, keep_alive_s=_KEEP_ALIVE_S)
    await server.startup(sockets=[socket])
    made.url = f"http://127.0.0.1:{socket.getsockname()[1]}/v1"
    try:
        yield made
    finally:
        await asgi.stop(server, grace_s=_GRACE_S, cut_s=_GRACE_S)
        socket.close()


def _events(text: str) -> Iterator[str]:
    deltas: list[dict[str, Any]] = [
        {"delta": {"role": "assistant", "content": text}, "finish_reason": None},
        {"delta": {}, "finish_reason": "stop"},
    ]
    for delta in deltas:
        yield _event({**_envelope("chat.completion.chunk"), "choices": [{"index": 0, **delta}]})
    yield _event({**_envelope("chat.completion.chunk"), "choices": [], "usage": _USAGE})
    yield "data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "recorded", "object": kind, "created": 0, "model": "recorded"}
