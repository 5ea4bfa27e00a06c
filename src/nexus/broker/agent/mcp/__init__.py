"""Further tools, from servers that speak MCP."""

from nexus.broker.agent.mcp.servers import Servers

__all__ = ["Servers"]
