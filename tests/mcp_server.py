"""A real MCP server for tests: `python mcp_server.py [http DESCRIPTOR]`, written with the official SDK."""

import os
import sys
import time
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("shelf")


@server.tool()
def put(thing: str, count: int = 1) -> str:
    """Put something on the shelf."""
    with Path(os.environ["SHELF"]).open("a", encoding="utf-8") as shelf:
        shelf.write(f"{thing}\n" * count)
    return f"{count} x {thing}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look() -> str:
    """What is on the shelf."""
    return Path(os.environ["SHELF"]).read_text(encoding="utf-8")


@server.tool()
def fail(reason: str) -> str:
    """Go wrong."""
    raise ToolError(reason)


@server.tool()
def tell_token() -> str:
    """What nobody should do: put a secret into an error."""
    raise ToolError(f"the token is {os.environ['TOKEN']}")


@server.tool()
def sleep() -> str:
    """Take too long."""
    time.sleep(60)
    return "awake"


@server.tool()
def die() -> str:
    """End the server in the middle of a call."""
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        uvicorn.run(server.streamable_http_app(), fd=int(sys.argv[2]), log_level="warning")
    elif sys.argv[1:2] == ["broken"]:
        sys.exit(f"no shelf; the token is {os.environ.get('TOKEN')}")
    elif sys.argv[1:2] == ["stuck"]:
        time.sleep(60)
    else:
        server.run("stdio")
