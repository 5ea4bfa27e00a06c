"""Mistral's API. It needs the `mistral` extra."""

import httpx2
from mistralai.client import Mistral
from pydantic_ai.models.mistral import MistralModel
from pydantic_ai.providers.mistral import MistralProvider
from pydantic_ai.settings import ModelSettings

from nexus.broker.agent.clients.client import NO_KEY, Client, Opening
from nexus.broker.agent.tls import ssl_context


def connect(opening: Opening) -> Client:
    key = opening.auth_token or opening.api_key or NO_KEY
    sending = httpx2.AsyncClient(headers=dict(opening.headers), verify=ssl_context(), timeout=None)
    provider = MistralProvider(
        mistral_client=Mistral(api_key=key, server_url=opening.base_url, async_client=sending)
    )
    return Client(
        model=lambda name: MistralModel(name, provider=provider),
        settings=ModelSettings(),
        close=sending.aclose,
    )
