"""Providers that speak the OpenAI chat format: OpenAI, Ollama, llama.cpp, vLLM and many others."""

from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from nexus.broker.agent.clients.client import NO_KEY, Client, Opening, send_as_mapped
from nexus.broker.agent.tls import ssl_context


def connect(opening: Opening) -> Client:
    client = AsyncOpenAI(
        api_key=opening.auth_token or opening.api_key or NO_KEY,
        base_url=opening.base_url,
        default_headers=opening.headers,
        default_query=opening.query,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(verify=ssl_context()),
    )
    send_as_mapped(client.chat.completions)
    provider = OpenAIProvider(openai_client=client)
    # Of the two names for the length of an answer, servers of other makers know the older one.
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=not opening.base_url)
    return Client(
        model=lambda name: OpenAIChatModel(name, provider=provider, profile=profile),
        settings=ModelSettings(),
        close=client.close,
    )
