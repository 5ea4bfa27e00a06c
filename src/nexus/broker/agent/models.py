"""Models by name: `provider/model`, with the provider's client, its key and how it is asked."""

import asyncio
import gc
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from nexus import extras, secrets
from nexus.broker.agent import call_importing, clients
from nexus.broker.agent.clients import Client, Opening
from nexus.broker.agent.knowledge import Knowledge
from nexus.broker.agent.roles import models_of, unknown_model
from nexus.broker.agent.slots import Slots
from nexus.config import Config, PriceConfig, ProviderConfig
from nexus.errors import ConfigError
from nexus.ledgers.runtime.models import Capabilities

# Imported with a provider's client: a home is served before that.
if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

_log = logging.getLogger(__name__)
_connected: set[str] = set()
"""The kinds of providers whose packages this process has imported."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model that can be asked."""

    name: str
    provider: str
    model: "Model[Any]"
    settings: "ModelSettings"
    config: ProviderConfig
    opening: Opening = field(repr=False)
    """How its server is reached."""
    price: PriceConfig | None = None
    """The owner's own, where the settings have one."""


@dataclass
class Models:
    """The models that the settings name. They and their clients are made when first needed, and kept."""

    config: Config
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    knowledge: Knowledge = field(default_factory=Knowledge)
    slots: Slots = field(init=False)
    _candidates: dict[str, Candidate] = field(default_factory=dict[str, Candidate], init=False, repr=False)
    _clients: dict[str, Client] = field(default_factory=dict[str, Client], init=False)
    _openings: dict[str, Opening] = field(default_factory=dict[str, Opening], init=False, repr=False)
    known_secrets: set[str] = field(default_factory=set[str], init=False, repr=False)
    """Every key and token that was read here."""
    _told: set[str] = field(default_factory=set[str], init=False)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self.slots = Slots(self.config.agents.quiet_ms / 1000)

    def names(self, role: str) -> tuple[str, ...]:
        """The models of a role, the first choice first; an error that says what to do where there is none."""
        return models_of(self.config.models, role)

    async def candidates(self, names: tuple[str, ...]) -> list[Candidate]:
        """Those that can be asked, in order. One whose key is missing is left out while there is another."""
        found: list[Candidate] = []
        problems: dict[str, ConfigError] = {}
        for name in names:
            try:
                found.append(await self._candidate(name))
            except ConfigError as error:
                problems[name] = error
        if not found:
            raise next(iter(problems.values()))
        for name, error in problems.items():
            self._tell(name, error)
        return found

    async def capabilities(self, name: str) -> Capabilities:
        """What is known of a model, such as how long a prompt it takes and whether it calls tools."""
        return await self.knowledge.of(await self._candidate(name))

    async def cost_microusd(
        self, name: str, *, input_tokens: int, cached_tokens: int, output_tokens: int
    ) -> int | None:
        """What so many tokens of a model cost, the cached ones among the input; None where nobody knows."""
        from nexus.broker.agent import prices

        candidate = await self._candidate(name)
        used = prices.Tokens(
            input_tokens=input_tokens, cache_read_tokens=cached_tokens, output_tokens=output_tokens
        )
        return prices.cost_microusd(
            used,
            model=candidate.model.model_name,
            base_url=candidate.model.base_url or "",
            price=candidate.price,
            is_local=candidate.config.is_local,
        )

    async def prompt_tokens(self, name: str, output_tokens: int) -> int | None:
        """How long a prompt of a model may be that is to answer with so many tokens; None: not known."""
        known = await self.capabilities(name)
        from nexus.broker.agent import fitting

        return fitting.room(known, output_tokens).input_tokens

    def _tell(self, name: str, error: ConfigError) -> None:
        """That a model is not asked, once: each request would say it again."""
        if name not in self._told:
            self._told.add(name)
            _log.warning("a model is left out", extra={"model": name, "reason": error.message})

    def redact(self, text: str) -> str:
        """The text without any key or token that was read here."""
        return secrets.redact(text, self.known_secrets)

    async def close(self) -> None:
        """End every connection."""
        self._candidates.clear()
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _candidate(self, name: str) -> Candidate:
        if name not in self._candidates:
            self._candidates[name] = await self._make_candidate(name)
        return self._candidates[name]

    async def _make_candidate(self, name: str) -> Candidate:
        provider, slash, model = name.partition("/")
        config = self.config.providers.get(provider)
        if not slash or not model or config is None:
            raise unknown_model(name, self.config.providers)
        async with self._making:
            if provider not in self._clients:
                self._clients[provider] = await self._connect(provider, config)
        client = self._clients[provider]
        from pydantic_ai.exceptions import UserError

        try:
            made = client.model(model)
            _ = made.profile  # some libraries look at the name only here
        except UserError as error:
            raise ConfigError(f"`{name}` is not a model name: {error}") from error
        return Candidate(
            name=name,
            provider=provider,
            model=made,
            settings=client.settings,
            config=config,
            opening=self._openings[provider],
            price=self.config.prices.get(name),
        )

    async def _connect(self, provider: str, config: ProviderConfig) -> Client:
        headers = {name: await self._value(value) for name, value in config.headers.items()}
        address = await asyncio.to_thread(secrets.address, config.base_url, self.environ)
        self.known_secrets.update(address.secrets)
        if address.authorization:
            headers.setdefault("Authorization", address.authorization)
        opening = Opening(
            # Without credentials: the library keeps it with every answer.
            base_url=address.plain or None,
            query=address.query,
            api_key=await self._secret(config.api_key),
            auth_token=await self._secret(config.auth_token),
            headers=headers,
        )
        self._openings[provider] = opening
        is_new = config.kind not in _connected
        try:
            # `clients.connect_anthropic` and so on. Their libraries take seconds to import, so only those are
            # that the settings use.
            # The lock of imports isn't held for the next ones: a client may look for its credentials.
            call = call_importing if is_new else asyncio.to_thread
            made = await call(getattr(clients, f"connect_{config.kind}"), opening)
        except ImportError as error:
            raise ConfigError(
                f"The package for providers of kind `{config.kind}` is not installed",
                hint=extras.hint(extras.extra_of_provider(config.kind)),
            ) from error
        except Exception as error:
            from pydantic_ai.exceptions import UserError

            if not isinstance(error, UserError):
                raise
            raise ConfigError(
                self.redact(f"The client for `{config.kind}` can't be created: {error}"),
                hint="See the provider's entry in the documentation under *Choose a model*.",
            ) from error
        # What is imported by now stays. A full garbage collection that looks through all of it would stop the
        # event loop for longer than anybody who watches an answer being written should notice. Once: what is
        # frozen is never collected, and with each home of a host that would be what closed homes left behind.
        if is_new:
            _connected.add(config.kind)
            gc.freeze()
        return made

    async def _secret(self, source: str) -> str | None:
        return await self._value(source) if source else None

    async def _value(self, text: str) -> str:
        """A header's text, or the secret whose place it names."""
        source = secrets.source_in(text)
        if not source:
            return text
        secret = await asyncio.to_thread(secrets.read, source, self.environ)
        self.known_secrets.add(secret)
        return text.removesuffix(source) + secret
