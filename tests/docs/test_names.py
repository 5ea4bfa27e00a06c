"""Files and settings that the documents name exist."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from nexus import config
from nexus.config import Config

_ROOT = Path(__file__).parents[2]
_PAGES = [*_ROOT.glob("*.md"), *(_ROOT / "docs").rglob("*.md")]
_BY_PAGE = pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
_FILE = re.compile(r"`((?:src|tests|bench|scripts|docs|examples)/[\w./-]+)`")
_SETTING = re.compile(r"`\[(\w+)\] (\w+)(?: = [^`]+)?`")
_TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


# A changelog names what was there at the time.
_OF_TODAY = [page for page in _PAGES if page.stem.lower() != "changelog"]


@pytest.mark.parametrize("page", _OF_TODAY, ids=lambda page: str(page.relative_to(_ROOT)))
def test_every_file_that_is_named_is_there(page: Path) -> None:
    for name in _FILE.findall(page.read_text(encoding="utf-8")):
        assert (_ROOT / name).exists(), name


@_BY_PAGE
def test_every_setting_that_is_named_is_one(page: Path) -> None:
    sections = {each.name: getattr(Config(), each.name) for each in fields(Config)}
    for section, name in _SETTING.findall(page.read_text(encoding="utf-8")):
        assert hasattr(sections[section], name), f"[{section}] {name}"


@_BY_PAGE
def test_settings_that_are_shown_can_be_read(page: Path, tmp_path: Path) -> None:
    for number, text in enumerate(_TOML.findall(page.read_text(encoding="utf-8"))):
        file = tmp_path / f"{number}.toml"
        file.write_text(text, encoding="utf-8")
        config.load(file)
