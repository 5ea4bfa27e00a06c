"""Models by name: `provider/model`, with the provider's client, its key and how it is asked."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from nexus import secrets
from nexus.broker.agent.roles import models_of
from nexus.config import Config, ProviderConfig
from nexus.errors import ConfigError

# A server that needs no key is sent this, because the clients insist on one.
_NO_KEY = "none"

# The cached prefix ends behind the tools, behind the system prompt, and behind the last message. The last
# of these moves by itself, so no earlier message's bytes change.
_CACHED: AnthropicModelSettings = {
    "anthropic_cache": True,
    "anthropic_cache_instructions": True,
    "anthropic_cache_tool_definitions": True,
}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model that can be asked."""

    name: str
    provider: str
    model: Model[Any]
    settings: ModelSettings
    config: ProviderConfig


@dataclass(kw_only=True)
class _Connection:
    """One provider's client, for all of its models."""

    provider: AnthropicProvider | OpenAIProvider
    client: AsyncAnthropic | AsyncOpenAI


@dataclass
class Models:
    """The models that the settings name. Clients are made when they are first needed, and kept."""

    config: Config
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _connections: dict[str, _Connection] = field(default_factory=dict[str, _Connection], init=False)
    _secrets: set[str] = field(default_factory=set[str], init=False)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def names(self, role: str) -> tuple[str, ...]:
        """The models of a role, the first choice first; an error that says what to do where there is none."""
        return models_of(self.config.models, role)

    async def candidates(self, names: tuple[str, ...]) -> list[Candidate]:
        """Those that can be asked, in order. One whose key is missing is left out while there is another."""
        found: list[Candidate] = []
        problems: list[ConfigError] = []
        for name in names:
            try:
                found.append(await self._candidate(name))
            except ConfigError as error:
                problems.append(error)
        if not found:
            raise problems[0]
        return found

    def redact(self, text: str) -> str:
        """The text without any key or token that was read here."""
        return secrets.redact(text, self._secrets)

    async def close(self) -> None:
        """End every connection."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _candidate(self, name: str) -> Candidate:
        provider, slash, model = name.partition("/")
        config = self.config.providers.get(provider)
        if not slash or not model or config is None:
            known = ", ".join(self.config.providers)
            raise ConfigError(
                f"`{name}` does not name a model",
                hint=f"Write `provider/model`. Known providers: {known}. More go to [providers.NAME].",
            )
        async with self._making:
            if provider not in self._connections:
                self._connections[provider] = await self._connect(config)
        connection = self._connections[provider].provider
        if isinstance(connection, AnthropicProvider):
            return Candidate(
                name=name,
                provider=provider,
                model=AnthropicModel(model, provider=connection),
                settings=_CACHED,
                config=config,
            )
        made = OpenAIChatModel(model, provider=connection)
        return Candidate(name=name, provider=provider, model=made, settings=ModelSettings(), config=config)

    async def _connect(self, config: ProviderConfig) -> _Connection:
        key = await self._secret(config.api_key)
        token = await self._secret(config.auth_token)
        headers = {name: await self._value(value) for name, value in config.headers.items()}
        if config.kind == "anthropic":
            client = AsyncAnthropic(
                api_key=None if token else key or _NO_KEY,
                auth_token=token,
                base_url=config.base_url or None,
                default_headers=headers,
                max_retries=0,
            )
            return _Connection(client=client, provider=AnthropicProvider(anthropic_client=client))
        other = AsyncOpenAI(
            api_key=token or key or _NO_KEY,
            base_url=config.base_url or None,
            default_headers=headers,
            max_retries=0,
        )
        return _Connection(client=other, provider=OpenAIProvider(openai_client=other))

    async def _secret(self, source: str) -> str | None:
        return await self._value(source) if source else None

    async def _value(self, text: str) -> str:
        """A header's text, or the secret whose place it names."""
        if not secrets.is_source(text):
            return text
        secret = await asyncio.to_thread(secrets.read, text, self.environ)
        self._secrets.add(secret)
        return secret
