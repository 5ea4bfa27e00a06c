"""A running model server and the official clients, without retries of their own unless a test asks."""

from collections.abc import AsyncIterator

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from nexus.testing import ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def claude(server: ModelServer) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=server.url, api_key="sk-test-anthropic", max_retries=0) as client:
        yield client


@pytest.fixture
async def gpt(server: ModelServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.openai_url, api_key="sk-test-openai", max_retries=0) as client:
        yield client
