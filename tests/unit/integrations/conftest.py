"""A memory in which two users have said something."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from nexus import AsyncMemory, Memory
from nexus.testing import ModelServer

QUESTION = "Where is the spare key?"
KEY = "The spare key hangs behind the fuse box"


@pytest.fixture
async def filled(tmp_path: Path) -> AsyncIterator[AsyncMemory]:
    async with AsyncMemory(tmp_path / "notes", create=True) as memory:
        await memory.add(KEY, scope="user:7")
        await memory.add("The spare key lies under the mat", scope="user:8")
        yield memory


@pytest.fixture
def filled_sync(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "notes", create=True) as memory:
        memory.add(KEY, scope="user:7")
        memory.add("The spare key lies under the mat", scope="user:8")
        yield memory


@pytest.fixture
async def gpt(server: ModelServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.openai_url, api_key="none", max_retries=0) as client:
        yield client
