"""The owner's requests go ahead of messages of channels until their answers begin."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nexus.gateway.dependencies import served_of
from nexus.gateway.guard import HOOKS


class Ahead:
    """Stands behind the guard, so that nobody else's requests get here but webhooks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(HOOKS):
            await self._app(scope, receive, send)
            return
        with served_of(scope).app.broker.pace.ahead() as direct:

            async def sending(message: Message) -> None:
                # What follows may be a stream that lasts for hours.
                direct.stop()
                await send(message)

            await self._app(scope, receive, sending)
