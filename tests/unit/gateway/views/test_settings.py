"""Settings are shown, secrets are not."""

from dataclasses import fields, replace
from typing import Any

import pytest

from nexus.config import (
    CalendarConfig,
    ChannelConfig,
    Config,
    EngineConfig,
    GatewayConfig,
    McpConfig,
    PriceConfig,
    ProviderConfig,
    PythonToolConfig,
)
from nexus.gateway.views import settings


def test_no_secret_is_shown() -> None:
    config = Config(
        engine=EngineConfig(database="postgresql://me:hidden1@db.example/nexus?password=hidden2"),
        providers={"p": ProviderConfig(api_key="hidden3", headers={"X": "hidden4"})},
        mcp={"m": McpConfig(command="run", args=("--token", "hidden5"), env={"A": "hidden6"})},
    )
    told = settings.list_sections(config)
    assert "hidden" not in str(told)
    values = {(part.name, each.name): each.value for part in told for each in part.settings}
    assert values["engine", "database"] == "postgresql://db.example/nexus"
    assert values["providers.p", "api_key"] == "set"
    assert values["providers.p", "auth_token"] == "not set"


def test_a_changed_setting_is_told_from_a_default() -> None:
    told = {each.name: each for part in settings.list_sections(Config()) for each in part.settings}
    assert told["host_limit"].is_default
    changed = settings.list_sections(Config(engine=EngineConfig(host_limit=3)))
    told = {each.name: each for part in changed for each in part.settings}
    assert (told["host_limit"].value, told["host_limit"].is_default) == ("3", False)


_SECTIONS = {
    **{f.name: getattr(Config(), f.name) for f in fields(Config)},
    "providers": ProviderConfig(),
    "prices": PriceConfig(),
    "mcp": McpConfig(),
    "channels": ChannelConfig(),
    "calendar": CalendarConfig(),
    "python_tools": PythonToolConfig(),
}
_TEXTS = [
    (section, f.name)
    for section, made in _SECTIONS.items()
    for f in fields(made)
    if isinstance(getattr(made, f.name), str | tuple)
]


@pytest.mark.parametrize(("section", "name"), _TEXTS)
@pytest.mark.parametrize(
    "address",
    [
        "https://me:hidden@host.example/path?key=hidden#hidden",
        "https://me:hid?hidden@host.example/path",
        "https://me:hid/hidden@host.example/path",
        "https://[hidden/path",
    ],
)
def test_no_setting_shows_what_is_secret_in_an_address(section: str, name: str, address: str) -> None:
    made: Any = _SECTIONS[section]
    value = (address,) if isinstance(getattr(made, name), tuple) else address
    part = replace(made, **{name: value})
    named = {"x": part} if isinstance(getattr(Config(), section), dict) else part
    told = settings.list_sections(replace(Config(), **{section: named}))
    assert "hid" not in str([each.value for part in told for each in part.settings])


def test_words_of_a_connection_are_not_shown() -> None:
    told = settings.list_sections(Config(engine=EngineConfig(database="host=db.example password=hidden")))
    assert "hidden" not in str(told)


def test_the_place_of_a_collector_is_shown() -> None:
    config = Config(gateway=GatewayConfig(otlp_url="https://me:hidden@traces.example:4318/v1/traces"))
    assert "'https://traces.example:4318/v1/traces'" in str(settings.list_sections(config))
