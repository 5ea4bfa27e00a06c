"""Libraries that are imported when they are needed, by several runs at once."""

import subprocess
import sys

_TOGETHER = """
import asyncio
from nexus.broker import agent

async def main():
    names = ["nexus.broker.agent.loop", "pydantic_ai", "openai", "pydantic_ai.models.openai",
             "nexus.broker.agent.model_requests", "nexus.gateway.mcp.server"]
    await asyncio.gather(agent.load_library(), *map(agent.import_module, names))

asyncio.run(main())
"""


def test_runs_that_begin_together_import_whole_modules() -> None:
    # In a process of its own: here everything is imported already.
    done = subprocess.run([sys.executable, "-c", _TOGETHER], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
