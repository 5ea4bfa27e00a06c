"""The MCP servers of a home: their tools beside our own, each started when it is first needed."""

import asyncio
import importlib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from nexus import extras, secrets
from nexus.broker.tools import Context, Tool
from nexus.broker.tools.sandbox import Sandbox
from nexus.broker.tools.tool import Arguments, clip
from nexus.config import McpConfig
from nexus.errors import ConfigError, NexusError, ToolError

if TYPE_CHECKING:
    from nexus.broker.agent.mcp.connection import Connection


import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

from nexus import ids
from nexus.broker.tools.tool import Effect
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE

# What providers accept as the name of a tool.
_NAME_CHARACTERS = 64
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_MARK_CHARACTERS = 8
_log = logging.getLogger(__name__)
# As much as `read` shows of a file: a server may send any amount.
_SHOWN_CHARACTERS = 256 * 1024
_NAMES: Final[dict[Effect, re.Pattern[str]]] = {
    "send": re.compile(
        r"send|e?mail|message|msg|sms|dm|reply|respond|forward|share|invite|notify|upload|submit"
    ),
    "publish": re.compile(r"publish|post|tweet|toot|comment|deploy|release|push|announce|broadcast|merge"),
    "pay": re.compile(
        r"pay|payment|transfer|buy|purchase|order|checkout|donate|withdraw|refund|charge|trade|bid|book"
    ),
    "delete": re.compile(
        r"delete|del|remove|rm|drop|destroy|purge|erase|trash|wipe|unlink|clear|empty|cancel|revoke"
    ),
}
_READS: Final = re.compile(
    r"get|list|read|search|find|fetch|count|show|describe|query|view|lookup|check|watch|browse|download|"
    r"preview|draft|summarize|look|inspect|explain|analyze|calculate|compute|convert|translate|validate|compare|"
    r"estimate|resolve|has|is"
)
# Also after one of those words they say what is done: `get_and_delete`.
_CERTAIN: Final = re.compile(r"send|reply|forward|publish|pay|buy|purchase|delete|remove|destroy|purge|erase")
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One tool of a server."""

    name: str
    description: str
    parameters: dict[str, Any]
    repeatable: bool
    is_read_only: bool = False
    is_destructive: bool = False

    def name_in(self, server: str) -> str:
        """Its name among all tools: `SERVER__TOOL`, changed and marked where no provider would accept it."""
        name = f"{server}__{self.name}"
        accepted = _OTHER.sub("_", name)
        if accepted == name and len(name) <= _NAME_CHARACTERS:
            return name
        # Without a mark, two names that differ only in what was changed would be one, and one tool lost.
        return f"{accepted[: _NAME_CHARACTERS - _MARK_CHARACTERS - 1]}_{_hash(name)[:_MARK_CHARACTERS]}"


def source_of(config: McpConfig) -> str:
    """What tells one server from another that has its name in the settings."""
    return _hash(json.dumps([config.command, *config.args, config.url]))


def read_offers(path: Path, wanted: str) -> list[Offer] | None:
    """What the server of a source offered last; None where that is not known. Blocking."""
    try:
        kept: Any = json.loads(path.read_text(encoding="utf-8"))
        return [Offer(**entry) for entry in kept["tools"]] if kept["source"] == wanted else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_offers(path: Path, source: str, offers: Iterable[Offer]) -> None:
    """Keep what a source offers now, complete or not at all. Blocking."""
    path.parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    new = path.with_name(f".{path.name}.{ids.new('new')}")
    new.touch(mode=PRIVATE_FILE)
    kept = {"source": source, "tools": [asdict(offer) for offer in offers]}
    new.write_text(json.dumps(kept, indent=2), encoding="utf-8")
    new.replace(path)


def argument_names(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """The arguments that a server's schema knows; None where it takes any."""
    names = set[str]()
    open_ = [schema]
    seen = list[Any]()
    while open_:
        part = open_.pop()
        if part in seen:
            continue
        seen.append(part)
        if part.get("additionalProperties") or part.get("patternProperties"):
            return None
        names |= part.get("properties", {}).keys()
        open_ += [each for key in ("allOf", "anyOf", "oneOf") for each in part.get(key, ()) if each]
        if str(part.get("$ref", "")).startswith("#/"):
            target: Any = schema
            for step in part["$ref"][2:].split("/"):
                target = target.get(step, {})
            open_.append(target)
    is_silent = not names and schema.get("additionalProperties") is not False and "properties" not in schema
    return None if is_silent else frozenset(names)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ServerTool(Tool):
    """A tool of a server, which checks its arguments itself: only unknown ones are refused here."""

    reads_others: bool = True

    def prepare(self, arguments: Arguments) -> Arguments:
        known = argument_names(self.parameters)
        for name in arguments:
            if known is not None and name not in known:
                told = ", ".join(sorted(known)) or "none"
                raise ToolError(f"There is no argument `{name:.80}`", hint=f"Arguments: {told}.")
        return arguments


