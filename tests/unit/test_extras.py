"""Optional packages: what is missing names itself, and what everybody installs stays small."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from nexus import extras
from nexus.errors import ConfigError, ModelFileError, ToolError
from nexus.history import parser_process
from nexus.memory.embedding import DEFAULT_MODEL, MODELS, find

_ROOT = Path(__file__).parents[2]
_MOST_PACKAGES = 57
"""With Nexus itself. A package that not everybody needs belongs to an extra."""
_EXTRAS: dict[str, list[str]] = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["optional-dependencies"]
_FOR_DEVELOPERS = {
    "all",
    "bench",
    "dev",
    "docs",
    "langgraph",
    "openai-agents",
    "recommended",
    "release",
    "testing",
}


def _required(lock: str) -> set[str]:
    """The names that a lock installs on this machine."""
    found: set[str] = set()
    for line in (_ROOT / lock).read_text(encoding="utf-8").splitlines():
        match = re.match(r"([\w.-]+)(?:\[[^]]*\])?==[^ ;\\]+(?: ; ([^\\]+))?", line)
        if match and (match[2] is None or Marker(match[2].strip()).evaluate()):
            found.add(match[1])
    return found


def _brought_by(name: str) -> set[str]:
    """The extras that an extra brings, itself included."""
    brought = {name}
    for line in _EXTRAS[name]:
        requirement = Requirement(line)
        if requirement.name == "nexus-runtime":
            brought |= {each for extra in requirement.extras for each in _brought_by(extra)}
    return brought


def _without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Hide modules as if their packages were not installed: Python finds none of that name."""
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
        for loaded in [name for name in sys.modules if name.startswith(f"{module}.")]:
            monkeypatch.delitem(sys.modules, loaded)


def test_the_least_install_has_few_packages() -> None:
    packages = _required("requirements.lock")
    assert len(packages) + 1 <= _MOST_PACKAGES, sorted(packages)


def test_the_least_install_has_none_of_the_heavy_packages() -> None:
    heavy = {"anthropic", "babel", "huggingface-hub", "lxml", "mcp", "onnxruntime", "openai", "tiktoken"}
    assert not heavy & _required("requirements.lock")
    assert heavy <= _required("requirements-recommended.lock")


def test_all_brings_every_extra_that_people_use() -> None:
    assert _brought_by("all") - {"all"} == set(_EXTRAS) - _FOR_DEVELOPERS | {"recommended"}


def test_recommended_is_what_init_offers_and_the_two_large_providers() -> None:
    assert _brought_by("recommended") == {*extras.RECOMMENDED, "anthropic", "openai", "recommended"}


def test_what_is_installed_is_found() -> None:
    assert extras.missing_recommended() == []
    assert extras.has_provider("google")
    assert extras.has_provider("azure")


def test_a_missing_extra_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "pypdf", "mcp")
    assert extras.missing_recommended() == ["pdf", "mcp"]
    with pytest.raises(ToolError) as refused:
        extras.require("pdf", "Reading PDF files", ToolError)
    assert refused.value.message == "Reading PDF files needs packages that aren't installed"
    assert refused.value.hint == "Run `pip install 'nexus-runtime[pdf]'`."


def test_a_provider_without_its_packages_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "google.genai", "openai")
    assert not extras.has_provider("google")
    assert not extras.has_provider("openrouter")
    assert extras.extra_of_provider("openrouter") == "openai"


def test_without_what_runs_a_model_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "onnxruntime")
    with pytest.raises(ModelFileError, match="Search by meaning") as refused:
        find(MODELS[DEFAULT_MODEL])
    assert "nexus-runtime[embedding]" in refused.value.hint


def test_a_calendar_without_its_package_is_refused_before_a_process_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _without(monkeypatch, "icalendar")
    with pytest.raises(ConfigError) as refused:
        parser_process.read_appointment(b"BEGIN:VEVENT\r\nEND:VEVENT\r\n")
    assert "nexus-runtime[import]" in refused.value.hint


def test_extras_are_installed_as_nexus_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert extras.install_command(["web"]) == [sys.executable, "-m", "pip", "install", "nexus-runtime[web]"]

    _without(monkeypatch, "pypdf", "pip")
    assert extras.install_command(["web"])[:4] == ["uv", "pip", "install", "--python"]

    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    receipt = '[tool]\nrequirements = [{ name = "nexus-runtime", extras = ["web", "anthropic"] }]\n'
    (tmp_path / "uv-receipt.toml").write_text(receipt, encoding="utf-8")
    wanted = "nexus-runtime[anthropic,pdf,web]"
    assert extras.install_command(["pdf"]) == ["uv", "tool", "install", wanted]
