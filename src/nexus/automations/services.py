"""What one invocation had done for it by the rooms below, so that it can be found again or stopped."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from nexus import ids
from nexus.automations.context import Context, Result, Run, Services
from nexus.context import AssembledContext
from nexus.errors import NexusError, ScriptError
from nexus.request import Access, Request

if TYPE_CHECKING:
    from nexus.automations.grants import Grants

Method = Callable[..., Awaitable[Any]]


class InvocationServices:
    """The services of one invocation.

    The runs that it starts have ids that follow from its own: an async invocation that is repeated after
    a crash finds the runs that it had started, and none is paid for twice. One that is tried again after a
    failure starts others.
    """

    def __init__(
        self,
        services: Services,
        invocation_id: str,
        automation: str,
        attempts: int = 0,
    ) -> None:
        self.grants: Grants | None = None
        """What the runs that it starts reach, unless the automation's code says otherwise."""
        self._services = services
        self._invocation_id = invocation_id
        self._automation = automation
        self._attempts = attempts
        self.runs: dict[str, Run] = {}

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext:
        granted = self.grants and self.grants.access(request)
        request = request if granted is None else replace(request, access=granted)
        return await self._services.assemble_context(request, session_label, task, fork_of=fork_of)

    async def start_execution(
        self,
        request: Request,
        assembled: AssembledContext,
        execution_id: str | None = None,
        *,
        access: Access | None = None,
    ) -> Run:
        # Whatever a script wrote there: it spends on its own account.
        assembled.automation, assembled.invocation_id = self._automation, self._invocation_id
        id_ = execution_id or run_id(self._invocation_id, len(self.runs), self._attempts)
        grants = self.grants if access is None else None
        if grants is None:
            run = await self._services.start_execution(request, assembled, id_, access=access)
        else:
            access, place = await grants.opened(request, assembled, id_)
            run = await self._services.start_execution(request, assembled, id_, access=access)
            grants.doors.watch(run, place)
        self.runs[run.id] = run
        return run

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> list[dict[str, Any]]:
        return await self._services.recall(request, question, options)

    async def stop(self) -> None:
        """Stop the runs that were started and have not ended: nobody waits for them any more."""
        for run in self.runs.values():
            with suppress(NexusError):
                await run.cancel()


def run_id(invocation_id: str, number: int, attempts: int = 0) -> str:
    """The id of an invocation's run, after so many attempts that failed."""
    return ids.derived("exe", invocation_id, f"{number}-{attempts}" if attempts else str(number))


class Calls:
    """Carries out what a script asks of its context, in whose process there is only a copy of it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._runs: dict[str, Run] = {}
        self._methods: dict[str, Method] = {
            "assemble_context": self._assemble_context,
            "start_execution": self._start_execution,
            "result": self._result,
            "cancel": self._cancel,
            "recall": self._recall,
        }

    async def __call__(self, method: str, parameters: dict[str, Any]) -> Any:
        if method not in self._methods:
            raise ScriptError(f"The context has no `{method}`")
        return await self._methods[method](**parameters)

    async def _assemble_context(self, session_label: str, task: str, fork: bool = False) -> dict[str, Any]:
        # Which conversation is forked is not for the script to say.
        assembled = await self._context.assemble_context(session_label=session_label, task=task, fork=fork)
        return assembled.to_json()

    async def _start_execution(self, assembled: dict[str, Any]) -> str:
        run = await self._context.start_execution(AssembledContext.from_json(assembled))
        self._runs[run.id] = run
        return run.id

    async def _result(self, id: str) -> dict[str, Any]:  # noqa: A002 - the name on the wire
        result: Result = await self._own(id).result()
        return asdict(result)

    async def _cancel(self, id: str) -> bool:  # noqa: A002 - the name on the wire
        return bool(await self._own(id).cancel())

    async def _recall(self, question: str, options: dict[str, Any]) -> list[dict[str, Any]]:
        return await self._context.recall(question, **options)

    def _own(self, id_: str) -> Run:
        if id_ not in self._runs:
            raise ScriptError(f"{id_} is not a run of this invocation")
        return self._runs[id_]
