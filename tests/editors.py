"""An editor that speaks the Agent Client Protocol, with the protocol's own client."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema
from acp.agent.connection import AgentSideConnection
from acp.client.connection import ClientSideConnection

from acceptance.program import NEXUS
from nexus.cli.acp_agent import EditorAgent
from nexus.home import Home

_LINE_BYTES = 64 * 1024 * 1024


class Editor:
    """Keeps what it is shown, and answers what it is asked."""

    def __init__(self, *choices: str) -> None:
        self.updates: list[Any] = []
        self.questions: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.choices = list(choices)
        """What it answers to each question, by the id of the option; then it leaves them open."""
        self.changed = asyncio.Event()

    async def session_update(self, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.changed.set()

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        self.questions.append((tool_call, options))
        self.changed.set()
        if not self.choices:
            await asyncio.Event().wait()
        chosen = schema.AllowedOutcome(outcome="selected", option_id=self.choices.pop(0))
        return schema.RequestPermissionResponse(outcome=chosen)

    def of_kind(self, kind: str) -> list[Any]:
        """What it was shown of a kind, in order."""
        return [each for each in self.updates if each.session_update == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """What was said to it."""
        return "".join(each.content.text for each in self.of_kind(kind))

    async def until(self, done: Callable[[], object]) -> None:
        """Wait for what it is shown or asked."""
        async with asyncio.timeout(120):
            while not done():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def editor_of(
    home: Home, env: dict[str, str], editor: Editor, *arguments: str
) -> AsyncGenerator[tuple[ClientSideConnection, asyncio.subprocess.Process]]:
    """A real `nexus acp`, as an editor starts it."""
    command = [str(NEXUS), "--home", str(home.root), "acp", *arguments]
    async with acp.spawn_agent_process(
        cast("acp.Client", editor), *command, env=env, transport_kwargs={"limit": _LINE_BYTES, "stderr": None}
    ) as (agent, process):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        yield agent, process


@asynccontextmanager
async def editor_with(agent: EditorAgent, editor: Editor) -> AsyncGenerator[ClientSideConnection]:
    """An editor that is connected to an agent in this process."""
    ends = [await asyncio.open_connection(sock=end, limit=_LINE_BYTES) for end in socket.socketpair()]
    (there, to_there), (here, to_here) = ends
    served = AgentSideConnection(cast("acp.Agent", agent), to_there, there)
    connected = acp.connect_to_agent(cast("acp.Client", editor), to_here, here)
    try:
        await connected.initialize(protocol_version=acp.PROTOCOL_VERSION)
        yield connected
    finally:
        await connected.close()
        await served.close()
        for writer in (to_there, to_here):
            writer.close()
            await writer.wait_closed()


def message(text: str, files: Mapping[Path, str] = {}) -> list[Any]:
    """A message, and the files that a person mentions in it."""
    mentioned = [acp.embedded_text_resource(path.as_uri(), said) for path, said in files.items()]
    return [acp.text_block(text), *map(acp.resource_block, mentioned)]
