"""What an agent may do: tools, and the sandbox that every one of them runs in."""

from nexus.broker.tools.bash import BASH
from nexus.broker.tools.files import EDIT, READ, WRITE
from nexus.broker.tools.sandbox import Grant, Limits, Outcome, Sandbox, availability
from nexus.broker.tools.tool import Context, Tool

SANDBOXED = (BASH, READ, WRITE, EDIT)

__all__ = ["SANDBOXED", "Context", "Grant", "Limits", "Outcome", "Sandbox", "Tool", "availability"]
