"""Tools that are Python functions of installed packages.

A package offers one with an entry point in the group `nexus.tools`, whose name is the tool's. It runs in the
sandbox of agents' tools, in a process of its own, and not even its module is imported in this one. Only where
the owner's settings say so it runs in this process.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from nexus import bubblewrap, secrets, signatures
from nexus.broker.tools import function_program
from nexus.broker.tools.sandbox import Grant, Sandbox
from nexus.broker.tools.tool import Arguments, Context, Effect, Tool, clip, drop_nulls
from nexus.config import PythonToolConfig
from nexus.errors import NexusError, ToolError

GROUP: Final = "nexus.tools"
_SHOWN_CHARACTERS: Final = 256 * 1024
_DESCRIBE_MS: Final = 30_000

P = ParamSpec("P")
R = TypeVar("R")


class Options(TypedDict, total=False):
    """What a decorated tool may say of itself; see `tool`."""

    name: str
    description: str
    effects: frozenset[Effect]
    repeatable: bool
    reads_others: bool
    network: bool
    environment: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a tool says of itself, as JSON can hold it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    effects: tuple[Effect, ...] = ()
    repeatable: bool = False
    reads_others: bool = False
    network: bool = False
    environment: tuple[str, ...] = ()


class FunctionTool(Generic[P, R]):
    """A function that agents may call. Called in Python, it is that function."""

    def __init__(self, function: Callable[P, R], **options: Unpack[Options]) -> None:
        self.function = function
        self.options = options
        self.name = options.get("name") or getattr(function, "__name__", "tool")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def describe(self) -> Offer:
        """What agents and the owner are told about it."""
        given: dict[str, Any] = {"description": inspect.getdoc(self.function) or "", **self.options}
        given |= {"name": self.name, "effects": tuple(sorted(self.options.get("effects", ())))}
        return Offer(parameters=signatures.describe(self.function), **given)

    async def answer(self, arguments: Arguments) -> str:
        """Call it with arguments that came from a model; what it returns, as text."""
        given = signatures.read(self.function, arguments)
        call = cast("Callable[..., Any]", self.function)
        value: Any = (
            call(**given) if inspect.iscoroutinefunction(call) else await asyncio.to_thread(call, **given)
        )
        if inspect.isawaitable(value):
            value = await value
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(**options: Unpack[Options]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[Options]) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(network=True)`.

    Its name is the function's, its docstring tells the model what it does, and its signature which arguments
    it takes. It returns text, or what JSON can hold. An exception is told to the model.

    Options: `name` and `description`; `network` (true: it needs one) and `environment` (variables that it
    needs), which the owner must grant; `effects` (a set of `send`, `publish`, `pay`, `delete`: what can't be
    taken back, asked about in runs that read other people's text); `reads_others` (it returns text that
    others may have written); `repeatable` (a call that a crash cut short may simply be made again).
    """
    return partial(FunctionTool, **options) if function is None else FunctionTool(function, **options)


def load_offered(entry: EntryPoint) -> FunctionTool[..., Any]:
    """The tool that an entry point leads to; its module is imported in this process."""
    found = entry.load()
    if not isinstance(found, FunctionTool):
        raise ToolError(f"{entry.value} is not a tool", hint="Decorate the function with `@tool`.")
    found = cast("FunctionTool[..., Any]", found)
    if found.name != entry.name:
        raise ToolError(
            f"The entry point `{entry.name}` leads to a tool named `{found.name}`",
            hint="Give both the same name.",
        )
    return found


