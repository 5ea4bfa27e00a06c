"""Azure OpenAI: a model is the name of a deployment."""

from typing import TYPE_CHECKING, cast

from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.azure import AzureProvider
from pydantic_ai.settings import ModelSettings

from nexus.broker.agent.clients.client import Client, Opening, send_as_mapped

if TYPE_CHECKING:
    from openai import AsyncAzureOpenAI


def connect(opening: Opening) -> Client:
    made = AzureProvider(
        azure_endpoint=opening.base_url, api_key=opening.auth_token or opening.api_key
    ).client
    # For addresses that end in /v1 it is a plain client, which the provider takes as well.
    client = cast("AsyncAzureOpenAI", made.with_options(max_retries=0, default_headers=dict(opening.headers)))
    send_as_mapped(client.chat.completions)
    provider = AzureProvider(openai_client=client)
    return Client(
        model=lambda name: OpenAIChatModel(name, provider=provider),
        settings=ModelSettings(),
        close=client.close,
    )
