"""What an agent may do: tools, and the sandbox that every one of them runs in."""

from nexus.broker.tools.agent_send import AGENT_SEND
from nexus.broker.tools.files import BASH, EDIT, READ, WRITE
from nexus.broker.tools.sandbox import Grant, Limits, Outcome, Sandbox, availability
from nexus.broker.tools.tool import Call, Context, Effect, Preview, Tool, Worker, Workers

SANDBOXED = (BASH, READ, WRITE, EDIT)
TOOLS = (*SANDBOXED, AGENT_SEND)

__all__ = [
    "AGENT_SEND",
    "BASH",
    "SANDBOXED",
    "TOOLS",
    "Call",
    "Context",
    "Effect",
    "Grant",
    "Limits",
    "Outcome",
    "Preview",
    "Sandbox",
    "Tool",
    "Worker",
    "Workers",
    "availability",
]
