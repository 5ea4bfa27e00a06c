"""What the doctor says about models."""

from pathlib import Path

import pytest

from nexus.cli.checks import examine
from nexus.cli.findings import Finding
from nexus.home import Home


def _found(home: Home) -> list[Finding]:
    return [finding for finding in examine(home, thorough=False) if finding.check == "models"]


def test_a_home_without_a_model_is_well_and_is_told_how_to_have_one(home: Home) -> None:
    (finding,) = _found(home)
    assert (finding.level, finding.message) == ("ok", "No model is set, so no agent can answer")
    assert "[models]" in finding.remedy


def test_a_missing_key_is_a_warning_that_names_its_place(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_MODELS_MANAGER", "anthropic/claude-opus-5,ollama/qwen3")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (finding,) = _found(home)
    assert finding.level == "warning"
    assert "anthropic/claude-opus-5: There is no secret at env:ANTHROPIC_API_KEY" in finding.message


def test_with_a_key_the_order_of_the_managers_models_is_shown(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("sk-secret", encoding="utf-8")
    monkeypatch.setenv("NEXUS_MODELS_MANAGER", "anthropic/claude-opus-5,ollama/qwen3")
    monkeypatch.setenv("NEXUS_PROVIDERS_ANTHROPIC_API_KEY", f"file:{tmp_path / 'key'}")
    (finding,) = _found(home)
    assert (finding.level, finding.message) == (
        "ok",
        "The manager is anthropic/claude-opus-5, then ollama/qwen3",
    )


@pytest.mark.parametrize("name", ["claude", "nowhere/claude"])
def test_a_name_that_is_no_model_is_a_warning(home: Home, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("NEXUS_MODELS_WORKER", name)
    assert [finding.level for finding in _found(home)] == ["warning", "ok"]
