"""What `nexus doctor` looks at in what the settings point to: files, servers, programs and the port."""

import shutil
import socket
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from urllib.parse import urlsplit

from nexus.cli.findings import Finding
from nexus.config import Config, GatewayConfig, McpConfig, MemoryConfig, ModelsConfig
from nexus.errors import GatewayError, NexusError
from nexus.home import Home
from nexus.serving import serving

_LOOK_S = 2.0


def examine(home: Home, loaded: Config) -> Iterator[Finding]:
    """Everything that is not where the settings say."""
    yield from _embedding(loaded.memory)
    yield from _model_servers(loaded)
    for name, server in loaded.mcp.items():
        yield from _mcp(name, server)
    yield from _port(home, loaded.gateway)


def _embedding(settings: MemoryConfig) -> Iterator[Finding]:
    # Imported here, because it brings numpy with it.
    from nexus.memory.embedding import chosen, find

    path = Path(settings.embedding_model_path).expanduser() if settings.embedding_model_path else None
    if path is not None and not path.exists():
        message = f"Embedding model not found at {path}"
        yield _missing("memory", message, "Fix or clear `embedding_model_path` in [memory] in config.toml.")
    try:
        found = find(chosen(settings), path=path)
    except NexusError as error:
        yield Finding(check="memory", level="error", message=error.message, remedy=error.hint)
    else:
        message = f"Embedding model: {found.model.name}"
        yield Finding(check="memory", level="ok", message=message)


def _model_servers(loaded: Config) -> Iterator[Finding]:
    """Servers of one's own that a role uses. The big providers are not asked: that would tell them of you."""
    models = [name for each in fields(ModelsConfig) for name in getattr(loaded.models, each.name)]
    for provider in sorted({name.partition("/")[0] for name in models} & loaded.providers.keys()):
        url = loaded.providers[provider].base_url
        trouble = _trouble(url) if url else ""
        if trouble:
            message = f"Can't reach the model server {provider} at {url}: {trouble}"
            where = f"`base_url` in [providers.{provider}] in config.toml"
            yield _missing("servers", message, f"Start it, or fix {where}.")


def _mcp(name: str, server: McpConfig) -> Iterator[Finding]:
    if server.url:
        trouble = _trouble(server.url)
        if trouble:
            message = f"Can't reach the MCP server `{name}` at {server.url}: {trouble}"
            yield _missing("mcp", message, f"Start it, or fix `url` in [mcp.{name}] in config.toml.")
    elif shutil.which(str(Path(server.command).expanduser())) is None:
        message = f"MCP server `{name}`: program not found: {server.command or 'none is named'}"
        yield _missing("mcp", message, f"Install it, or fix `command` in [mcp.{name}] in config.toml.")


def _port(home: Home, settings: GatewayConfig) -> Iterator[Finding]:
    """Whether `nexus up` could listen: without a port it takes a free one, and a served home has its own."""
    if not settings.port or serving(home) is not None:
        return
    # Imported here, because it brings the web server with it.
    from nexus.gateway.listener import bound

    try:
        bound(settings.host, settings.port).close()
    except GatewayError as error:
        yield Finding(check="gateway", level="warning", message=error.message, remedy=error.hint)


def _trouble(url: str) -> str:
    """Why nothing can be reached at an address, in the system's words; nothing where something can."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=_LOOK_S).close()
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return ""


def _missing(check: str, message: str, remedy: str) -> Finding:
    return Finding(check=check, level="warning", message=message, remedy=remedy)
