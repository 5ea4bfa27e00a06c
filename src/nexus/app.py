"""The composition root: builds the parts of one home and wires them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

from nexus import clock, ids
from nexus.answer import Answer, Answered, Heard, Result
from nexus.automations import reminders
from nexus.automations.broker_services import BrokerServices
from nexus.automations.occasion import Occasion
from nexus.automations.parts import Automations
from nexus.automations.reminders import Place, Reminders
from nexus.broker.agent.knowledge import Knowledge
from nexus.broker.agent.mcp import Servers
from nexus.broker.agent.models import Models
from nexus.broker.broker import Broker
from nexus.broker.outbox import Outbox
from nexus.broker.queue import SessionQueue
from nexus.broker.results import Run
from nexus.broker.running import Hooks
from nexus.broker.streams import Streams
from nexus.broker.tools import Context as ToolContext
from nexus.broker.tools import web
from nexus.broker.tools.recall import recall_tool, visible_to
from nexus.config import Config
from nexus.context import AssembledContext
from nexus.engine import Engine, Jobs, Settings
from nexus.errors import ModelFileError
from nexus.home import Home
from nexus.ledgers import Ledgers, events
from nexus.ledgers.agents import tool_calls
from nexus.ledgers.runtime import executions
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.executions import Mode
from nexus.memory.alike import Alike
from nexus.memory.embedding import Vectors, chosen_id, opener
from nexus.memory.embedding.background import Background
from nexus.memory.gate import Rules
from nexus.memory.operations import Memory
from nexus.memory.provenance import Provenance
from nexus.memory.recall import EVERYTHING, Recall, Visibility
from nexus.memory.recall.reranker import installed_reranker
from nexus.memory.upkeep import Upkeep
from nexus.pipeline import Incoming, Pipeline, access
from nexus.pipeline.pipeline import refused
from nexus.pipeline.reminding import Reminding
from nexus.pipeline.repeated import heard_before
from nexus.pipeline.stages import Stages
from nexus.pipeline.timetable import Timetable
from nexus.request import Agent, Event, Request, check_label
from nexus.roles.bundled import bundled
from nexus.roles.conclusions import Conclusions
from nexus.roles.memory_writer.sweep import Sweep
from nexus.roles.parts import Parts
from nexus.roles.reflection import reflection
from nexus.roles.texts import seed_roles
from nexus.skills.commands import Commands
from nexus.skills.doors import OWNER, Door


class App:
    """One home, open: `async with App(home, config) as app: run = await app.say("Hello")`.

    With `serve=False` this process asks and watches, and leaves the work to one that serves. With `door`
    it also lets the memory's scripts in; one process of a home can.
    """

    def __init__(
        self,
        home: Home,
        config: Config,
        *,
        serve: bool = True,
        door: bool = False,
        now: clock.Clock = clock.now,
    ) -> None:
        self.home = home.require()
        self.config = config
        self._serve = serve
        self._has_door = door
        self._stack = AsyncExitStack()
        self._hearing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.ledgers = Ledgers(home, config.ledgers)
        self.engine = Engine(Settings.of_home(home, config.engine))
        self.embedding = Background(
            self.ledgers, Jobs(self.engine), opener(config.memory), chosen_id(config.memory)
        )
        self.memory = Memory(
            self.ledgers,
            enqueue_embedding=self._embed,
            cosines=self._cosines,
            phone_region=config.memory.phone_region,
            keeps_codes=config.memory.keep_codes,
        )
        self._upkeep = Upkeep(self.ledgers, self.engine)
        self.queue = SessionQueue(self.engine, self._opened)
        self.models = Models(config, knowledge=Knowledge(self.ledgers.runtime))
        self.streams = Streams(home.run)
        self.broker = Broker(
            home,
            config,
            self.ledgers,
            self.queue,
            self.models,
            self.streams,
            hooks=Hooks(
                before_worker=self._before_worker,
                after_run=self._after_run,
                after_failure=self._after_failure,
            ),
        )
        services = BrokerServices(self.ledgers, self.broker, self.recall)
        self.automations = Automations(
            self.ledgers, config.automations, self.engine, services, now, door=self.door
        )
        self._outbox = Outbox(self.broker.recover, partial(self.automations.queue.recover, self.ledgers))
        self.queue.late = self.automations.queue.late = self._outbox.late
        self.stages = Stages(
            ledgers=self.ledgers, config=config, broker=self.broker, runner=self.automations.runner
        )
        self.pipeline = Pipeline(self.stages)
        self.timetable = Timetable(self.stages, self.engine, now)
        self.reminders = Reminders(self.ledgers, config.automations, now)
        self.automations.add_handler(reminders.SCRIPT, Reminding(self.accept))
        self.conclusions = Conclusions(self._parts())
        self.missed_turns = Sweep(self._parts(), self.automations.runner)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self.ledgers)
            if self._has_door:
                await self._touch_ledgers()
                # The door comes before the engine: a second process is refused before it takes any work.
                await opening.enter_async_context(self.door(OWNER, Provenance(actor=OWNER, kind="owner")))
            await opening.enter_async_context(self.models)
            servers = await opening.enter_async_context(Servers(self.config.mcp, self.home.state))
            own = [recall_tool(self._recall_for), *web.web_tools(self.config.web, self._url_given)]
            self.broker.add_tools([*own, *await servers.tools()])
            opening.push_async_callback(self.automations.close)
            await asyncio.to_thread(seed_roles, self.home)
            await self.automations.load(bundled(self._parts()))
            opening.push_async_callback(self.engine.close)
            await self.engine.open(serve=self._serve)
            opening.push_async_callback(self.automations.settle)
            owner = access.owner(self.config.tools, self.home)
            await self.automations.start(serve=self._serve, access=owner)
            opening.push_async_callback(self.embedding.stop)
            if self._serve:
                self.embedding.start()
                await self._upkeep.schedule()
                await self.conclusions.schedule()
                await self.missed_turns.schedule()
                opening.push_async_callback(self.timetable.stop)
                await self.timetable.start()
                await self.broker.recover()
                await self.broker.end_orphans()
                opening.push_async_callback(self._outbox.stop)
                self._outbox.start()
            self._stack = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def say(
        self,
        text: str,
        *,
        session_label: str = "main",
        channel: str = "cli",
        model: str = "",
        mode: Mode = "followup",
    ) -> Answer:
        """Say something as the owner of the home; what is going to answer is returned at once."""
        heard = await self.hear(text, session_label=session_label, channel=channel, model=model, mode=mode)
        return heard.answer

    async def hear(
        self,
        text: str,
        *,
        session_label: str = "main",
        channel: str = "cli",
        model: str = "",
        mode: Mode = "followup",
        external_id: str | None = None,
    ) -> Heard:
        """As `say`, with the request that it became. What comes again under an external id is the same."""
        check_label(session_label)
        await self.broker.check_models("manager", model)
        incoming = Incoming(
            channel=channel,
            content=text,
            sender=OWNER,
            thread=session_label,
            session_label=session_label,
            is_owner=True,
            model=model,
            mode=mode,
            external_id=external_id,
        )
        return await self.accept(incoming)

    async def accept(self, incoming: Incoming) -> Heard:
        """Take in a message as a channel hands it over; one that was delivered before is the same."""
        # Under the lock a message that comes twice at once is still received once.
        async with self._hearing.setdefault(incoming.external_id or ids.new("key"), asyncio.Lock()):
            heard = await heard_before(self.ledgers, self.broker, incoming)
            return heard or await self._received(incoming)

    async def remind(
        self, new: reminders.Draft, *, session_label: str = "main", channel: str = "cli"
    ) -> Automation:
        """Save a reminder of the owner's: it arrives in that session, on that channel."""
        check_label(session_label)
        thread = partial(events.ensure_thread, channel=channel, external_id=session_label)
        place = Place(
            channel=channel,
            thread=session_label,
            session=session_label,
            sender=OWNER,
            is_owner=True,
            thread_id=await self.ledgers.events.write(thread),
        )
        return await self.reminders.save(new, place)

    async def reflect(
        self, question: str, *, save_as: str | None = None, asking: reflection.Asking = reflection.OWNER
    ) -> reflection.Reflected:
        """Answer a question from the memory, with sources; with `save_as`, keep it as a mental model."""
        return await reflection.reflect(self._parts(), question, save_as=save_as, asking=asking)

    async def refresh(
        self, mental_model: str, *, asking: reflection.Asking = reflection.OWNER
    ) -> reflection.Reflected:
        """Make the next version of a mental model, given by its id or its name."""
        return await reflection.refresh(self._parts(), mental_model, asking=asking)

    async def leave(self, session_label: str, *, channel: str = "cli") -> None:
        """A person starts afresh: automations may still do something about the session that is left."""
        request = Request(
            event=Event(content="/new", channel=channel, sender_id=OWNER),
            agent=Agent(session_label=session_label),
            access=access.owner(self.config.tools, self.home),
        )
        await self.automations.runner.fire("command:new", Occasion(request=request))

    async def runs_after(self, session_label: str, execution_id: str = "") -> list[Run]:
        """The runs of a session that were asked for after another one, whoever asked."""
        found = await self.ledgers.runtime.read(
            partial(executions.begun_in, session_label=session_label, after=execution_id)
        )
        return [self.broker.run(id_) for id_ in found]

    async def under_way(self, session_label: str) -> list[Run]:
        """The runs of a session that have not ended, such as those that a crash cut short."""
        unfinished = await self.ledgers.runtime.read(
            partial(executions.unfinished_in, session_label=session_label)
        )
        return [self.broker.run(id_) for id_ in unfinished]

    def door(
        self,
        name: str,
        provenance: Provenance,
        *,
        writes: bool = True,
        rules: Rules | None = None,
        visible: Visibility = EVERYTHING,
    ) -> Door:
        """A socket of its own for one principal, whose directory can be granted to it alone."""
        recall = partial(self.recall, visible)
        commands = Commands(self.memory, recall, provenance, writes=writes, rules=rules)
        return Door(self.doorway(name), commands.answer)

    def doorway(self, name: str) -> Path:
        """The directory of a principal's socket."""
        return self.home.run / name

    async def recall(self, visible: Visibility = EVERYTHING) -> Recall:
        """The memory, ready to be asked; by words alone where the model is not on this machine."""
        vectors: Vectors | None = None
        with suppress(ModelFileError):
            vectors = await self.embedding.vectors()
        reranker = await asyncio.to_thread(installed_reranker)
        return Recall(self.ledgers, vectors, visible=visible, reranker=reranker)

    def _parts(self) -> Parts:
        return Parts(
            home=self.home,
            config=self.config,
            ledgers=self.ledgers,
            engine=self.engine,
            memory=self.memory,
            broker=self.broker,
            recall=self.recall,
            door=self.door,
        )

    async def _recall_for(self, context: ToolContext) -> Recall:
        """The memory as the principal of a tool's call may see it."""
        assert context.call is not None  # noqa: S101 - an invariant, for the reader and the type checker
        return await self.recall(visible_to(context.call.request))

    async def _url_given(self, context: ToolContext, url: str) -> bool:
        """Whether a URL comes from a person in the conversation that a call works for, or from the web."""
        assert context.call is not None  # noqa: S101 - an invariant, for the reader and the type checker
        thread_id = context.call.request.event.thread_id
        if not url:
            return False
        if thread_id and await self.ledgers.events.read(
            partial(events.was_written, thread_id=thread_id, text=url)
        ):
            return True
        shown = partial(tool_calls.have_shown, tools=web.NAMES, text=url)
        return await self.ledgers.agents.read(shown)

    async def _received(self, incoming: Incoming) -> Heard:
        journey = await self.pipeline.receive(incoming)
        if journey.denied is not None:
            raise refused(journey)
        id_ = journey.request.request_id
        if journey.run is None:
            return Heard(request_id=id_, answer=Answered(id_, journey.response or ""))
        return Heard(request_id=id_, answer=journey.run, execution_id=journey.run.id)

    async def _embed(self, kind: str, ids: list[str]) -> None:
        self.embedding.wake()

    async def _cosines(self, text: str, entity_ids: Sequence[str]) -> dict[str, float]:
        """One sign among several: a model that is not open yet is not waited for."""
        embedder = self.embedding.embedder
        return {} if embedder is None else await Alike(self.ledgers.embeddings, embedder)(text, entity_ids)

    async def _touch_ledgers(self) -> None:
        """Readers on a read-only mount need the files beside a ledger that its first reader makes."""
        reads = (
            database.read(lambda c: c.execute("SELECT 1 FROM sqlite_schema").get) for database in self.ledgers
        )
        await asyncio.gather(*reads)

    async def _before_worker(self, request: Request, context: AssembledContext) -> None:
        await self.pipeline.before_worker(request, context)

    async def _after_run(self, request: Request, context: AssembledContext, result: Result) -> None:
        await self.pipeline.after_run(request, context, result)

    async def _after_failure(self, request: Request, context: AssembledContext, error: str) -> None:
        await self.pipeline.after_failure(request, context, error)

    @asynccontextmanager
    async def _opened(self, home: str) -> AsyncGenerator[Ledgers]:
        """The ledgers of the one home that this process serves."""
        assert home == ""  # noqa: S101 - an invariant, for the reader and the type checker
        yield self.ledgers
