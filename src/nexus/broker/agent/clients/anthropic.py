"""Providers that speak the Anthropic Messages format."""

from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider

from nexus.broker.agent.clients.client import NO_KEY, Client, Opening, send_as_mapped
from nexus.broker.agent.tls import ssl_context

# The cached prefix ends behind the tools, behind the system prompt, and behind the last message. The last
# of these moves by itself, so no earlier message's bytes change.
_CACHED: AnthropicModelSettings = {
    "anthropic_cache": True,
    "anthropic_cache_instructions": True,
    "anthropic_cache_tool_definitions": True,
}


def connect(opening: Opening) -> Client:
    client = AsyncAnthropic(
        api_key=None if opening.auth_token else opening.api_key or NO_KEY,
        auth_token=opening.auth_token,
        base_url=opening.base_url,
        default_headers=opening.headers,
        default_query=opening.query,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(verify=ssl_context()),
    )
    send_as_mapped(client.beta.messages)
    provider = AnthropicProvider(anthropic_client=client)
    return Client(
        model=lambda name: AnthropicModel(name, provider=provider), settings=_CACHED, close=client.close
    )
