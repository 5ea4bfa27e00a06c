"""Settings: the file, the environment, and what is said of mistakes."""

import re
import tomllib
from dataclasses import FrozenInstanceError, asdict, replace
from pathlib import Path

import pytest

from nexus import config
from nexus.config import (
    CalendarConfig,
    ChannelConfig,
    Config,
    McpConfig,
    PriceConfig,
    ProviderConfig,
    PythonToolConfig,
)
from nexus.errors import ConfigError


def _written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_a_file_everything_is_at_its_default(tmp_path: Path) -> None:
    assert config.load(tmp_path / "config.toml", {}) == Config()


def test_the_template_parses_and_equals_the_defaults(tmp_path: Path) -> None:
    assert config.load(_written(tmp_path, config.template()), {}) == Config()


def test_the_template_shows_every_setting_at_its_default() -> None:
    shown = "\n".join(
        line.removeprefix("# ")
        for line in config.template().splitlines()
        if re.match(r"(# )?(\w+ = |\[)", line)
    )
    assert tomllib.loads(shown) == {
        "ledgers": asdict(Config().ledgers),
        "engine": asdict(Config().engine),
        "memory": asdict(Config().memory),
        "models": {**{role: [] for role in asdict(Config().models)}, "writer": ["manager"]},
        "providers": {"NAME": asdict(ProviderConfig())},
        "prices": {"NAME": asdict(PriceConfig())},
        "agents": asdict(Config().agents),
        "budgets": asdict(Config().budgets),
        "tools": {
            **asdict(Config().tools),
            "directories": [],
            "ask": [],
            "ask_when_tainted": list(Config().tools.ask_when_tainted),
        },
        "web": asdict(Config().web),
        "attachments": asdict(Config().attachments),
        "voice": asdict(Config().voice),
        "mcp": {"NAME": {**asdict(McpConfig()), "args": []}},
        "python_tools": {"NAME": {**asdict(PythonToolConfig()), "directories": []}},
        "channels": {"NAME": {**asdict(ChannelConfig()), "owner": [], "command": [], "token_command": []}},
        "automations": asdict(Config().automations),
        "followups": asdict(Config().followups),
        "calendar": {"NAME": asdict(CalendarConfig())},
        "brief": asdict(Config().brief),
        "gateway": {**asdict(Config().gateway), "hosts": []},
    }


def test_every_setting_is_described() -> None:
    described = {
        (section, entry.key) for section, about, entries in config.settings() for entry in entries if about
    }
    kinds = {
        "providers": ProviderConfig,
        "prices": PriceConfig,
        "calendar": CalendarConfig,
        "mcp": McpConfig,
        "python_tools": PythonToolConfig,
        "channels": ChannelConfig,
    }
    named = {name: {"NAME": asdict(kind())} for name, kind in kinds.items()}
    plain = {name: section for name, section in asdict(Config()).items() if name not in named}
    wanted = {**plain, **{f"{name}.NAME": tables["NAME"] for name, tables in named.items()}}
    assert described == {(name, key) for name, section in wanted.items() for key in section}
    assert all(entry.doc.endswith(".") for _, _, entries in config.settings() for entry in entries)


def test_a_value_of_the_file_counts(tmp_path: Path) -> None:
    loaded = config.load(_written(tmp_path, '[ledgers]\nbusy_timeout_ms = 5\nsynchronous = "normal"\n'), {})
    assert loaded.ledgers.busy_timeout_ms == 5
    assert loaded.ledgers.synchronous == "normal"
    assert loaded.ledgers.readers == Config().ledgers.readers


def test_a_variable_of_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = _written(tmp_path, "[ledgers]\nbusy_timeout_ms = 5\n")
    assert config.load(file, {"NEXUS_LEDGERS_BUSY_TIMEOUT_MS": "7"}).ledgers.busy_timeout_ms == 7


