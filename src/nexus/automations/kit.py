"""What tests of automations stand on, without a home, a memory or a model.

A test says what lies in the workspace, what is recalled, what agents answer and what time it is, runs the
script, and sees what it asked for, sent and remembered.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nexus import clock
from nexus.automations import hook_points, returned, services, trial, workspace
from nexus.automations.context import Handler, Run
from nexus.automations.loading import Plugin
from nexus.automations.returned import Reply
from nexus.automations.workspace import Peer, Workspace
from nexus.context import AssembledContext
from nexus.errors import AutomationError
from nexus.ledgers.runtime.automations import DEFAULT_HOOK_POINT
from nexus.memory.recall.item import Item, Match, Matches, Reasons
from nexus.request import Access, Request
from nexus.runs import FinishedRun, Response, Result

_OWN = "automation"


@dataclass(kw_only=True)
class Kit:
    """Everything around one automation, made up by its test.

    `kit.memories.append("The tea is in the blue tin")`, `kit.answers.append("Tea at four")`, then
    `kit.run(SCRIPT, "Where is the tea?")`.
    """

    folder: Path
    """An empty folder, for the workspaces."""
    now: datetime = datetime(2026, 5, 1, 9, tzinfo=UTC)
    """What `ctx.now()` says."""
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    """The automation's own settings."""
    memories: list[str | Match] = field(default_factory=list[str | Match])
    """What `ctx.recall` finds, best first: texts of facts, or whole matches."""
    answers: list[str] = field(default_factory=list[str])
    """What agents answer, one after another."""
    questions: list[str] = field(default_factory=list[str])
    """What was asked of the memory."""
    prompts: list[AssembledContext] = field(default_factory=list[AssembledContext])
    """What agents were asked."""
    sent: list[Reply] = field(default_factory=list[Reply])
    """The messages that were delivered, each with its `text`, `session` and `channel`."""
    remembered: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What was handed to the memory's write gate."""

    def __post_init__(self) -> None:
        workspace.bootstrap(self.folder / _OWN, "# Role\n")
        self._peers: dict[str, Path] = {}

    @property
    def workspace(self) -> Workspace:
        """The automation's workspace."""
        return Workspace.at(self.folder / _OWN, self._peers)

    def peer(self, name: str) -> Peer:
        """The workspace of a peer, which is made when it is first named."""
        if name not in self._peers:
            self._peers[name] = self.folder / f"peer-{name}"
            workspace.bootstrap(self._peers[name], f"# {name}\n")
        return self.workspace.peers[name]

    def forward(self, **time: float) -> None:
        """Move the clock: `kit.forward(days=1)`."""
        self.now += timedelta(**time)

    def run(
        self,
        script: Path | str | Handler,
        content: str = "",
        *,
        hook_point: str | None = None,
        answer: str | None = None,
        **given: Any,
    ) -> Any:
        """Run a script, or a decorated function, on a message of the owner's; what it returned.

        A decorated function runs at its own hook point, others at `runAutomations` where none is given.
        `answer` is what the agent has answered, at hook points after its turn. What a hook point doesn't
        allow, and what nobody would read, is an error.
        """
        if answer is not None:
            response = Response(content=answer)
            given["result"] = Result(execution_id="exe_test", session_label="main", response=response)
        decorated = script if isinstance(script, Plugin) else None
        hook_point = hook_point or (decorated.hook_point if decorated else DEFAULT_HOOK_POINT)
        value = trial.invoke(
            Path(script) if isinstance(script, str) else script,
            hook_point=hook_point,
            content=content,
            config={**(decorated.config if decorated else {}), **self.config},
            workspace=self.workspace,
            services=_Services(self),
            now=lambda: self.now,
            **given,
        )
        read = returned.parse(value, hook_points.get(hook_point))
        self.sent += read.reply
        self.remembered += read.remember
        return value


@dataclass(frozen=True)
class _Services:
    """What the kit's test has said, in the place of memory and agents."""

    kit: Kit

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext:
        return AssembledContext(
            session_label=session_label, role="", system_prompt="", tools=(), current_message=task
        )

    async def start_execution(
        self,
        request: Request,
        assembled: AssembledContext,
        execution_id: str | None = None,
        *,
        access: Access | None = None,
    ) -> Run:
        self.kit.prompts.append(assembled)
        if not self.kit.answers:
            raise AutomationError(
                "The test has no answer for this agent", hint="Add one: `kit.answers.append(…)`."
            )
        result = Result(
            execution_id=f"exe_test_{len(self.kit.prompts)}",
            session_label=assembled.session_label,
            response=Response(content=self.kit.answers.pop(0)),
        )
        return FinishedRun(result)

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> Matches:
        query = services.build_query(request, question, options)
        self.kit.questions.append(question)
        found = [self._make_match(number, each) for number, each in enumerate(self.kit.memories, 1)]
        fitting = [each for each in found if each.item.kind in query.kinds][: query.max_results]
        return Matches(results=tuple(fitting))

    def _make_match(self, number: int, memory: str | Match) -> Match:
        if isinstance(memory, Match):
            return memory
        at = clock.timestamp(self.kit.now)
        item = Item(kind="fact", id=f"fact_{number}", at=at, text=memory)
        return Match(
            item=item, score=1.0, probability=0.9, tokens=0, reasons=Reasons(arms={}), strength="strong"
        )
