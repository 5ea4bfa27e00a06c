"""Models that Nexus runs itself. They need the `local` extra."""

import asyncio
import ssl
from typing import Final

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings

from nexus.broker.agent.builtin.server import ModelProcess
from nexus.broker.agent.clients.client import NO_KEY, Client, Opening, send_as_mapped

# The server is on this machine.
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _Served(httpx2.AsyncBaseTransport):
    """Sends requests to a model's server, which it starts for the first of them."""

    def __init__(self, process: ModelProcess) -> None:
        self._process = process
        self._sending = httpx2.AsyncHTTPTransport(verify=_NO_TLS)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        at = httpx2.URL(await self._process.address())
        request.url = request.url.copy_with(host=at.host, port=at.port)
        request.headers["host"] = f"{at.host}:{at.port}"
        return await self._sending.handle_async_request(request)

    async def aclose(self) -> None:
        await self._sending.aclose()
        await self._process.stop()


def connect(opening: Opening) -> Client:
    clients: dict[str, AsyncOpenAI] = {}

    def model(name: str) -> OpenAIChatModel:
        if name not in clients:
            sending = httpx2.AsyncClient(transport=_Served(ModelProcess(name)), timeout=None)
            clients[name] = AsyncOpenAI(
                api_key=NO_KEY, base_url=opening.base_url, http_client=sending, max_retries=0
            )
            send_as_mapped(clients[name].chat.completions)
        return OpenAIChatModel(
            name, provider=OpenAICompatibleProvider("builtin", openai_client=clients[name])
        )

    async def close() -> None:
        await asyncio.gather(*(client.close() for client in clients.values()))

    return Client(model=model, settings=ModelSettings(), close=close)