def test_the_configuration_cannot_be_changed_after_it_was_read() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().ledgers.readers = 9  # pyright: ignore[reportAttributeAccessIssue]  the refusal is what is tested


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[ledgers]\nbusy_timeout = 5", "`busy_timeout` is not a setting in [ledgers]", "`busy_timeout_ms`"),
        ("[ledger]\nreaders = 5", "`ledger` is not a section", "`ledgers`"),
        ("[ledgers]\nzzz = 5", "`zzz` is not a setting", "Known: busy_timeout_ms, synchronous"),
        ("[ledgers]\nreaders = 'four'", "[ledgers] readers must be of type int, not 'four'", ""),
        ("[ledgers]\nreaders = true", "[ledgers] readers must be of type int, not True", ""),
        ("[ledgers]\nreaders = 2.5", "[ledgers] readers must be of type int, not 2.5", ""),
        ("[ledgers]\nreaders = 0", "[ledgers] readers must be at least 1, not 0", ""),
        ("[ledgers]\nbusy_timeout_ms = -1", "busy_timeout_ms must be at least 0, not -1", ""),
        ("[ledgers]\nsynchronous = 'off'", "synchronous must be one of full, normal, not 'off'", ""),
        ("ledgers = 5", "[ledgers] must be a section, not a value", ""),
        ("[ledgers\n", "is not valid TOML", "delete the file"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_what_to_do(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    file = _written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        config.load(file, {})
    assert message in caught.value.message
    assert str(file) in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("NEXUS_LEDGERS_READERS", "many", "NEXUS_LEDGERS_READERS must be a number, not 'many'"),
        ("NEXUS_LEDGERS_READERS", "0", "NEXUS_LEDGERS_READERS must be at least 1, not 0"),
        (
            "NEXUS_LEDGERS_SYNCHRONOUS",
            "off",
            "NEXUS_LEDGERS_SYNCHRONOUS must be one of full, normal, not 'off'",
        ),
    ],
)
def test_a_mistake_in_a_variable_is_named(tmp_path: Path, variable: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path / "config.toml", {variable: text})
    assert caught.value.message == message


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not valid TOML"):
        config.load(file, {})


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.mkdir()
    with pytest.raises(ConfigError, match="Can't read"):
        config.load(file, {})


MODELS = """
[models]
manager = ["anthropic/claude-opus-5", "local/qwen"]
worker = "local/qwen"
[providers.local]
base_url = "http://localhost:8080/v1"
[providers.anthropic]
max_retries = 1
[prices."local/qwen"]
output_usd = 2
[mcp.notes]
command = "notes-server"
args = ["--read-only"]
env = { TOKEN = "env:NOTES_TOKEN" }
"""


def test_providers_and_servers_have_names_that_the_owner_chooses(tmp_path: Path) -> None:
    loaded = config.load(_written(tmp_path, MODELS), {})
    assert loaded.models.manager == ("anthropic/claude-opus-5", "local/qwen")
    assert loaded.models.worker == ("local/qwen",)
    assert loaded.providers["local"] == ProviderConfig(base_url="http://localhost:8080/v1")
    assert loaded.prices == {"local/qwen": PriceConfig(output_usd=2.0)}
    assert loaded.mcp["notes"].args == ("--read-only",)
    assert loaded.mcp["notes"].env == {"TOKEN": "env:NOTES_TOKEN"}


def test_a_provider_that_is_known_already_is_changed_only_where_the_file_says_so(tmp_path: Path) -> None:
    changed = config.load(_written(tmp_path, MODELS), {}).providers
    assert changed["anthropic"] == replace(Config().providers["anthropic"], max_retries=1)
    assert changed["openai"] == Config().providers["openai"]


def test_lists_and_named_sections_can_come_from_the_environment(tmp_path: Path) -> None:
    loaded = config.load(
        _written(tmp_path, MODELS),
        {
            "NEXUS_MODELS_MANAGER": "my_host/a, my_host/b",
            "NEXUS_PROVIDERS_MY_HOST_BASE_URL": "http://host/v1",
            "NEXUS_PROVIDERS_MY_HOST_HEADERS": "x-team=blue,x-more=env:MORE",
            "NEXUS_PROVIDERS_LOCAL_STALL_MS": "9",
            "NEXUS_BUDGETS_DAY_USD": "0.5",
        },
    )
    assert loaded.models.manager == ("my_host/a", "my_host/b")
    assert loaded.providers["my_host"].base_url == "http://host/v1"
    assert loaded.providers["my_host"].headers == {"x-team": "blue", "x-more": "env:MORE"}
    assert loaded.providers["local"] == ProviderConfig(base_url="http://localhost:8080/v1", stall_ms=9)
    assert loaded.budgets.day_usd == 0.5


