"""Recorded requests, as a hook point would have seen them."""

from dataclasses import dataclass
from typing import Any

from nexus.automations.context import Response, Result, Run
from nexus.automations.occasion import Occasion
from nexus.automations.recalling import Alone, Recaller
from nexus.automations.services import run_id
from nexus.config import MemoryConfig
from nexus.context import AssembledContext, assemble_context
from nexus.errors import AutomationError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import executions, invocations, requests
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.executions import Execution
from nexus.request import Access, Request

_WITH_CONTEXT = frozenset({"after:assembleContext", "worker:pre_execution"})
_WITH_RESULT = frozenset({"after:runAgent", "after:deliverResponse", "finalize"})


async def occasion_of(ledgers: Ledgers, request_id: str, hook_point: str) -> Occasion | None:
    """What a hook point would be fired with for a request that is over; None where there is none."""
    request = await requests.restore(ledgers, request_id)
    if request is None:
        return None
    run = await _own_run(ledgers, request)
    assembled = None
    if run is not None and hook_point in _WITH_CONTEXT:
        assembled = AssembledContext.from_json(run.input["context"])
    result = result_of(run) if run is not None and hook_point in _WITH_RESULT else None
    return Occasion(request=request, assembled=assembled, result=result)


def result_of(run: Execution) -> Result | None:
    """What came of a run; None where it has no answer."""
    if run.status != "done" or run.result is None:
        return None
    value: dict[str, Any] = run.result
    return Result(
        execution_id=run.id,
        session_label=run.session_label,
        response=Response(content=str(value["response"]["content"])),
        usage=value.get("usage") or {},
    )


async def _own_run(ledgers: Ledgers, request: Request) -> Execution | None:
    """The run that answered the request itself, and not an automation of it."""
    label = request.agent.session_label
    found = await ledgers.runtime.read(
        executions.of_request, request_id=request.request_id, session_label=label
    )
    return found[0] if found else None


@dataclass
class _RecordedRun:
    """A run that was made when the request was recorded."""

    run: Execution

    @property
    def id(self) -> str:
        return self.run.id

    async def result(self) -> Result:
        result = result_of(self.run)
        if result is None:
            raise AutomationError(f"The run {self.run.id} ended as {self.run.status}")
        return result

    async def cancel(self) -> object:
        return False


class Recorded:
    """Services that only read."""

    def __init__(self, ledgers: Ledgers, settings: MemoryConfig) -> None:
        self._ledgers = ledgers
        self._recaller = Recaller(Alone(ledgers, settings))

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext:
        return await assemble_context(
            self._ledgers.home, request, session_label=session_label, task=task, tools=(), fork_of=fork_of
        )

    async def start_execution(
        self,
        request: Request,
        assembled: AssembledContext,
        execution_id: str | None = None,
        *,
        access: Access | None = None,
    ) -> Run:
        raise AutomationError("A replay runs no agent")

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> list[dict[str, Any]]:
        return await self._recaller.recall(request, question, options)

    @staticmethod
    async def of(ledgers: Ledgers, automation: Automation, request_id: str) -> list[Run]:
        """The runs that an automation started for a request when it was recorded, in order."""
        known = await ledgers.runtime.read(invocations.of_automation, name=automation.name, limit=1_000)
        found = next((each for each in known if each.request_id == request_id), None)
        runs: list[Run] = []
        while found is not None:
            id_ = run_id(found.id, len(runs), found.attempts)
            run = await ledgers.runtime.read(executions.get, execution_id=id_)
            if run is None:
                break
            runs.append(_RecordedRun(run))
        return runs
