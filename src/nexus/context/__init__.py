"""What an agent is shown: system prompt, tools, history, current message."""

from nexus.context.assemble import AssembledContext, assemble_context

__all__ = ["AssembledContext", "assemble_context"]
