"""What the doctor says about models."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from nexus.cli.doctor import examine
from nexus.cli.ledger_checks import Finding
from nexus.cli.status import status
from nexus.cli.usage import usage
from nexus.home import Home


def _found(home: Home) -> list[Finding]:
    return [finding for finding in examine(home, thorough=False) if finding.check == "models"]


def test_a_home_without_a_model_is_told_so_and_how_to_have_one(home: Home) -> None:
    (finding,) = _found(home)
    assert (finding.level, finding.message) == ("off", "No model configured")
    assert "[models]" in finding.remedy
    shown = CliRunner().invoke(status, obj=str(home.root)).output
    assert "model       none: run `nexus init` to choose one" in shown


def test_a_missing_key_is_a_warning_that_names_its_place(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_MODELS_MANAGER", "anthropic/claude-opus-5,ollama/qwen3")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (finding,) = _found(home)
    assert finding.level == "warning"
    assert "anthropic/claude-opus-5: No secret found at env:ANTHROPIC_API_KEY" in finding.message


def test_with_a_key_the_order_of_the_managers_models_is_shown(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("sk-secret", encoding="utf-8")
    monkeypatch.setenv("NEXUS_MODELS_MANAGER", "anthropic/claude-opus-5,ollama/qwen3")
    monkeypatch.setenv("NEXUS_PROVIDERS_ANTHROPIC_API_KEY", f"file:{tmp_path / 'key'}")
    (finding,) = _found(home)
    assert (finding.level, finding.message) == (
        "ok",
        "Manager: anthropic/claude-opus-5, then ollama/qwen3",
    )


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("claude", "Use the form `provider/model`."),
        ("nowhere/claude", "Use the form `provider/model`."),
        ("antropic/claude", "Did you mean `anthropic/claude`?"),
    ],
)
def test_a_name_that_is_no_model_is_a_warning(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str, remedy: str
) -> None:
    monkeypatch.setenv("NEXUS_MODELS_WORKER", name)
    found = _found(home)
    assert [finding.level for finding in found] == ["warning", "off"]
    assert found[0].remedy.startswith(remedy)


def test_a_built_in_model_is_no_server_that_cannot_be_reached(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The provider's address is not looked up, so any that refuses will do.
    monkeypatch.setenv("NEXUS_PROVIDERS_BUILTIN_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("NEXUS_MODELS_MANAGER", "builtin/qwen2.5-1.5b-instruct")
    assert [each for each in examine(home, thorough=False) if each.check == "servers"] == []


def test_a_model_that_no_budget_in_money_can_limit_is_a_warning_that_says_what_to_write(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXUS_MODELS_MANAGER", "far/large")
    monkeypatch.setenv("NEXUS_PROVIDERS_FAR_BASE_URL", "https://models.example/v1")
    found = [each for each in examine(home, thorough=False) if each.check == "budgets"]
    assert [each.level for each in found] == ["warning"]
    assert found[0].message == "`request_usd` in [budgets] can't limit far/large: its price is unknown"
    assert '[prices."far/large"]' in found[0].remedy
    home.config_file.write_text('[prices."far/large"]\nfresh_usd = 1\n', encoding="utf-8")
    assert [each for each in examine(home, thorough=False) if each.check == "budgets"] == []


def test_a_price_of_no_model_is_a_warning(home: Home) -> None:
    home.config_file.write_text("[prices.large]\nfresh_usd = 1\n", encoding="utf-8")
    messages = [each.message for each in _found(home)]
    assert "[prices.large] is not a model name" in messages


def test_usage_warns_of_it_in_a_sentence(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_MODELS_MANAGER", "far/large")
    monkeypatch.setenv("NEXUS_PROVIDERS_FAR_BASE_URL", "https://models.example/v1")
    shown = CliRunner().invoke(usage, obj=str(home.root))
    assert shown.exit_code == 0
    assert "Warning: `request_usd` in [budgets] can't limit far/large" in shown.stderr


def _memory(home: Home) -> str:
    found = [each.message for each in examine(home, thorough=False) if each.check == "memory"]
    return "\n".join(found)


def test_doctor_and_status_say_who_writes_the_memory_and_what_a_turn_costs(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXUS_MODELS_MANAGER", "anthropic/claude-opus-4-5")
    told = "anthropic/claude-opus-4-5 writes the memory: about 1,200 tokens a turn, $0.0080, "
    told += "and at most $1.00 a day to consolidate it"
    assert told in _memory(home), "the manager's model writes it where no writer is set"
    line = "memory      written by anthropic/claude-opus-4-5 after each turn"
    assert line in CliRunner().invoke(status, obj=str(home.root)).output
    monkeypatch.setenv("NEXUS_MODELS_WRITER", "ollama/qwen3")
    assert "ollama/qwen3 writes the memory: about 1,200 tokens a turn, free" in _memory(home)
    monkeypatch.setenv("NEXUS_MODELS_WRITER", "none")
    assert "The memory writer is off" in _memory(home)
    shown = CliRunner().invoke(status, obj=str(home.root)).output
    assert "memory      not written: the memory writer is off" in shown
