"""Settings are shown, secrets are not."""

from nexus.config import Config, EngineConfig, McpConfig, ProviderConfig
from nexus.gateway.views import settings


def test_no_secret_is_shown() -> None:
    config = Config(
        engine=EngineConfig(database="postgresql://me:hidden1@db.example/nexus?password=hidden2"),
        providers={"p": ProviderConfig(api_key="hidden3", headers={"X": "hidden4"})},
        mcp={"m": McpConfig(command="run", args=("--token", "hidden5"), env={"A": "hidden6"})},
    )
    told = settings.sections(config)
    assert "hidden" not in str(told)
    values = {(part.name, each.name): each.value for part in told for each in part.settings}
    assert values["engine", "database"] == "postgresql://db.example/nexus"
    assert values["providers.p", "api_key"] == "set"
    assert values["providers.p", "auth_token"] == "not set"


def test_a_changed_setting_is_told_from_a_default() -> None:
    told = {each.name: each for part in settings.sections(Config()) for each in part.settings}
    assert told["host_limit"].is_default
    changed = settings.sections(Config(engine=EngineConfig(host_limit=3)))
    told = {each.name: each for part in changed for each in part.settings}
    assert (told["host_limit"].value, told["host_limit"].is_default) == ("3", False)
