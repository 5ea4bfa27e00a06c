"""Google's Gemini API. It needs the `google` extra."""

import httpx
from google.genai import Client as GoogleClient
from google.genai.types import HttpOptions
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.settings import ModelSettings

from nexus.broker.agent.clients.client import NO_KEY, Client, Opening
from nexus.broker.agent.tls import ssl_context


def connect(opening: Opening) -> Client:
    # Left to itself it uses aiohttp where another extra has installed it, and behaves differently then.
    http = httpx.AsyncClient(verify=ssl_context(), follow_redirects=True)
    options = HttpOptions(base_url=opening.base_url, headers=dict(opening.headers), httpx_async_client=http)
    client = GoogleClient(api_key=opening.auth_token or opening.api_key or NO_KEY, http_options=options)
    provider = GoogleProvider(client=client)

    async def close() -> None:
        await client.aio.aclose()
        await http.aclose()

    return Client(
        model=lambda name: GoogleModel(name, provider=provider),
        settings=ModelSettings(),
        close=close,
    )
