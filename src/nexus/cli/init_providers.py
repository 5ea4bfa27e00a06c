"""`nexus init`: questions in a terminal, and what its command line says already."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import click

from nexus import secrets
from nexus.broker.agent.providers import Choice, Provider, key_found
from nexus.config import ProviderConfig
from nexus.errors import UsageError


class Asking(Protocol):
    """Answers to questions. Each has a default, which is what Enter gives."""

    is_person: bool

    def yes(self, question: str, *, default: bool) -> bool: ...

    def text(self, question: str, default: str) -> str: ...

    def secret(self, question: str) -> str: ...

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        """The name of an option; the values say what each is."""
        ...


class Person:
    """Somebody at a terminal."""

    is_person = True

    def yes(self, question: str, *, default: bool) -> bool:
        return click.confirm(question, default=default)

    def text(self, question: str, default: str) -> str:
        # Without a default it is asked until there is an answer.
        return str(click.prompt(question, default=default or None)).strip()

    def secret(self, question: str) -> str:
        return str(click.prompt(question, default="", show_default=False, hide_input=True)).strip()

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        names = list(options)
        click.echo(question)
        for number, told in enumerate(options.values(), start=1):
            click.echo(f"  {number}  {told}")
        while True:
            typed = self.text("Choose", str(names.index(default) + 1))
            if typed.isdecimal() and 1 <= int(typed) <= len(names):
                return names[int(typed) - 1]
            click.echo(f"Type a number from 1 to {len(names)}.")


class Defaults:
    """Nobody: every question gets its default."""

    is_person = False

    def yes(self, question: str, *, default: bool) -> bool:
        return default

    def text(self, question: str, default: str) -> str:
        return default

    def secret(self, question: str) -> str:
        return ""

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        return default


@dataclass(frozen=True, kw_only=True)
class KeyWish:
    """What the command line says about the key. Empty: it is asked."""

    env: str = ""
    file: str = ""
    stdin: bool = False

    @property
    def any(self) -> bool:
        return bool(self.env or self.file or self.stdin)


@dataclass(frozen=True, kw_only=True)
class EarlierKey:
    """What is known of the key from before the trial failed."""

    typed: str = ""
    """One that was typed, and not refused."""
    is_source_refused: bool = False
    """Whether the one at the place that the settings name was."""


def keyed(
    provider: Provider, config: ProviderConfig, wish: KeyWish, asking: Asking, earlier: EarlierKey
) -> tuple[ProviderConfig, str]:
    """The provider with the place of its key, or with a key that was typed and has no place yet."""
    if wish.stdin:
        return config, _from_stdin()
    if wish.env:
        return _at(config, f"env:{wish.env}"), ""
    if wish.file:
        return _at(config, f"file:{Path(wish.file).expanduser().absolute()}"), ""
    if not provider.needs_key or not asking.is_person:
        return config, ""
    if earlier.typed and asking.yes("Use the API key you entered before?", default=True):
        return config, earlier.typed
    source = key_found(config)
    if source and asking.yes(f"Use the API key in {source}?", default=not earlier.is_source_refused):
        return config, ""
    return _asked(config, asking)


def _from_stdin() -> str:
    # At a terminal, what is typed there would be shown.
    typed = click.prompt("API key", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not str(typed).strip():
        raise UsageError("No API key on standard input", hint="Pipe it in: `… --key-stdin < FILE`.")
    return str(typed).strip()


def _asked(config: ProviderConfig, asking: Asking) -> tuple[ProviderConfig, str]:
    kept = "this machine's keyring" if secrets.keyring_usable() else "a file that only you can read"
    click.echo(f"Your API key is not shown and is stored in {kept}.")
    typed = asking.secret("API key (press Enter to skip)")
    if typed:
        return config, typed
    while True:
        question = "Where is the API key? (env:NAME, file:PATH, keyring:SERVICE/USER or none)"
        source = asking.text(question, config.api_key or "none")
        if source == "none":
            return _at(config, ""), ""
        if secrets.is_source(source):
            return _at(config, source), ""
        click.echo("Use env:MY_KEY, file:/path/to/key or keyring:service/user.")


def _at(config: ProviderConfig, source: str) -> ProviderConfig:
    return replace(config, api_key=source, auth_token="")


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
