"""The memory for agents elsewhere: an MCP server under /mcp of the gateway, and over standard input."""

from nexus.gateway.mcp.mount import join

__all__ = ["join"]
