"""Which certificates providers and MCP servers are checked against."""

import ssl
from functools import cache

import httpx2


@cache
def ssl_context() -> ssl.SSLContext:
    """Those that the system trusts, for all clients of this process: reading them takes 20 to 90 ms."""
    return httpx2.create_ssl_context()