def test_a_whole_number_is_a_number(tmp_path: Path) -> None:
    assert config.load(_written(tmp_path, "[budgets]\nday_usd = 3\n"), {}).budgets.day_usd == 3.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[providers]\nlocal = 3", "[providers.local] must be a section"),
        ("[providers.local]\nbase = 'x'", "`base` is not a setting in [providers.local]"),
        ("[models]\nmanager = [3]", "[models] manager must be a list of texts"),
        ("[mcp.notes]\nenv = { A = 3 }", "[mcp.notes] env must be a table of texts"),
        ("[budgets]\nday_usd = -1", "day_usd must be at least 0"),
        ("[budgets]\nday_usd = nan", "day_usd must be a finite number, not nan"),
        ('[prices."a/b"]\nfresh_usd = inf', "fresh_usd must be a finite number, not inf"),
    ],
)
def test_a_mistake_in_a_list_or_a_named_section_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(_written(tmp_path, text), {})
    assert message in caught.value.message


@pytest.mark.parametrize("key", ["api_key", "auth_token"])
def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(_written(tmp_path, f"[providers.anthropic]\n{key} = 'sk-very-secret'\n"), {})
    assert "must name where the secret is" in caught.value.message
    assert "sk-very-secret" not in str(caught.value)
    assert "env:ANTHROPIC_API_KEY" in caught.value.hint


@pytest.mark.parametrize(
    "line",
    [
        "headers = { Authorization = 'Bearer sk-very-secret' }",
        "headers = { x-api-key = 'sk-very-secret' }",
        "env = { NOTES_TOKEN = 'sk-very-secret' }",
    ],
)
def test_a_secret_in_a_header_or_a_variable_is_refused_and_not_repeated(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(_written(tmp_path, f"[mcp.notes]\n{line}\n"), {})
    assert "must name where the secret is" in caught.value.message
    assert "sk-very-secret" not in str(caught.value)


def test_a_header_may_have_a_word_before_its_secret_and_a_variable_that_is_none_stays(tmp_path: Path) -> None:
    text = """
[mcp.notes]
headers = { Authorization = "Bearer env:TOKEN" }
env = { MAX_TOKENS = "100" }
"""
    notes = config.load(_written(tmp_path, text), {}).mcp["notes"]
    assert (notes.headers["Authorization"], notes.env["MAX_TOKENS"]) == ("Bearer env:TOKEN", "100")


@pytest.mark.parametrize(
    ("section", "key", "url"),
    [
        ("providers.mine", "base_url", "https://me:hunter2-secret@models.example/v1"),
        ("providers.mine", "base_url", "https://hunter2-secret@models.example/v1"),
        ("mcp.notes", "url", "https://notes.example/mcp?token=hunter2-secret"),
        ("engine", "database", "postgresql://nexus:hunter2-secret@db/nexus"),
        ("gateway", "otlp_url", "http://localhost:4318/v1/traces?api_key=hunter2-secret"),
    ],
)
def test_a_url_with_a_credential_is_refused_and_not_repeated(
    tmp_path: Path, section: str, key: str, url: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[{section}]\n{key} = "{url}"\n')
    with pytest.raises(ConfigError, match="must not contain a password or token") as refused:
        config.load(file, {})
    assert "hunter2" not in f"{refused.value.message} {refused.value.hint}"


def test_a_url_may_name_variables_where_they_are_read_on_use(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[engine]\ndatabase = "postgresql://me:env:SECRET@db/nexus"\n'
        '[mcp.a]\nurl = "http://a/mcp?token=env:SECRET"\n'
        '[providers.b]\nbase_url = "https://me:env:SECRET@b/v1"\n'
    )
    loaded = config.load(file, {"SECRET": "hunter2-secret"})
    assert "hunter2" not in repr(loaded)
    file.write_text('[gateway]\notlp_url = "http://localhost/v1/traces?token=env:SECRET"\n')
    with pytest.raises(ConfigError, match="must not contain a password or token"):
        config.load(file, {})


def test_urls_without_a_credential_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[engine]\ndatabase = "postgresql://nexus@db/nexus"\n[mcp.a]\nurl = "http://a/mcp?page=2"\n'
    )
    assert config.load(file, {}).mcp["a"].url == "http://a/mcp?page=2"
    variable = {"NEXUS_ENGINE_DATABASE": "postgresql://nexus:secret@db/nexus"}
    assert config.load(file, variable).engine.database == variable["NEXUS_ENGINE_DATABASE"]
