"""Google's Gemini API. It needs the `google` extra."""

from google.genai import Client as GoogleClient
from google.genai.types import HttpOptions
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.settings import ModelSettings

from nexus.broker.agent.clients.client import NO_KEY, Client, Opening


def connect(opening: Opening) -> Client:
    options = HttpOptions(base_url=opening.base_url, headers=dict(opening.headers))
    client = GoogleClient(api_key=opening.auth_token or opening.api_key or NO_KEY, http_options=options)
    provider = GoogleProvider(client=client)
    return Client(
        model=lambda name: GoogleModel(name, provider=provider),
        settings=ModelSettings(),
        close=client.aio.aclose,
    )
