"""OpenRouter, which passes requests on to many providers."""

from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic_ai.models.openrouter import OpenRouterModel
from pydantic_ai.providers.openrouter import OpenRouterProvider
from pydantic_ai.settings import ModelSettings

from nexus.broker.agent.clients.client import NO_KEY, Client, Opening, send_as_mapped
from nexus.broker.agent.tls import ssl_context

_ADDRESS = "https://openrouter.ai/api/v1"


def connect(opening: Opening) -> Client:
    client = AsyncOpenAI(
        api_key=opening.auth_token or opening.api_key or NO_KEY,
        base_url=opening.base_url or _ADDRESS,
        default_headers=opening.headers,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(verify=ssl_context()),
    )
    send_as_mapped(client.chat.completions)
    provider = OpenRouterProvider(openai_client=client)
    return Client(
        model=lambda name: OpenRouterModel(name, provider=provider),
        settings=ModelSettings(),
        close=client.close,
    )