class Servers:
    """The servers that the settings name."""

    def __init__(
        self,
        configs: Mapping[str, McpConfig],
        state: Path,
        environ: Mapping[str, str] = os.environ,
        sandbox: Sandbox | None = None,
    ) -> None:
        confined = sandbox or Sandbox()
        self._servers = {
            name: _Server(name, config, state / "mcp" / f"{name}.json", environ, confined)
            for name, config in sorted(configs.items())
        }

    async def tools(self) -> list[Tool]:
        """The tools of every server, in a stable order.

        What a server offered last is used; one that was never asked is started now. One that cannot be has no
        tools until it can.
        """
        found = await asyncio.gather(*(server.tools() for server in self._servers.values()))
        return [tool for tools in found for tool in tools]

    async def close(self) -> None:
        """End every connection."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Server:
    def __init__(
        self, name: str, config: McpConfig, cache: Path, environ: Mapping[str, str], sandbox: Sandbox
    ) -> None:
        self._sandbox = sandbox
        self._name = name
        self._config = config
        self._cache = cache
        self._source = source_of(config)
        self._environ = environ
        self._starting = asyncio.Lock()
        self._connection: Connection | None = None
        self._secrets: set[str] = set()

    async def tools(self) -> list[Tool]:
        offers = await asyncio.to_thread(read_offers, self._cache, self._source)
        if offers is None:
            try:
                await self._connect()
            except NexusError as error:
                _log.warning("%s", secrets.redact(str(error), self._secrets))
            offers = await asyncio.to_thread(read_offers, self._cache, self._source)
        return [self._tool(one) for one in offers or []]

    async def close(self) -> None:
        async with self._starting:
            if self._connection is not None:
                await self._connection.close()
                self._connection = None

    def _tool(self, one: Offer) -> Tool:
        async def run(arguments: Arguments, context: Context) -> str:
            return await self._call(one.name, arguments)

        return ServerTool(
            name=one.name_in(self._name),
            description=one.description,
            parameters=one.parameters,
            run=run,
            repeatable=one.repeatable,
            effects=guess_effects(one.name, is_read_only=one.is_read_only, is_destructive=one.is_destructive),
        )

    async def _call(self, tool: str, arguments: Arguments) -> str:
        try:
            connection = await self._connect()
            return self._clip(await connection.call(tool, dict(arguments)))
        except NexusError as error:
            raise ToolError(self._clip(error.message), hint=error.hint) from None

    def _clip(self, text: str) -> str:
        return clip(secrets.redact(text, self._secrets), _SHOWN_CHARACTERS)

    async def _connect(self) -> "Connection":
        async with self._starting:
            if self._connection is None or not self._connection.alive:
                self._connection = None
                connection = await self._make_connection()
                offers = await connection.open()
                await asyncio.to_thread(write_offers, self._cache, self._source, offers)
                self._connection = connection
            return self._connection

    async def _make_connection(self) -> "Connection":
        if bool(self._config.command) == bool(self._config.url):
            raise ConfigError(
                f"[mcp.{self._name}] must have either a `command` or a `url`", hint="Fix config.toml."
            )
        env = {name: await self._value(value) for name, value in self._config.env.items()}
        headers = {name: await self._value(value) for name, value in self._config.headers.items()}
        address = await asyncio.to_thread(secrets.address, self._config.url, self._environ)
        self._secrets.update(address.secrets)
        extras.require("mcp", f"[mcp.{self._name}]")
        # The client takes a while to import, so it is when a server is needed, and beside the loop.
        module: Any = await asyncio.to_thread(importlib.import_module, "nexus.broker.agent.mcp.connection")
        make: Callable[..., Connection] = module.Connection
        config = replace(self._config, url=address.url)
        if config.command and config.sandbox:
            confined = replace(self._sandbox, environment=env)
            [command, *args], env = confined.command([config.command, *config.args])
            config = replace(config, command=command, args=tuple(args))
        auth = None
        if config.oauth:
            oauth: Any = await asyncio.to_thread(importlib.import_module, "nexus.broker.agent.mcp.oauth")
            keeper = oauth.Keeper(source=config.oauth, note_secrets=self._secrets.update)
            auth = oauth.Auth(self._name, config.url, keeper)
        return make(self._name, config, env, headers, auth)

    async def _value(self, text: str) -> str:
        source = secrets.source_in(text)
        if not source:
            return text
        secret = await asyncio.to_thread(secrets.read, source, self._environ)
        self._secrets.add(secret)
        return text.removesuffix(source) + secret


def guess_effects(name: str, *, is_read_only: bool, is_destructive: bool) -> frozenset[Effect]:
    """What a tool does, by its name and what its server says of it.

    A tool that neither its server nor its name says to read only may send what it is given.
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    reads = is_read_only or bool(words and _READS.fullmatch(words[0]))
    if reads:
        words = [word for word in words if _CERTAIN.fullmatch(word)]
    found: set[Effect] = {effect for effect, names in _NAMES.items() if any(map(names.fullmatch, words))}
    if is_destructive and not is_read_only:
        found.add("delete")
    if not found and not reads:
        found.add("send")
    return frozenset(found)
