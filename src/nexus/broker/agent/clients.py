"""The clients of providers: one function for each kind of provider, which its name ends with.

Each imports its provider's package, which takes long: call it through `call_importing`. No client asks again
by itself.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, cast

from nexus.broker.agent.builtin import ModelProcess

if TYPE_CHECKING:
    from openai import AsyncAzureOpenAI
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

_NO_KEY: Final = "none"
"""What a server that needs no key is sent, because the clients insist on one."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a client is made with. A token stands instead of a key."""

    base_url: str | None
    api_key: str | None
    auth_token: str | None
    headers: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters of every request."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """One provider's client, for all of its models."""

    model: "Callable[[str], Model[Any]]"
    close: Callable[[], Awaitable[None]]
    settings: "ModelSettings" = field(default_factory=lambda: cast("ModelSettings", {}))


def send_as_mapped(resource: Any) -> None:
    """Have a client send messages as the agent library has mapped them.

    The clients go through every field of every message by its type annotation, and find nothing to change:
    that took most of a long conversation's time.
    """
    create = resource.create

    async def create_as_mapped(
        *, messages: object, extra_body: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        return await create(messages=[], extra_body={**(extra_body or {}), "messages": messages}, **options)

    resource.create = create_as_mapped


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the certificates that the system trusts, for all clients: reading them takes 20 to 90 ms."""
    import httpx2

    return httpx2.create_ssl_context()


def connect_anthropic(opening: Opening) -> Client:
    """Connect to a provider that speaks the Anthropic Messages format."""
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
    from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
    from pydantic_ai.providers.anthropic import AnthropicProvider

    # The cached prefix ends behind the tools, behind the system prompt, and behind the last message. The last
    # of these moves by itself, so no earlier message's bytes change.
    cached: AnthropicModelSettings = {
        "anthropic_cache": True,
        "anthropic_cache_instructions": True,
        "anthropic_cache_tool_definitions": True,
    }
    client = AsyncAnthropic(
        api_key=None if opening.auth_token else opening.api_key or _NO_KEY,
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
        model=lambda name: AnthropicModel(name, provider=provider), settings=cached, close=client.close
    )


def connect_openai(opening: Opening) -> Client:
    """Connect to what speaks the OpenAI chat format: OpenAI, Ollama, llama.cpp, vLLM and many others."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(
        api_key=opening.auth_token or opening.api_key or _NO_KEY,
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
        close=client.close,
    )


def connect_azure(opening: Opening) -> Client:
    """Connect to Azure OpenAI, where a model is the name of a deployment."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.azure import AzureProvider

    made = AzureProvider(
        azure_endpoint=opening.base_url, api_key=opening.auth_token or opening.api_key
    ).client
    # For addresses that end in /v1 it is a plain client, which the provider takes as well.
    client = cast("AsyncAzureOpenAI", made.with_options(max_retries=0, default_headers=dict(opening.headers)))
    send_as_mapped(client.chat.completions)
    provider = AzureProvider(openai_client=client)
    return Client(
        model=lambda name: OpenAIChatModel(name, provider=provider),
        close=client.close,
    )


def connect_openrouter(opening: Opening) -> Client:
    """Connect to OpenRouter, which passes requests on to many providers."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient
    from pydantic_ai.models.openrouter import OpenRouterModel
    from pydantic_ai.providers.openrouter import OpenRouterProvider

    client = AsyncOpenAI(
        api_key=opening.auth_token or opening.api_key or _NO_KEY,
        base_url=opening.base_url or "https://openrouter.ai/api/v1",
        default_headers=opening.headers,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(verify=ssl_context()),
    )
    send_as_mapped(client.chat.completions)
    provider = OpenRouterProvider(openai_client=client)
    return Client(
        model=lambda name: OpenRouterModel(name, provider=provider),
        close=client.close,
    )


