"""Where services send what happened: `POST /hooks/NAME`, for a channel of kind `webhook`.

The guard lets these requests through without the home's token. Each must be signed with the channel's secret,
and one that isn't is answered the same whether there is such a channel or not.
"""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nexus.channels.adapter import MessageError
from nexus.channels.webhook import Webhook
from nexus.errors import AccessError
from nexus.gateway.dependencies import served_by
from nexus.gateway.guard import HOOKS
from nexus.gateway.refusals import refusal


def join(server: FastAPI) -> None:
    """Put the endpoint under /hooks."""

    async def heard(request: Request) -> Response:
        adapter = served_by(request).app.adapters.made.get(request.path_params["name"])
        try:
            if not isinstance(adapter, Webhook):
                raise AccessError("Unknown webhook")
            message = await adapter.heard(request.headers, await request.body())
        except AccessError:
            return unsigned()
        except MessageError as error:
            return refusal(422, error.message, "See [channels.NAME] fields.")
        if message is None:
            return refusal(503, "The channel is paused", "Send it again later.")
        return JSONResponse({"id": message.id}, status_code=202)

    server.add_route(HOOKS + "{name}", heard, methods=["POST"], include_in_schema=False)


def unsigned() -> Response:
    """What everybody is answered who has no right signature, whatever there is."""
    return refusal(
        401, "The signature is missing, wrong or too old", "Sign the body with the channel's secret."
    )
