"""Fixtures for pytest; a conftest.py takes them with `pytest_plugins = ["nexus.testing.pytest_plugin"]`."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nexus.testing import ModelServer

if TYPE_CHECKING:
    from nexus.automations.kit import Kit

_PATIENCE_S = 120


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """A running model server with an empty script."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def kit(tmp_path: Path) -> "Kit":
    """Everything around one automation: workspace, peers, memory, clock, agents, delivered messages."""
    from nexus.automations.kit import Kit  # only tests that ask for it wait for its libraries

    folder = tmp_path / "kit"
    folder.mkdir()
    return Kit(folder=folder)


@pytest.fixture
def nexus(model_server: ModelServer, tmp_path: Path) -> Callable[..., str]:
    """The program in a new home whose models are on the model server: `nexus("run", "Hello")`."""
    variables = {
        **os.environ,
        "NEXUS_HOME": str(tmp_path / "home"),
        "NEXUS_MODELS_MANAGER": "test/any",
        "NEXUS_PROVIDERS_TEST_KIND": "openai",
        "NEXUS_PROVIDERS_TEST_BASE_URL": model_server.openai_url,
    }

    def run(*words: str) -> str:
        done = subprocess.run(  # noqa: S603 - the test's own words, to the program that is installed
            [shutil.which("nexus") or "nexus", *words],
            env=variables,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"nexus {' '.join(words)}: {done.stderr}")
        return done.stdout

    run("init")
    return run
