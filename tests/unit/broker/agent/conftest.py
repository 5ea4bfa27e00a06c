"""A run of the loop in each wire format."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_runs import Run
from nexus.testing import ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture(params=["anthropic", "openai"])
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def made(server: ModelServer, wire: str, tmp_path: Path) -> Callable[..., Run]:
    def make(**changes: Any) -> Run:
        return Run(server, tmp_path, wire, **changes)

    return make
