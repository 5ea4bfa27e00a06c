"""The context of a run: the system prompt, the role's own part, the task, and how they are put together."""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Self

from nexus import clock
from nexus.attachments import Attachment
from nexus.context.wrapping import quoted, wrap_quotes, wrapped
from nexus.errors import ConfigError
from nexus.home import Home
from nexus.request import Request
from nexus.serialization import decode


@dataclass(kw_only=True)
class AssembledContext:
    """One run's prompt. Automations may change it until the run is started.

    The system prompt and the tools are the same for everybody, so that their prefix stays cached:
    what is particular to a role goes to `role_context`, what is particular to a task to `current_message`.
    The history is read when the run begins, because an earlier run of the session may still add to it.
    """

    session_label: str
    role: str
    system_prompt: str
    tools: tuple[str, ...]
    current_message: str
    situation: str = ""
    """When and where this is said, for the model; the first lines of the user turn."""
    role_context: str = ""
    """Put before the current message, in the same user turn."""
    event_id: str | None = None
    message: dict[str, str | None] | None = None
    """The message as it came in, where this answers one: with it a lost event can be recorded again."""
    fork_of: str | None = None
    """The label of the session whose history this one begins with, where it is a fork."""
    fork_through: str | None = None
    """The run whose turn is the last one that a fork shares; None: the last one that has ended."""
    replaces: str | None = None
    """The run whose turn this one replaces, with all turns after it: they are left out of the history."""
    attachments: tuple[Attachment, ...] = ()
    """Files that came with the message. Images are shown to a model that reads them."""
    model: str = ""
    """Who answers, as `provider/model`; empty: the models of the role."""
    output_schema: dict[str, Any] | None = None
    """The JSON schema that the answer is asked to have, natively where the model takes one."""
    has_tools: bool = True
    """Whether the agent that answers a message is given its tools."""
    is_brief: bool = False
    """Whether a line or two is enough for an answer: no thinking, and at most 300 tokens."""
    max_turns: int | None = None
    timeout_ms: int | None = None
    tool_timeout_ms: int | None = None
    """How long one call of a sandboxed tool may take; None: as long as the sandbox allows."""
    knows_owner: bool = True
    """Whether the owner's profile is part of the prompt, where somebody with the owner's rights asks."""
    automation: str = ""
    """On whose account it runs, where an automation started it. The runtime says it, never a script."""
    invocation_id: str | None = None
    is_awaited: bool = False
    """Whether a person waits for the automation that started it. The runtime says it, never a script."""
    is_prepared: bool = True
    """False: what is missing is put together when the run begins, and recorded with it."""

    def prepend(self, text: str) -> None:
        """Put text before the current message: it belongs to this task and not to the session."""
        self.current_message = f"{text}\n\n{self.current_message}"

    def user_turn(self) -> str:
        """What the model is told now, whole."""
        return "\n\n".join(filter(None, (self.situation, self.role_context, self.current_message)))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Read one that may be of another version: what it says beside the known fields is left out."""
        return decode(cls, value)


def owner_file(home: Home) -> Path:
    """Where the owner of a home may add to the prompt."""
    return home.state / "PROMPT.md"


def system_prompt(home: Home) -> str:
    """The prompt of every agent of a home: the program's own, and what the owner adds. Blocking."""
    file = owner_file(home)
    try:
        added = file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        added = ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read: {error}",
            hint="Correct or remove the file; it adds to the system prompt.",
        ) from error
    return f"{own()}\n\n# From the owner\n\n{added}" if added else own()


def with_profile(prompt: str, profile: str) -> str:
    """The prompt with what is known about the owner. It stands last: what is before it stays cached."""
    return f"{prompt}\n\n# The owner\n\n{wrapped('owner_profile', profile)}" if profile else prompt


@cache
def own() -> str:
    """The program's own part of it."""
    return resources.files(__package__).joinpath("prompt.md").read_text(encoding="utf-8").strip()


async def assemble_context(
    home: Home,
    request: Request,
    *,
    session_label: str,
    task: str,
    tools: Iterable[str],
    role: str | None = None,
    fork_of: str | None = None,
    now: clock.Clock = clock.now,
) -> AssembledContext:
    """The context of one run on behalf of a request.

    The role decides the model; the session may be another than the request's, such as an automation's own.
    """
    return AssembledContext(
        session_label=session_label,
        role=role or request.agent.role,
        system_prompt=await asyncio.to_thread(system_prompt, home),
        tools=tuple(sorted(tools)),
        current_message=_attribute(request, task),
        situation=describe_situation(request, now),
        event_id=request.event.id if _is_the_message(request, session_label, task) else None,
        fork_of=fork_of,
    )


def _is_the_message(request: Request, session_label: str, task: str) -> bool:
    return session_label == request.agent.session_label and task == request.event.content


def _attribute(request: Request, task: str) -> str:
    """The owner's words are the task, and a worker's task is its own; anybody else's words are quoted."""
    is_message = request.parent_request_id is None and request.event.content == task
    if not is_message:
        return task
    if request.access.level == "owner":
        return wrap_quotes(task)
    return quoted(task, sender=request.event.sender_id, trust=request.access.level)


def describe_situation(request: Request, now: clock.Clock = clock.now) -> str:
    """When and where a request is said, for the model."""
    moment = now()
    lines = [f"{moment:%A} {moment:%Y-%m-%d %H:%M} UTC"]
    if request.event.channel:
        lines.append(f"channel: {request.event.channel}")
    granted = [f"{grant.path}{' (writable)' * grant.writable}" for grant in request.access.directories]
    if granted:
        lines.append(f"directories: {', '.join(granted)}")
    return wrapped("situation", "\n".join(lines))