@dataclass(frozen=True, kw_only=True)
class Finder:
    """Finds the tools of installed packages."""

    settings: Mapping[str, PythonToolConfig]
    sandbox: Sandbox
    """Where they are asked what they are."""
    grant: Callable[[tuple[str, ...]], tuple[Grant, ...]]
    """Reads directories as the settings write them."""
    taken: Collection[str]
    """The names of other tools."""

    async def find(self) -> tuple[list[Tool], list[str]]:
        """The tools, and why those that aren't offered are not."""
        entries = {entry.name: entry for entry in await asyncio.to_thread(entry_points, group=GROUP)}
        wanted = [name for name in sorted(entries) if self._settings_of(name).run != "off"]
        found = await asyncio.gather(*(self._build(entries[name]) for name in wanted), return_exceptions=True)
        tools: list[Tool] = []
        problems: list[str] = []
        for name, each in zip(wanted, found, strict=True):
            if isinstance(each, Tool):
                tools.append(each)
            elif isinstance(each, Exception):  # one broken package must not keep the rest from running
                why = " ".join((f"{each.message}.", each.hint)) if isinstance(each, NexusError) else str(each)
                problems.append(f"tool {name} ({entries[name].value}): {why}")
            else:
                raise each
        problems += [
            f"tool {name}: no installed package has it. Remove [python_tools.{name}] or install the package"
            for name in sorted(self.settings.keys() - entries.keys())
        ]
        return tools, problems

    def _settings_of(self, name: str) -> PythonToolConfig:
        return self.settings.get(name, PythonToolConfig())

    async def _build(self, entry: EntryPoint) -> Tool:
        settings = self._settings_of(entry.name)
        if entry.name in self.taken:
            raise ToolError("Another tool has that name", hint="Rename it.")
        here = await asyncio.to_thread(load_offered, entry) if settings.run == "process" else None
        offer = here.describe() if here is not None else await _ask_about(entry, self.sandbox)
        if here is None:
            _check_granted(offer, settings)
        environment = await asyncio.to_thread(_read_environment, settings)
        granted = self.grant(settings.directories)

        async def run(arguments: Arguments, context: Context) -> str:
            try:
                if here is not None:
                    async with asyncio.timeout(settings.timeout_ms / 1000):
                        answer = await here.answer(arguments)
                else:
                    confined = _confine(context.sandbox, settings, granted, environment)
                    answer = (await _call(entry, confined, arguments, context.directory))["answer"]
            except TimeoutError:
                raise ToolError(f"`{entry.name}` took longer than {settings.timeout_ms} ms") from None
            except NexusError as error:
                raise ToolError(error.message, hint=error.hint) from None
            except Exception as error:  # whatever it raises is its answer
                raise ToolError(f"{type(error).__name__}: {error}".rstrip(": ")) from None
            return clip(secrets.redact(answer, set(environment.values())), _SHOWN_CHARACTERS)

        reaches_out = settings.network and here is None
        return SignedTool(
            name=offer.name,
            description=offer.description,
            parameters=offer.parameters,
            run=run,
            repeatable=offer.repeatable,
            # What it is given can leave through a network, whatever it says of itself.
            effects=frozenset(offer.effects or (("send",) if reaches_out else ())),
            reads_others=offer.reads_others or reaches_out,
        )


@dataclass(frozen=True, kw_only=True)
class SignedTool(Tool):
    """A tool whose function's signature checks its arguments when it is called."""

    def prepare(self, arguments: Arguments) -> Arguments:
        return drop_nulls(self.parameters, arguments)


def _check_granted(offer: Offer, settings: PythonToolConfig) -> None:
    """Refuse a tool that could not do its work for want of what the owner didn't grant."""
    section = f"[python_tools.{offer.name}]"
    if offer.network and not settings.network:
        raise ToolError("It needs a network", hint=f"Add `network = true` below {section}.")
    if missing := sorted(set(offer.environment) - settings.environment.keys()):
        raise ToolError(
            f"It needs the variables {', '.join(missing)}",
            hint=f'Add `environment = {{ {missing[0]} = "env:{missing[0]}" }}` below {section}.',
        )


def _read_environment(settings: PythonToolConfig) -> dict[str, str]:
    """The variables of a tool, with the secrets that their values name. Blocking."""
    read: dict[str, str] = {}
    for name, text in settings.environment.items():
        source = secrets.source_in(text)
        read[name] = text.removesuffix(source) + secrets.read(source) if source else text
    return read


def _confine(
    sandbox: Sandbox, settings: PythonToolConfig, granted: Iterable[Grant], environment: Mapping[str, str]
) -> Sandbox:
    """The sandbox of a call: what the agent's tools may reach, and what the owner granted to this tool."""
    return replace(
        sandbox,
        grants=(*sandbox.grants, *granted),
        network=sandbox.network or settings.network,
        environment={**sandbox.environment, **environment},
        limits=replace(sandbox.limits, timeout_ms=min(settings.timeout_ms, sandbox.limits.timeout_ms)),
    )


async def _ask_about(entry: EntryPoint, sandbox: Sandbox) -> Offer:
    """What a tool says of itself, in its own process."""
    confined = replace(sandbox, limits=replace(sandbox.limits, timeout_ms=_DESCRIBE_MS))
    return Offer(**(await _call(entry, confined, None, None))["offer"])


async def _call(
    entry: EntryPoint, sandbox: Sandbox, arguments: Arguments | None, directory: Path | None
) -> dict[str, Any]:
    """Run a tool in its own process. Without arguments it says what it is."""
    program, grants = bubblewrap.python_program(function_program.__file__)
    path = bubblewrap.import_path()
    shown = {grant.path for grant in (*sandbox.grants, *grants)}
    more = tuple(Grant(path=each) for each in bubblewrap.python_folders() if each not in shown)
    confined = replace(sandbox, grants=(*sandbox.grants, *grants, *more))
    asked = {"name": entry.name, "value": entry.value, "arguments": arguments}
    outcome = await confined.run([*program, *path], stdin=json.dumps(asked).encode(), directory=directory)
    if outcome.killed_by is not None:
        raise ToolError(f"`{entry.name}` was ended: too much {outcome.killed_by}")
    try:
        answer: dict[str, Any] = json.loads(outcome.stdout.rpartition(function_program.MARK)[2])
    except ValueError:
        printed = outcome.stderr.decode(errors="replace").strip()[-500:]
        raise ToolError(f"`{entry.name}` ended without an answer: {printed}") from None
    if "failed" in answer:
        raise ToolError(clip(answer["failed"], _SHOWN_CHARACTERS), hint=answer.get("hint", ""))
    return answer
