"""The agent room: models, their providers, the loop of requests and tool calls, and MCP servers.

Nothing outside imports the agent library or a provider's own. It is slow to import, so whoever runs no
agent imports `records` alone.
"""
