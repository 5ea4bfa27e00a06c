"""All that the server knows: its settings, the script, the cache and the records."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nexus.clock import Clock, now
from nexus.testing.model_server.caching import (
    DEFAULT_CACHING,
    Accounting,
    Caching,
    PrefixStore,
    account_automatically,
    account_by_points,
)
from nexus.testing.model_server.gate import Gates
from nexus.testing.model_server.profile import Profile
from nexus.testing.model_server.record import Exchange, Records
from nexus.testing.model_server.request import ModelRequest
from nexus.testing.model_server.script import Script
from nexus.testing.model_server.usage import Price

TURN_PATHS = ("/v1/messages", "/chat/completions", ":generateContent", ":streamGenerateContent")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a model server is made with."""

    keys: Collection[str] = ()
    """The keys that are accepted; empty accepts every request."""
    models: Collection[str] = ()
    """The models that exist; empty accepts every name."""
    caching: Caching = DEFAULT_CACHING
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    clock: Clock = now
    profile: Profile = field(default_factory=Profile)


@dataclass
class State:
    """The server's whole state; script, records and gates may be used from any thread."""

    settings: Settings
    script: Script = field(default_factory=Script)
    records: Records = field(default_factory=Records)
    gates: Gates = field(default_factory=Gates)
    prefixes: PrefixStore = field(default_factory=PrefixStore)
    slots: asyncio.Semaphore | None = None
    """How many answers are given at a time, where the profile says so. The server's own loop uses it."""

    def __post_init__(self) -> None:
        if self.settings.profile.slots is not None:
            self.slots = asyncio.Semaphore(self.settings.profile.slots)

    def account(self, request: ModelRequest) -> Accounting:
        """What of this request's prompt is cached, by the rules of its wire format."""
        rules = account_by_points if request.wire == "anthropic" else account_automatically
        return rules(
            self.prefixes, request.model, request.prompt, self.settings.caching, self.settings.clock()
        )

    def turns(self) -> list[Exchange]:
        """The exchanges that asked for a turn of the model, without token counts and lists of models."""
        return [exchange for exchange in self.records.all() if exchange.request.path.endswith(TURN_PATHS)]

    def reset(self) -> None:
        """Forget script, records, gates and cached prefixes."""
        self.script.clear()
        self.records.clear()
        self.gates.clear()
        self.prefixes.clear()
