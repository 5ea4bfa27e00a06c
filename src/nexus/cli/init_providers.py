"""`nexus init`: questions in a terminal, and the answers that its options give."""

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


class Prompter(Protocol):
    """Asks questions. Each has a default, which Enter accepts."""

    is_person: bool

    def yes(self, question: str, *, default: bool) -> bool: ...

    def text(self, question: str, default: str) -> str: ...

    def secret(self, question: str) -> str: ...

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        """Choose the name of an option; the values describe them."""
        ...


class Person:
    """A person at a terminal."""

    is_person = True

    def yes(self, question: str, *, default: bool) -> bool:
        return click.confirm(question, default=default)

    def text(self, question: str, default: str) -> str:
        # Without a default, Click asks until there is an answer.
        return str(click.prompt(question, default=default or None)).strip()

    def secret(self, question: str) -> str:
        return str(click.prompt(question, default="", show_default=False, hide_input=True)).strip()

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        names = list(options)
        click.echo(question)
        for number, description in enumerate(options.values(), start=1):
            click.echo(f"  {number}  {description}")
        while True:
            typed = self.text("Choose", str(names.index(default) + 1))
            if typed.isdecimal() and 1 <= int(typed) <= len(names):
                return names[int(typed) - 1]
            click.echo(f"Type a number from 1 to {len(names)}.")


class Defaults:
    """Answers every question with its default."""

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
    """What the command line says about the key. Empty: ask."""

    env: str = ""
    file: str = ""
    stdin: bool = False

    @property
    def any(self) -> bool:
        return bool(self.env or self.file or self.stdin)


@dataclass(frozen=True, kw_only=True)
class PreviousKey:
    """What is known of the key from before the test failed."""

    typed: str = ""
    """A key that was typed and not rejected."""
    is_source_refused: bool = False
    """Whether the key at the configured source was rejected."""


def choose_key(
    provider: Provider, config: ProviderConfig, wish: KeyWish, prompter: Prompter, previous: PreviousKey
) -> tuple[ProviderConfig, str]:
    """Return the provider with the source of its key, or with a typed key that isn't stored yet."""
    if wish.stdin:
        return config, _read_key()
    if wish.env:
        return _with_source(config, f"env:{wish.env}"), ""
    if wish.file:
        return _with_source(config, f"file:{Path(wish.file).expanduser().absolute()}"), ""
    if not provider.needs_key or not prompter.is_person:
        return config, ""
    if previous.typed and prompter.yes("Use the API key you entered before?", default=True):
        return config, previous.typed
    source = key_found(config)
    if source and prompter.yes(f"Use the API key in {source}?", default=not previous.is_source_refused):
        return config, ""
    return ask_key(config, prompter)


def _read_key() -> str:
    # At a terminal, a typed line would be shown.
    typed = click.prompt("API key", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not str(typed).strip():
        raise UsageError("No API key on standard input", hint="Pipe it in: `… --key-stdin < FILE`.")
    return str(typed).strip()


def ask_key(config: ProviderConfig, prompter: Prompter) -> tuple[ProviderConfig, str]:
    """Ask for a key, or where it is."""
    kept = "this machine's keyring" if secrets.keyring_usable() else "a file that only you can read"
    click.echo(f"Your API key is not shown and is stored in {kept}.")
    typed = prompter.secret("API key (press Enter to skip)")
    if typed:
        return config, typed
    while True:
        question = "Where is the API key? (env:NAME, file:PATH, keyring:SERVICE/USER or none)"
        source = prompter.text(question, config.api_key or "none")
        if source == "none":
            return _with_source(config, ""), ""
        if secrets.is_source(source):
            return _with_source(config, source), ""
        click.echo("Use env:MY_KEY, file:/path/to/key or keyring:service/user.")


def _with_source(config: ProviderConfig, source: str) -> ProviderConfig:
    return replace(config, api_key=source, auth_token="")


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the command line says. Empty: ask."""

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
class PreviousSetup:
    """The answers from before the test failed: the defaults of the next round."""

    choice: Choice
    is_key_refused: bool

    def key(self, name: str) -> PreviousKey:
        """Return what is known of the provider's key."""
        if name != self.choice.name:
            return PreviousKey()
        if self.is_key_refused:
            return PreviousKey(is_source_refused=not self.choice.typed_key)
        return PreviousKey(typed=self.choice.typed_key)

    def model(self, role: str, name: str) -> str | None:
        """Return the model of a role, empty for none; None if nothing was said about it."""
        model = self.choice.models.get(role) if name == self.choice.name else None
        return model and model.removeprefix(f"{name}/")
