"""What `nexus doctor` checks around the home: file permissions, and what it must reach."""

import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from nexus.cli.ledger_checks import Finding
from nexus.config import Config, GatewayConfig, McpConfig, MemoryConfig
from nexus.errors import ConfigError, GatewayError, NexusError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE, Home
from nexus.pipeline.access import directory
from nexus.serving import serving

_LOOK_S = 2.0


def closed(home: Home) -> Iterator[Finding]:
    """A folder that you yourself cannot enter or write: nothing behind it can be looked at."""
    for path in (home.root, home.data, home.state, home.logs, home.run):
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield Finding(
                check="permissions",
                level="error",
                message=f"{path} cannot be reached: {error.strerror}",
                remedy=f"Check its parent folders: `namei -l '{path}'`.",
            )
            return
        if stat.S_ISDIR(mode) and mode & PRIVATE_DIRECTORY != PRIVATE_DIRECTORY:
            yield _closed(path, PRIVATE_DIRECTORY)
            return


def examine_permissions(home: Home) -> Iterator[Finding]:
    """What others can reach, what you cannot, and what belongs to somebody else."""
    wanted = list(_wanted(home))
    foreign = [path for path, _ in wanted if path.stat().st_uid != os.getuid()]
    wrong = [finding for path, mode in wanted for finding in _compared(path, mode)]
    yield from wrong
    for path in foreign:
        yield Finding(
            check="permissions",
            level="warning",
            message=f"{path} belongs to another user (uid {path.stat().st_uid})",
            remedy=f"Run `sudo chown -R $(id -u) '{home.root}'`.",
        )
    if not wrong and not foreign:
        yield Finding(check="permissions", level="ok", message="Only you have access")


def grants(home: Home, loaded: Config) -> Iterator[Finding]:
    """Directories granted to agents that hold the home."""
    root = home.root.resolve()
    for text in loaded.tools.directories:
        try:
            place = Path(directory(text).path).resolve()
        except ConfigError as error:
            yield Finding(check="grants", level="error", message=error.message, remedy=error.hint)
            continue
        if root.is_relative_to(place):
            yield Finding(
                check="grants",
                level="warning",
                message=f"`{text}` in [tools] directories contains the home; agents see {root} as empty",
                remedy="Grant only the directories in it that agents need.",
            )


def secret_files(loaded: Config) -> Iterator[Finding]:
    """Files outside of the home that hold keys."""
    sources = {
        source for each in loaded.providers.values() for source in (each.api_key, each.auth_token) if source
    }
    for source in sorted(sources):
        kind, _, place = source.partition(":")
        path = Path(place).expanduser()
        if kind == "file" and path.is_file() and path.stat().st_uid == os.getuid():
            yield from _compared(path, PRIVATE_FILE)


def _wanted(home: Home) -> Iterator[tuple[Path, int]]:
    files = [home.config_file, home.lock_file, home.token_file, *home.data.iterdir()]
    folders = [*home.directories, home.secrets]
    yield from ((path, PRIVATE_DIRECTORY) for path in folders if path.is_dir())
    yield from ((path, PRIVATE_FILE) for path in files if path.is_file())


def _compared(path: Path, wanted: int) -> Iterator[Finding]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & wanted != wanted:
        yield _closed(path, wanted)
    elif mode & 0o077:
        yield Finding(
            check="permissions",
            level="error",
            message=f"{path} is accessible to other users ({stat.filemode(path.stat().st_mode)})",
            remedy=f"Run `nexus doctor --fix` or `chmod {wanted:o} '{path}'`.",
            fix=lambda: path.chmod(wanted),
        )


def _closed(path: Path, wanted: int) -> Finding:
    return Finding(
        check="permissions",
        level="error",
        message=f"No read and write access to {path} ({stat.filemode(path.stat().st_mode)})",
        remedy=f"Run `nexus doctor --fix` or `chmod {wanted:o} '{path}'`.",
        fix=lambda: path.chmod(wanted),
    )


def examine_reach(home: Home, loaded: Config) -> Iterator[Finding]:
    """Everything that is not where the settings say."""
    yield from _embedding(loaded.memory)
    yield from _model_servers(loaded)
    for name, server in loaded.mcp.items():
        yield from _mcp(name, server)
    yield from _port(home, loaded.gateway)


def _embedding(settings: MemoryConfig) -> Iterator[Finding]:
    # Imported here, because it brings numpy with it.
    from nexus.memory.embedding import choose_model, find

    path = Path(settings.embedding_model_path).expanduser() if settings.embedding_model_path else None
    if path is not None and not path.exists():
        message = f"Embedding model not found at {path}"
        yield _missing("memory", message, "Fix or clear `embedding_model_path` in [memory] in config.toml.")
    try:
        found = find(choose_model(settings), path=path)
    except NexusError as error:
        yield Finding(check="memory", level="error", message=error.message, remedy=error.hint)
    else:
        message = f"Embedding model: {found.model.name}"
        yield Finding(check="memory", level="ok", message=message)


def _model_servers(loaded: Config) -> Iterator[Finding]:
    """Servers of one's own that a role uses. The big providers are not asked: that would tell them of you."""
    for provider in sorted(
        {name.partition("/")[0] for name in loaded.models.roles} & loaded.providers.keys()
    ):
        known = loaded.providers[provider]
        # A built-in model has no server until it is asked something.
        url = known.base_url if known.kind != "builtin" else ""
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
