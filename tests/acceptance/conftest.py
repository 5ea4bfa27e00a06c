"""Homes that are made once for several of these tests."""

import shutil
from pathlib import Path

import pytest

from acceptance.program import nexus


@pytest.fixture(scope="session")
def demo_month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of `nexus demo`, to read only."""
    home = tmp_path_factory.mktemp("demo") / "home"
    made = nexus(home, "demo", "--until", "2026-05-31T18:00Z")
    assert made.returncode == 0, made.stderr
    assert f"nexus --home {home} recall" in made.stdout
    return home


@pytest.fixture
def demo_home(demo_month: Path, tmp_path: Path) -> Path:
    """A copy of it, to write to."""
    return Path(shutil.copytree(demo_month, tmp_path / "demo"))
