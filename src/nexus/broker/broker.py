"""The broker: starts runs through the session queue, and holds what they share."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from nexus import clock, ids
from nexus.broker.agent.models import Models
from nexus.broker.agent.records import AGENT_WORK
from nexus.broker.approvals import Approvals
from nexus.broker.compaction import budget_tokens
from nexus.broker.dispatch import Dispatcher
from nexus.broker.pace import Pace
from nexus.broker.queue import Record, SessionQueue, lane_of
from nexus.broker.run_handle import Run
from nexus.broker.streams import Streams
from nexus.broker.tools import TOOLS, Tool
from nexus.broker.tools.skill import NAME as SKILL
from nexus.config import Config
from nexus.context import AssembledContext, assemble_context
from nexus.home import Home, is_alone
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime.executions import Mode
from nexus.ledgers.runtime.models import Capabilities
from nexus.memory.profile import OwnerProfile
from nexus.request import Access, Request
from nexus.skills.catalog import Catalog, Entry

# How long a message may take from coming in to its recorded run.
LONGEST_INTAKE = timedelta(minutes=10)


class Broker:
    """Every run on behalf of a request starts here: assemble its context, put it into the session queue."""

    def __init__(
        self,
        home: Home,
        config: Config,
        ledgers: Ledgers,
        queue: SessionQueue,
        models: Models,
        streams: Streams,
        *,
        tools: Iterable[Tool] = TOOLS,
    ) -> None:
        self.home = home
        self.config = config
        self.models = models
        self.streams = streams
        self.tools = {tool.name: tool for tool in tools}
        self.workers = Dispatcher(ledgers, queue, config.agents, self._start)
        self.profile = OwnerProfile(ledgers)
        self.approvals = Approvals(ledgers, config.tools, config.gateway.public_url)
        self.pace = Pace()
        self.skills = Catalog(home)
        self.ledgers = ledgers
        self._queue = queue
        self._apart: set[str] = set()

    def add_tools(self, tools: Iterable[Tool], *, for_everybody: bool = True) -> None:
        """Make further tools known. Everybody has the same, so do it before the home is served.

        Those that are not for everybody are in no context until a role puts their names there.
        """
        added = {tool.name: tool for tool in tools}
        self.tools.update(added)
        if not for_everybody:
            self._apart |= added.keys()

    async def assemble_context(
        self,
        request: Request,
        *,
        session_label: str,
        task: str,
        role: str | None = None,
        fork_of: str | None = None,
    ) -> AssembledContext:
        """The prompt of a run on behalf of a request. It may be changed until the run is started."""
        context = await assemble_context(
            self.home,
            request,
            session_label=session_label,
            task=task,
            tools=self.tools.keys() - self._apart,
            role=role,
            fork_of=fork_of,
        )
        if await self.find_skills(request.access):
            context.tools = tuple(sorted({*context.tools, SKILL}))
        return context

    async def find_skills(self, access: Access) -> list[Entry]:
        """The skills that an agent with some access is offered; none without the tool to load them."""
        if SKILL not in self.tools or not access.may_call(SKILL) or not self.skills.may_offer:
            return []
        directories = [grant.path for grant in access.directories]
        return await asyncio.to_thread(self.skills.list_offered, directories)

    async def start_execution(
        self,
        request: Request,
        context: AssembledContext,
        *,
        mode: Mode = "followup",
        execution_id: str | None = None,
        access: Access | None = None,
        record: Record | None = None,
    ) -> Run:
        """Ask for a run, in its session's queue; the request must be recorded. See `SessionQueue`.

        With `access` its tools reach that and not what the request may reach: only the program's own roles
        say so, never a script or a model.
        """
        granted = {} if access is None else {"access": requests.access_json(access)}
        id_ = execution_id or ids.new("exe")
        lane = lane_of(context.session_label, self.config.channels)
        if lane == "chat":
            self.pace.expect(id_)
        queued = await self._queue.start_execution(
            AGENT_WORK,
            {"context": context.to_json(), **granted},
            session_label=context.session_label,
            request_id=request.request_id,
            mode=mode,
            execution_id=id_,
            record=record,
            lane=lane,
        )
        return Run(queued, self.streams)

    async def regenerate(self, execution_id: str, model: str = "") -> Run:
        """Answer the message of a finished run again. The new turn replaces the old one in the history."""

        def replace_turn(input_: dict[str, Any]) -> dict[str, Any]:
            replaced = {"replaces": execution_id, **({"model": model} if model else {})}
            return {**input_, "context": {**input_["context"], **replaced}}

        return Run(await self._queue.retry(execution_id, changed=replace_turn), self.streams)

    async def check_models(self, role: str, model: str = "") -> None:
        """An error that says what to do, where nobody could answer in this role."""
        await self.models.candidates((model,) if model else self.models.names(role))

    async def capabilities(self, role: str, model: str = "") -> Capabilities:
        """What is known of the model that a role asks first, or of the one named."""
        return await self.models.capabilities(model or self.models.names(role)[0])

    async def cost_microusd(
        self, role: str, *, input_tokens: int, cached_tokens: int, output_tokens: int
    ) -> int | None:
        """What so many tokens of the model that a role asks first cost; None where nobody knows its price."""
        return await self.models.cost_microusd(
            self.models.names(role)[0],
            input_tokens=input_tokens,
            cached_tokens=cached_tokens,
            output_tokens=output_tokens,
        )

    async def budget_tokens(self, role: str) -> int:
        """How long a conversation in a role may get before its older part is summed up."""
        return await budget_tokens(self.config, self.models, self.models.names(role)[0])

    def run(self, execution_id: str) -> Run:
        """A run that was asked for before, here or elsewhere."""
        return Run(self._queue.run(execution_id), self.streams)

    async def hand_over_late(self) -> None:
        """Hand over what is recorded and the engine hasn't got, and record what only the engine knows.

        Call it when a home is opened to be served, and after an outage. What was under way when its process
        died is not among it: that goes on as soon as the engine is open.
        """
        await self._queue.hand_over_missing()
        await self.workers.tell_of_lost()

    async def end_orphans(self, last_rowid: int) -> None:
        """End what processes that are gone left open, up to a row of `requests`.

        Call it when a home is opened to be served, with the last row from before this process did anything.
        """
        alone = is_alone(self.home)
        await self.ledgers.runtime.write(
            requests.end_orphans,
            last_rowid=last_rowid,
            made_before=None if alone else clock.timestamp(clock.now() - LONGEST_INTAKE),
        )
        self.streams.sweep()

    async def _start(
        self, request: Request, *, session_label: str, task: str, execution_id: str, mode: Mode
    ) -> None:
        context = await self.assemble_context(request, session_label=session_label, task=task)
        context.is_prepared = request.depth == 0
        await self.start_execution(request, context, mode=mode, execution_id=execution_id)
