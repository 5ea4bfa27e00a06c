"""Groq's API. It needs the `groq` extra."""

from groq import AsyncGroq, DefaultAsyncHttpxClient
from pydantic_ai.models.groq import GroqModel
from pydantic_ai.providers.groq import GroqProvider
from pydantic_ai.settings import ModelSettings

from nexus.broker.agent.clients.client import NO_KEY, Client, Opening
from nexus.broker.agent.tls import ssl_context


def connect(opening: Opening) -> Client:
    client = AsyncGroq(
        api_key=opening.auth_token or opening.api_key or NO_KEY,
        base_url=opening.base_url,
        default_headers=opening.headers,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(verify=ssl_context()),
    )
    provider = GroqProvider(groq_client=client)
    return Client(
        model=lambda name: GroqModel(name, provider=provider), settings=ModelSettings(), close=client.close
    )
