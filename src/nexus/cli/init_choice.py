"""What is wanted of a model, and what was chosen, before anything is written."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nexus import secrets
from nexus.cli.init_keys import EarlierKey, KeyWish
from nexus.cli.init_settings import Change
from nexus.config import Config, ProviderConfig
from nexus.home import Home

if TYPE_CHECKING:
    from nexus.broker.agent.trial import Trial


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the command line says already. Empty: it is asked."""

    provider: str = ""
    models: dict[str, str] = field(default_factory=dict[str, str])
    base_url: str = ""
    key: KeyWish = field(default_factory=KeyWish)

    @property
    def manager(self) -> str:
        return self.models.get("manager", "")

    @property
    def any(self) -> bool:
        return bool(self.provider or any(self.models.values()) or self.base_url or self.key.any)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A model, its provider and where the key is, before anything is written."""

    name: str
    """The section of the provider: [providers.NAME]."""
    provider: ProviderConfig
    models: dict[str, str]
    """`provider/model` by role, nothing for nobody; a role that stays as it is is left out."""
    typed_key: str = ""
    trials: "tuple[Trial, ...]" = ()
    """What its models did when they were tried."""

    @property
    def tried_models(self) -> tuple[str, ...]:
        """Those that must answer before they are written down, each once."""
        named = (self.models["manager"], self.models.get("writer", ""))
        return tuple(dict.fromkeys(model for model in named if model))

    def kept(self, home: Home) -> "Choice":
        """The same, with a key that was typed in the place where it stays."""
        if not self.typed_key:
            return self
        source = secrets.keep(self.typed_key, self.name, home.secrets)
        return replace(self, provider=replace(self.provider, api_key=source, auth_token=""), typed_key="")

    def changes(self, settings: Config) -> Iterator[Change]:
        """What config.toml must say that it does not yet."""
        known = settings.providers.get(self.name, ProviderConfig())
        for key in ("base_url", "api_key", "auth_token"):
            value = getattr(self.provider, key)
            if value != getattr(known, key):
                yield Change(section=f"providers.{self.name}", key=key, value=value)
        for role, model in self.models.items():
            names = (model,) if model else ()
            if getattr(settings.models, role) != names:
                yield Change(section="models", key=role, value=model or [])


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What was answered before the trial failed: the defaults of the next round."""

    choice: Choice
    is_key_refused: bool

    def key(self, name: str) -> EarlierKey:
        """What is known of the provider's key."""
        if name != self.choice.name:
            return EarlierKey()
        if self.is_key_refused:
            return EarlierKey(is_source_refused=not self.choice.typed_key)
        return EarlierKey(typed=self.choice.typed_key)

    def model(self, role: str, name: str) -> str | None:
        """The model of a role, empty for nobody; None where nothing was said of it."""
        model = self.choice.models.get(role) if name == self.choice.name else None
        return model and model.removeprefix(f"{name}/")