def connect_google(opening: Opening) -> Client:
    """Connect to Google's Gemini API. It needs the `google` extra."""
    import httpx
    from google.genai import Client as GoogleClient
    from google.genai.types import HttpOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    http = httpx.AsyncClient(verify=ssl_context(), follow_redirects=True)
    options = HttpOptions(base_url=opening.base_url, headers=dict(opening.headers), httpx_async_client=http)
    client = GoogleClient(api_key=opening.auth_token or opening.api_key or _NO_KEY, http_options=options)
    provider = GoogleProvider(client=client)

    async def close() -> None:
        await client.aio.aclose()
        await http.aclose()

    return Client(
        model=lambda name: GoogleModel(name, provider=provider),
        close=close,
    )


def connect_groq(opening: Opening) -> Client:
    """Connect to Groq's API. It needs the `groq` extra."""
    from groq import AsyncGroq, DefaultAsyncHttpxClient
    from pydantic_ai.models.groq import GroqModel
    from pydantic_ai.providers.groq import GroqProvider

    client = AsyncGroq(
        api_key=opening.auth_token or opening.api_key or _NO_KEY,
        base_url=opening.base_url,
        default_headers=opening.headers,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(verify=ssl_context()),
    )
    provider = GroqProvider(groq_client=client)
    return Client(model=lambda name: GroqModel(name, provider=provider), close=client.close)


def connect_mistral(opening: Opening) -> Client:
    """Connect to Mistral's API. It needs the `mistral` extra."""
    import httpx2
    from mistralai.client import Mistral
    from pydantic_ai.models.mistral import MistralModel
    from pydantic_ai.providers.mistral import MistralProvider

    key = opening.auth_token or opening.api_key or _NO_KEY
    sending = httpx2.AsyncClient(headers=dict(opening.headers), verify=ssl_context(), timeout=None)
    provider = MistralProvider(
        mistral_client=Mistral(api_key=key, server_url=opening.base_url, async_client=sending)
    )
    return Client(
        model=lambda name: MistralModel(name, provider=provider),
        close=sending.aclose,
    )


def connect_bedrock(opening: Opening) -> Client:
    """Connect to Amazon Bedrock. It needs the `bedrock` extra.

    Without a key the credentials and the region are those of the AWS environment: its variables or `~/.aws`.
    """
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    if key := opening.auth_token or opening.api_key:
        provider = BedrockProvider(api_key=key, base_url=opening.base_url)
    else:
        provider = BedrockProvider(base_url=opening.base_url)
    client = cast("Any", provider.client)

    def add_headers(request: Any, **_: Any) -> None:
        for name, value in opening.headers.items():
            request.headers[name] = value

    # Before it is signed, so that the signature covers them.
    client.meta.events.register("before-sign.bedrock-runtime", add_headers)
    return Client(
        model=lambda name: BedrockConverseModel(name, provider=provider),
        close=partial(asyncio.to_thread, client.close),
    )


def connect_builtin(opening: Opening) -> Client:
    """Connect to the models that Nexus runs itself. They need the `local` extra."""
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    class Served(httpx2.AsyncBaseTransport):
        """Sends requests to a model's server, which it starts for the first of them."""

        def __init__(self, process: ModelProcess) -> None:
            self._process = process
            # The server is on this machine.
            self._sending = httpx2.AsyncHTTPTransport(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            at = httpx2.URL(await self._process.address())
            request.url = request.url.copy_with(host=at.host, port=at.port)
            request.headers["host"] = f"{at.host}:{at.port}"
            return await self._sending.handle_async_request(request)

        async def aclose(self) -> None:
            await self._sending.aclose()
            await self._process.stop()

    clients: dict[str, AsyncOpenAI] = {}

    def model(name: str) -> OpenAIChatModel:
        if name not in clients:
            sending = httpx2.AsyncClient(transport=Served(ModelProcess(name)), timeout=None)
            clients[name] = AsyncOpenAI(
                api_key=_NO_KEY, base_url=opening.base_url, http_client=sending, max_retries=0
            )
            send_as_mapped(clients[name].chat.completions)
        return OpenAIChatModel(
            name, provider=OpenAICompatibleProvider("builtin", openai_client=clients[name])
        )

    async def close() -> None:
        await asyncio.gather(*(client.close() for client in clients.values()))

    return Client(model=model, close=close)
