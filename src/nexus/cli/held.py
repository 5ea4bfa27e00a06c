"""What an import or a restore disabled, until the owner approves it."""

import tomllib
from collections.abc import Iterable
from typing import Any, Final, cast

import click
import tomlkit

from nexus import config_file
from nexus.errors import ConfigError, NexusError
from nexus.home import Home
from nexus.ledgers import quarantine
from nexus.ledgers.quarantine import Held
from nexus.text import pluralize

TRUST: Final = "Enable its automations, hooks and settings. Only for files you created yourself."


def print_held(held: Iterable[Held]) -> None:
    """Print what arrived disabled, and how to enable it."""
    items = list(held)
    if not items:
        return
    click.echo(f"Disabled until you approve: {pluralize(len(items), 'item')}.")
    for each in items:
        click.echo(f"  {each}")
    if any(each.kind == "skill" for each in items):
        click.echo("Review skills with `nexus skills enable NAME`.")
    if any(each.kind != "skill" for each in items):
        click.echo("Review them, then run `nexus automations approve`.")


def load_waiting_settings(home: Home) -> dict[str, dict[str, Any]]:
    """Load the imported settings that wait for approval, by section."""
    file = quarantine.imported_settings(home)
    if not file.is_file():
        return {}
    return cast("dict[str, dict[str, Any]]", tomllib.loads(file.read_text(encoding="utf-8")))


def approve_settings(home: Home) -> int:
    """Write the imported settings to config.toml; returns how many there were."""
    waiting = load_waiting_settings(home)
    text = home.config_file.read_text(encoding="utf-8")
    document = cast("dict[str, Any]", tomlkit.parse(text))
    wanted = tomllib.loads(text)
    for section, table in waiting.items():
        for place in (document, wanted):
            place.setdefault(section, {}).update(table)
    approved = tomlkit.dumps(cast("Any", document))
    if tomllib.loads(approved) != wanted:
        file = quarantine.imported_settings(home)
        raise ConfigError("config.toml can't be edited automatically", hint=f"Copy the settings from {file}.")
    config_file.write(home.config_file, approved)
    quarantine.imported_settings(home).unlink(missing_ok=True)
    return sum(map(len, waiting.values()))


def not_waiting_error(name: str) -> NexusError:
    """Return the error for a name that isn't waiting for approval."""
    return NexusError(
        f"`{name}` isn't waiting for approval", hint="`nexus automations approve` lists what is."
    )
