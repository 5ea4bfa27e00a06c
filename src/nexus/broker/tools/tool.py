"""What a tool is, independent of the library that runs the agent loop."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from nexus.broker.tools.sandbox import Sandbox
from nexus.errors import ToolError
from nexus.request import Request

Arguments = Mapping[str, Any]
Effect = Literal["send", "publish", "pay", "delete"]
"""What can't be taken back. A run that has read other people's text asks before it."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a tool: on whose behalf, in which run, and its own key, which a repetition shares."""

    request: Request
    execution_id: str
    session_label: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A worker as the run that dispatched it sees it."""

    id: str
    task: str
    status: str
    """`running`, or how it ended: done, failed, timeout, cancelled."""
    result: str | None = None
    """What it answered, or why it has no answer; None while it runs."""
    delivered: bool = False
    """Its result goes to another run, as a message."""


class Workers(Protocol):
    """The workers of a session. `worker` is an id; without one, all that have not been heard of are meant."""

    async def dispatch(self, call: Call, task: str, *, read_only: bool) -> Worker: ...

    async def status(self, call: Call, worker: str | None) -> list[Worker]: ...

    async def wait(self, call: Call, worker: str | None, timeout_ms: int) -> list[Worker]: ...

    async def cancel(self, call: Call, worker: str | None) -> list[Worker]: ...


@dataclass(frozen=True, kw_only=True)
class Context:
    """On whose behalf a tool runs: what may be touched, and where relative paths start."""

    sandbox: Sandbox
    directory: Path
    call: Call | None = None
    workers: Workers | None = None
    expected: str = ""
    """The state of a file that the owner was shown. A call that finds another one changes nothing."""

    @property
    def granted(self) -> str:
        return ", ".join(map(str, self.sandbox.grants)) or "nothing"


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a call would change, for the owner who is asked about it."""

    text: str = ""
    state: str = ""
    """SHA-256 of what it would change, and where that is."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One thing that an agent may do. `run` answers with text for the model, or raises ToolError."""

    name: str
    description: str
    # JSON Schema of an object: what the model is shown, and what `call` holds it to.
    parameters: Mapping[str, Any]
    run: Callable[[Arguments, Context], Awaitable[str]]
    # Whether a call that a crash cut short may simply be made again.
    repeatable: bool = False
    # The provider's own tool that takes its place where the model has one.
    native: Literal["", "web_search"] = ""
    effects: frozenset[Effect] = frozenset()
    # Whether it returns text that others may have written, such as a web page.
    reads_others: bool = False
    # Whether it returns memories by their ids, which tell whose words they rest on.
    reads_memory: bool = False
    preview: Callable[[Arguments, Context], Awaitable[Preview]] | None = None
    # Why the owner is asked before every call, whatever the settings say.
    asks: str = ""
    # False: only the provider's own tool does it, so other models are not offered it.
    is_local: bool = True

    def prepare(self, arguments: Arguments) -> Arguments:
        """The arguments as it will run with them; ToolError where they don't fit its schema."""
        given = drop_nulls(self.parameters, arguments)
        check(self.parameters, given)
        return given

    async def call(self, arguments: Arguments, context: Context) -> str:
        """Run with arguments that came from a model: checked first, because a model may send anything."""
        return await self.run(self.prepare(arguments), context)


_TYPES: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool}


def parameters(*required: str, **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a tool's arguments, which are texts, whole numbers and yes or no."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def drop_nulls(schema: Mapping[str, Any], arguments: Arguments) -> Arguments:
    """The arguments without those that may be left out and are null: many models name every argument."""
    required = schema.get("required", ())
    return {name: value for name, value in arguments.items() if value is not None or name in required}


def check(schema: Mapping[str, Any], arguments: Arguments) -> None:
    """Refuse arguments that do not fit, saying which and why."""
    properties: Mapping[str, Mapping[str, Any]] = schema["properties"]
    known = ", ".join(properties)
    for name in schema["required"]:
        if name not in arguments:
            raise ToolError(f"The argument `{name}` is missing", hint=f"Arguments: {known}.")
    for name, value in arguments.items():
        if name not in properties:
            raise ToolError(f"There is no argument `{name}`", hint=f"Arguments: {known}.")
        _check_value(name, value, properties[name])


def _check_value(name: str, value: object, rule: Mapping[str, Any]) -> None:
    if type(value) is not _TYPES[rule["type"]]:
        raise ToolError(f"`{name}` must be of type {rule['type']}, not {value!r:.80}")
    if isinstance(value, str):
        if "\0" in value and not rule.get("binary"):
            raise ToolError(f"`{name}` contains a zero byte")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ToolError(f"`{name}` is not valid Unicode text") from None
    if value not in rule.get("enum", (value,)):
        raise ToolError(f"`{name}` must be one of {', '.join(rule['enum'])}, not {value!r:.80}")
    if isinstance(value, int) and value < rule.get("minimum", value):
        raise ToolError(f"`{name}` must be at least {rule['minimum']}, not {value}")


def clip(text: str, most_characters: int) -> str:
    """The beginning and the end: what was done, and how it ended."""
    left_out = len(text) - most_characters
    if left_out <= 0:
        return text
    half = most_characters // 2
    return f"{text[:half]}\n[… {left_out} characters left out …]\n{text[-half:]}"
