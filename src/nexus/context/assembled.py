"""An assembled context: everything that one run of an agent needs to know, before it is queued."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from nexus.attachments import Attachment


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
    max_turns: int | None = None
    timeout_ms: int | None = None
    tool_timeout_ms: int | None = None
    """How long one call of a sandboxed tool may take; None: as long as the sandbox allows."""
    knows_owner: bool = True
    """Whether the owner's profile is part of the prompt, where somebody with the owner's rights asks."""
    automation: str = ""
    """On whose account it runs, where an automation started it. The runtime says it, never a script."""
    invocation_id: str | None = None

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
        attachments = tuple(map(Attachment.from_json, value.get("attachments", ())))
        fields: dict[str, Any] = {**value, "tools": tuple(value["tools"]), "attachments": attachments}
        return cls(**fields)
