"""Homes that are made once for several of these tests."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from acceptance.program import nexus
from contract.storm.storm import seed_of_the_day


def pytest_report_header() -> str:
    return f"storms: seed {seed_of_the_day()}"


@pytest.fixture(scope="session")
def demo_month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of `nexus demo`, to read only. Processes that run the tests together share it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    home, is_made = shared / "demo" / "home", shared / "demo" / "made"
    home.parent.mkdir(exist_ok=True)
    with (shared / "demo" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made.exists():
            made = nexus(home, "demo", "--until", "2026-05-31T18:00Z")
            assert made.returncode == 0, made.stderr
            assert f"nexus --home {home} recall" in made.stdout
            is_made.touch()
    return home


@pytest.fixture
def demo_home(demo_month: Path, tmp_path: Path) -> Path:
    """A copy of it, to write to."""
    return Path(shutil.copytree(demo_month, tmp_path / "demo"))
