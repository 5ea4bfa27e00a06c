"""What the broker and the memory do for automations: runs in their own sessions, on the request's account."""

from typing import Any

from nexus.automations.context import Response, Result, Run
from nexus.automations.recalling import Opened, Recaller
from nexus.broker.broker import Broker
from nexus.broker.results import Run as BrokerRun
from nexus.context import AssembledContext
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import requests
from nexus.request import Access, Request


class BrokerServices:
    """Never bypasses the broker."""

    def __init__(self, ledgers: Ledgers, broker: Broker, recall: Opened) -> None:
        self._ledgers = ledgers
        self._broker = broker
        self._recaller = Recaller(recall)

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext:
        return await self._broker.assemble_context(
            request, session_label=session_label, task=task, fork_of=fork_of
        )

    async def start_execution(
        self,
        request: Request,
        assembled: AssembledContext,
        execution_id: str | None = None,
        *,
        access: Access | None = None,
    ) -> Run:
        # A request of the runtime itself, as at startup, is recorded when something is first done for it.
        await self._ledgers.runtime.write(requests.create, request=request)
        run = await self._broker.start_execution(request, assembled, execution_id=execution_id, access=access)
        return _Run(run, assembled.session_label)

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> list[dict[str, Any]]:
        return await self._recaller.recall(request, question, options)


class _Run:
    """A run of the broker, as automations see it."""

    def __init__(self, run: BrokerRun, session_label: str) -> None:
        self._run = run
        self._session_label = session_label
        self.id = run.id

    async def result(self) -> Result:
        result = await self._run.result()
        return Result(
            execution_id=result.execution_id,
            session_label=self._session_label,
            response=Response(content=result.response.content),
            usage=result.to_json()["usage"],
        )

    async def cancel(self) -> object:
        return await self._run.cancel()
