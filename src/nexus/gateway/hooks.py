"""Where services send what happened: `POST /hooks/NAME`, for a channel of kind `webhook`.

The guard lets these requests in by their signature instead of the home's token. One that isn't signed with
the channel's secret is answered the same whether there is such a channel or not.
"""

from typing import Final

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nexus.app import App
from nexus.channels.adapter import MessageError
from nexus.channels.webhook import Webhook
from nexus.errors import AccessError
from nexus.gateway.dependencies import served_by
from nexus.gateway.guard import HOOKS
from nexus.gateway.refusals import refusal, refuse_unsigned
from nexus.ledgers.runtime import channels

_START_S: Final = 10.0


def is_signed(app: App, name: str, headers: Headers, body: bytes) -> bool:
    """Whether a request is signed for the webhook of that name."""
    adapter = app.adapters.made.get(name)
    return isinstance(adapter, Webhook) and adapter.is_signed(headers, body)


def join(server: FastAPI) -> None:
    """Put the endpoint under /hooks."""

    async def receive_hook(request: Request) -> Response:
        app, name = served_by(request).app, request.path_params["name"]
        adapter = app.adapters.made.get(name)
        try:
            if not isinstance(adapter, Webhook):
                raise AccessError("Unknown webhook")
            state = await app.ledgers.runtime.read(channels.state, name=name)
            # The request may have opened the home, whose channels start afterwards.
            patience_s = 0 if state.paused else _START_S
            message = await adapter.heard(request.headers, await request.body(), patience_s)
        except AccessError:
            return refuse_unsigned()
        except MessageError as error:
            return refusal(422, error.message, "See [channels.NAME] fields.")
        if message is None:
            return refusal(503, "The channel is paused", "Send it again later.")
        return JSONResponse({"id": message.id}, status_code=202)

    server.add_route(HOOKS + "{name}", receive_hook, methods=["POST"], include_in_schema=False)
