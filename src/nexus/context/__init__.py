"""What an agent is shown: system prompt, tools, history, current message."""

from nexus.context.assemble import assemble_context
from nexus.context.assembled import AssembledContext

__all__ = ["AssembledContext", "assemble_context"]
