"""The gateway: a home's HTTP API, dashboard and MCP server, on loopback and for its owner alone."""
