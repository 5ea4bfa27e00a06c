"""The composition root: builds the parts of one home and wires them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from nexus import clock, ids
from nexus.attachments import Attachment, File
from nexus.automations import registration, reminders
from nexus.automations.broker_services import BrokerServices
from nexus.automations.occasion import Occasion
from nexus.automations.parts import Automations
from nexus.automations.registry import Entry
from nexus.automations.reminders import Place, Reminders
from nexus.automations.scheduling import Scheduling
from nexus.broker import attached
from nexus.broker.agent.knowledge import Knowledge
from nexus.broker.agent.mcp import Servers
from nexus.broker.agent.models import Models
from nexus.broker.broker import Broker
from nexus.broker.outbox import Outbox
from nexus.broker.queue import SessionQueue
from nexus.broker.running import Hooks
from nexus.broker.streams import Streams
from nexus.broker.tools import Context as ToolContext
from nexus.broker.tools import web
from nexus.broker.tools.recall import recall_tool, visible_to
from nexus.broker.tools.schedule import schedule_tool
from nexus.broker.tools.send_file import send_file_tool
from nexus.channels import Channels, Message, kinds
from nexus.channels.kinds import Adapters, adapters
from nexus.config import Config, load
from nexus.context import AssembledContext
from nexus.engine import Engine, Jobs, Settings
from nexus.engine.errors import EngineBusyError, EngineFullError, EngineUnreachableError
from nexus.engine.forgetting import Forgetting
from nexus.errors import ModelFileError, UsageError
from nexus.history import ImportJobs
from nexus.home import Home, locate
from nexus.ledgers import Ledgers, events, forgetting, sql
from nexus.ledgers.agents import tool_calls
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity import senders
from nexus.ledgers.runtime import automations, executions, requests
from nexus.ledgers.runtime import channels as channel_states
from nexus.ledgers.runtime.approvals import Approval
from nexus.ledgers.runtime.executions import Mode
from nexus.ledgers.runtime.invocations import Invocation
from nexus.memory.alike import Alike
from nexus.memory.embedding import Vectors, chosen_id, opener
from nexus.memory.embedding.background import Background
from nexus.memory.gate import Rules
from nexus.memory.operations import Memory
from nexus.memory.provenance import Provenance
from nexus.memory.recall import EVERYTHING, Answer, Query, Recall, Visibility
from nexus.memory.recall.reranker import installed_reranker
from nexus.memory.upkeep import Upkeep
from nexus.pipeline import Incoming, Pipeline, access
from nexus.pipeline.destinations import Destinations
from nexus.pipeline.pipeline import refused
from nexus.pipeline.reminding import Reminding
from nexus.pipeline.repeated import received_before
from nexus.pipeline.stages import Stages
from nexus.pipeline.timetable import Timetable
from nexus.request import Agent, Event, Request, check_label
from nexus.roles.backfill.backfill import Backfilling
from nexus.roles.bundled import bundled
from nexus.roles.conclusions import Conclusions
from nexus.roles.memory_writer.sweep import Sweep
from nexus.roles.parts import Parts
from nexus.roles.reflection import reflection
from nexus.roles.texts import seed_roles
from nexus.runs import FinishedRun, Receipt, Result, Run
from nexus.skills.commands import Commands
from nexus.skills.doors import OWNER, Door

_OWNER: Final = Provenance(actor=OWNER, kind="owner")


class App:
    """One home, open: `async with App.open() as app: run = await app.send("Hello")`.

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
        self._receiving: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
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
                asked=self._asked,
            ),
        )
        services = BrokerServices(self.ledgers, self.broker, self.open_recall)
        self.automations = Automations(
            self.ledgers, config.automations, self.engine, services, now, door=self.door
        )
        self._outbox = Outbox(self.broker.recover, partial(self.automations.queue.recover, self.ledgers))
        self.queue.late = self.automations.queue.late = self._outbox.late
        self.adapters = Adapters(home=home)
        self.channels = Channels(self.ledgers, {}, self._from_channel)
        self.stages = Stages(
            ledgers=self.ledgers,
            config=config,
            broker=self.broker,
            runner=self.automations.runner,
            deliver=self._deliver,
            sends_files=self._sends_files,
        )
        self.automations.runner.destinations = Destinations(stages=self.stages, memory=self.memory)
        self.pipeline = Pipeline(self.stages)
        self.timetable = Timetable(self.stages, self.engine, now)
        self.reminders = Reminders(self.ledgers, config.automations, now)
        self.automations.add_handler(reminders.SCRIPT, Reminding(self.accept, self._is_owners))
        self.conclusions = Conclusions(self._parts())
        self.missed_turns = Sweep(self._parts(), self.automations.runner)
        self.backfill = Backfilling(self._parts(), now)
        self.imports = ImportJobs(self.ledgers, self.memory, config)

    @classmethod
    def open(cls, home: Home | Path | str | None = None, *, serve: bool = True) -> Self:
        """A home with its settings, by default the one that NEXUS_HOME names; enter it to open it."""
        place = home if isinstance(home, Home) else locate(Path(home) if home else None)
        return cls(place, load(place.require().config_file), serve=serve)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self.ledgers)
            if self._has_door:
                await self._touch_ledgers()
                # The door comes before the engine: a second process is refused before it takes any work.
                await opening.enter_async_context(self.door(OWNER, _OWNER))
            await opening.enter_async_context(self.models)
            servers = await opening.enter_async_context(Servers(self.config.mcp, self.home.state))
            scheduling = Scheduling(self.ledgers, self.reminders)
            own = [
                recall_tool(self._recall_for),
                schedule_tool(scheduling),
                *web.web_tools(self.config.web, self._url_given),
            ]
            self.broker.add_tools([*own, *await servers.tools()])
            self.broker.add_tools([send_file_tool(self.home, self.config.attachments)], for_everybody=False)
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
                await self.backfill.recover()
                opening.push_async_callback(self.timetable.stop)
                await self.timetable.start()
                await self.broker.recover()
                await self.broker.end_orphans()
                opening.push_async_callback(self._outbox.stop)
                self._outbox.start()
            opening.push_async_callback(self.imports.close)
            if self._serve and self._has_door:
                await self.imports.recover()
                await self._start_channels(opening)
            self._stack = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def send(
        self,
        text: str,
        *,
        session_label: str = "main",
        channel: str = "cli",
        model: str = "",
        mode: Mode = "followup",
    ) -> Run:
        """Send a message as the owner and return its run without waiting for the answer."""
        receipt = await self.receive(
            text, session_label=session_label, channel=channel, model=model, mode=mode
        )
        return receipt.run

    async def receive(
        self,
        text: str,
        *,
        session_label: str = "main",
        channel: str = "cli",
        model: str = "",
        mode: Mode = "followup",
        external_id: str | None = None,
        files: Sequence[File] = (),
        replaces: str | None = None,
    ) -> Receipt:
        """Take a message from the owner; one with the same `external_id` as before is not taken twice.

        A message with images doesn't steer a run under way: it gets its own. With `replaces`, a run's id, it
        takes the place of that run's message; that turn and those after it leave the history.
        """
        check_label(session_label)
        await self.broker.check_models("manager", model)
        text, kept = await self.attach(text, files, model)
        if any(each.is_image for each in kept) and mode == "steer":
            mode = "followup"
        incoming = Incoming(
            channel=channel,
            content=text,
            attachments=kept,
            sender=OWNER,
            thread=session_label,
            session_label=session_label,
            is_owner=True,
            model=model,
            mode=mode,
            external_id=external_id,
            replaces=replaces,
        )
        return await self.accept(incoming)

    async def regenerate(self, execution_id: str, model: str = "") -> Run:
        """Answer the message of a finished run again; the new answer replaces the old one."""
        await self.broker.check_models("manager", model)
        return await self.broker.regenerate(execution_id, model)

    async def attach(
        self, text: str, files: Sequence[File], model: str = ""
    ) -> tuple[str, tuple[Attachment, ...]]:
        """Keep the files of a message: its text with what they say, and what is kept.

        UsageError where one can't be read, or is an image and the model reads none: then nothing is kept.
        """
        if not files:
            return text, ()
        found = await attached.Files.checked(files, self.config.attachments)
        if found.has_images:
            known = await self.broker.capabilities("manager", model)
            if known.images is False:
                name = model or self.config.models.manager[0]
                raise UsageError(
                    f"{name} can't read images", hint="Name a model that can, such as with `--model`."
                )
        text = await found.told(text)
        await found.keep(self.home)
        return text, found.attachments

    async def accept(self, incoming: Incoming) -> Receipt:
        """Take a message from a channel, from anyone; a repeated delivery is not taken twice."""
        # The lock keeps two simultaneous deliveries of one message apart.
        async with self._receiving.setdefault(incoming.external_id or ids.new("key"), asyncio.Lock()):
            receipt = await received_before(self.ledgers, self.broker, incoming)
            return receipt or await self._received(incoming)

    async def recall(self, query: str | Query) -> Answer:
        """Memories that match a question, best first, with the reasons. No model is called."""
        asked = Query(text=query) if isinstance(query, str) else query
        return await (await self.open_recall()).find(asked)

    async def remember(self, fact: str, **details: Any) -> dict[str, Any]:
        """Store a fact as the owner, with `about`, `entities`, `as_of` or `confidence`."""
        return await self.memory.run("fact", {"fact": fact, **details}, _OWNER)

    async def forget(self, entity: str, *, mentions: bool = True) -> forgetting.Report | None:
        """Erase an entity from every ledger. None if there is nothing to erase.

        With `mentions=False`, texts of others that only name it are kept. This can't be undone.
        """
        target = await forgetting.find(self.ledgers, forgetting.entity, wanted=entity, mentions=mentions)
        beside = Forgetting(Settings.of_home(self.home, self.config.engine))
        return await forgetting.forget(self.ledgers, target, actor=OWNER, beside=beside)

    async def forget_import(self, import_id: str) -> forgetting.Report | None:
        """Undo an import: what it recorded, and what was learned from it. This can't be undone."""
        if self.imports.importing:
            raise UsageError("An import is under way", hint="Undo it when that is done.")
        target = await forgetting.find(self.ledgers, forgetting.import_, wanted=import_id)
        beside = Forgetting(Settings.of_home(self.home, self.config.engine))
        return await forgetting.forget(self.ledgers, target, actor=OWNER, beside=beside)

    async def remind(
        self, new: reminders.Draft, *, session_label: str = "main", channel: str = "cli"
    ) -> reminders.Reminder:
        """Save a reminder of the owner's: it arrives in that session, on that channel."""
        check_label(session_label)
        place = Place(
            channel=channel,
            thread=session_label,
            session=session_label,
            sender=OWNER,
            is_owner=True,
            thread_id=await self.ledgers.events.write(
                events.ensure_thread, channel=channel, external_id=session_label
            ),
        )
        return reminders.reminder(await self.reminders.save(new, place), self.reminders.now())

    async def run_automation(self, name: str, content: str = "") -> Invocation:
        """Run an automation now with a message of the owner's, whatever its triggers and circuit say."""
        found = await self.ledgers.runtime.read(automations.get, name=name)
        if found is None:
            raise registration.unknown(name)
        registration.check_approved(found)
        runner = self.automations.runner
        entry = Entry(found, runner.registry.handlers.get(found.script_path or ""))
        request = Request(
            event=Event(content=content, channel="cli"),
            agent=Agent(session_label="main"),
            access=access.owner(self.config.tools, self.home),
        )
        await self.ledgers.runtime.write(requests.create, request=request)
        invocation = await runner.run_now(entry, Occasion(request=request))
        status = "done" if invocation.status == "done" else "failed"
        await self.ledgers.runtime.write(
            requests.end, request_id=request.request_id, status=status, error=invocation.error
        )
        return invocation

    async def _from_channel(self, channel: str, message: Message) -> None:
        """Take in a message from a channel. Its answer leaves by the channel, when there is one."""
        state = await self.ledgers.runtime.read(channel_states.state, name=channel)
        settings = kinds.effective(self.config.channels[channel], state)
        answers = not message.is_automatic and (
            not message.is_group
            or settings.answer == "always"
            or (settings.answer == "addressed" and message.is_addressed)
        )
        # What claims to come from somebody must not get in the way of what really does.
        claimed = "" if message.is_verified else "unverified:"
        text, kept, unread = await self._with_files(channel, message)
        incoming = Incoming(
            channel=channel,
            content=text,
            attachments=kept,
            unread_files=unread,
            sender=claimed + message.sender,
            thread=claimed + message.thread,
            title=message.title,
            display_name=message.sender_name,
            external_id=claimed + message.id,
            is_owner=kinds.is_owner(settings, message),
            is_verified=message.is_verified,
            is_group=message.is_group,
            wants_answer=answers,
        )
        await self.accept(incoming)

    def _is_owners(self, channel: str, address: str) -> bool:
        """Whether an address is the owner's. What isn't a channel of the settings is the owner's own."""
        settings = self.config.channels.get(channel)
        return settings is None or kinds.is_owners(settings, address)

    async def _knows(self, channel: str, sender: str) -> bool:
        """Whether a sender on a channel is the owner or was let in."""
        if kinds.is_owners(self.config.channels[channel], sender):
            return True
        found = await self.ledgers.identity.read(senders.find, channel=channel, identifier=sender)
        if found is None or found.is_owner:
            return found is not None
        return await self.ledgers.identity.read(grants.of, entity_id=found.entity_id) is not None

    async def _with_files(
        self, channel: str, message: Message
    ) -> tuple[str, tuple[Attachment, ...], tuple[str, ...]]:
        """The text of a message with what its files say, what is kept of them, and which can't be read.

        A file that can't be read is named, with the reason, and doesn't hold up the message. Files of an
        unverified sender are only named.
        """
        text, most = message.text, self.config.attachments.max_files
        kept: list[Attachment] = []
        unread: list[str] = []
        if not message.files:
            return text, (), ()
        if (
            message.is_verified
            and (
                known := await self.ledgers.events.read(
                    events.delivered, channel=channel, external_id=message.id
                )
            )
            is not None
        ):
            # It comes again: a file that could be read then must be read now, or it would look like another.
            files = await self.ledgers.events.read(events.attachments_of, event_id=known.id)
            return known.content, files, ()
        for number, file in enumerate(message.files):
            try:
                if number >= most or not message.is_verified:
                    raise UsageError("not taken")
                if file.problem:
                    raise UsageError(file.problem)
                text, found = await self.attach(text, [File(name=file.name, data=file.data)])
                kept += found
            except UsageError as error:
                name = " ".join(file.name.split())[:200]
                text = "\n\n".join(filter(None, [text, f"[Attachment not read: {name} ({error.message})]"]))
                unread.append(f"{name}: {error.message.removeprefix(f'{name} is ')}")
        return text, tuple(kept), tuple(unread)

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

    async def new_session(self, session_label: str, *, channel: str = "cli") -> None:
        """Leave a session for a new one; automations at `command:new` run for the one that is left."""
        thread_id = await self.ledgers.events.write(
            events.ensure_thread, channel=channel, external_id=session_label
        )
        owner = await self.ledgers.identity.read(senders.find, channel=channel, identifier=OWNER)
        request = Request(
            event=Event(content="/new", channel=channel, thread_id=thread_id, sender_id=OWNER),
            agent=Agent(session_label=session_label),
            principal_id=owner and owner.entity_id,
            access=access.owner(self.config.tools, self.home),
        )
        await self.automations.runner.fire("command:new", Occasion(request=request))

    async def runs_after(self, session_label: str, execution_id: str = "") -> list[Run]:
        """The runs of a session that were started after another one, by anyone."""
        found = await self.ledgers.runtime.read(
            executions.begun_in, session_label=session_label, after=execution_id
        )
        return [self.broker.run(id_) for id_ in found]

    async def active_runs(self, session_label: str) -> list[Run]:
        """The unfinished runs of a session, including those that a crash interrupted."""
        unfinished = await self.ledgers.runtime.read(executions.unfinished_in, session_label=session_label)
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
        recall = partial(self.open_recall, visible)
        commands = Commands(self.memory, recall, provenance, writes=writes, rules=rules)
        return Door(self.doorway(name), commands.answer)

    def doorway(self, name: str) -> Path:
        """The directory of a principal's socket."""
        return self.home.run / name

    async def open_recall(
        self, visible: Visibility = EVERYTHING, without: frozenset[str] = frozenset()
    ) -> Recall:
        """Recall over this home's memory; by words alone if the embedding model isn't installed.

        `without` has ids of what is never an answer.
        """
        vectors: Vectors | None = None
        with suppress(ModelFileError):
            vectors = await self.embedding.vectors()
        reranker = await asyncio.to_thread(installed_reranker)
        return Recall(self.ledgers, vectors, visible=visible, without=without, reranker=reranker)

    def _parts(self) -> Parts:
        return Parts(
            home=self.home,
            config=self.config,
            ledgers=self.ledgers,
            engine=self.engine,
            memory=self.memory,
            broker=self.broker,
            recall=self.open_recall,
            door=self.door,
        )

    async def _recall_for(self, context: ToolContext) -> Recall:
        """The memory as the principal of a tool's call may see it, without the message that it works on."""
        assert context.call is not None  # noqa: S101 - an invariant, for the reader and the type checker
        request = context.call.request
        root = await self.ledgers.runtime.read(requests.get, request_id=request.root_request_id)
        messages = (request.event.id, root.event_id if root else None)
        return await self.open_recall(visible_to(request), frozenset(filter(None, messages)))

    async def _url_given(self, context: ToolContext, url: str) -> bool:
        """Whether a URL comes from a person in the conversation that a call works for, or from the web."""
        assert context.call is not None  # noqa: S101 - an invariant, for the reader and the type checker
        thread_id = context.call.request.event.thread_id
        if not url:
            return False
        if thread_id and await self.ledgers.events.read(events.was_written, thread_id=thread_id, text=url):
            return True
        return await self.ledgers.agents.read(tool_calls.have_shown, tools=web.NAMES, text=url)

    async def _received(self, incoming: Incoming) -> Receipt:
        journey = await self.pipeline.receive(incoming)
        if journey.denied is not None:
            raise refused(journey)
        id_ = journey.request.request_id
        if journey.run is None:
            return Receipt(request_id=id_, run=FinishedRun(id_, journey.response or ""))
        return Receipt(request_id=id_, run=journey.run, execution_id=journey.run.id)

    async def _embed(self, kind: str, ids: list[str]) -> None:
        self.embedding.wake()

    async def _cosines(self, text: str, entity_ids: Sequence[str]) -> dict[str, float]:
        """One sign among several: a model that is not open yet is not waited for."""
        embedder = self.embedding.embedder
        return {} if embedder is None else await Alike(self.ledgers.embeddings, embedder)(text, entity_ids)

    async def _touch_ledgers(self) -> None:
        """Readers on a read-only mount need the files beside a ledger that its first reader makes."""
        reads = (database.read(sql.value, "SELECT 1 FROM sqlite_schema") for database in self.ledgers)
        await asyncio.gather(*reads)

    async def _start_channels(self, opening: AsyncExitStack) -> None:
        self.adapters = await asyncio.to_thread(adapters, self.config.channels, self.home)
        self.channels = Channels(
            self.ledgers,
            self.adapters.made,
            self._from_channel,
            knows=self._knows,
            retryable=(EngineUnreachableError, EngineBusyError, EngineFullError),
            settings=self.config.channels,
            zone=self.config.automations.zone,
            redact=self.adapters.redact,
        )
        opening.push_async_callback(self.channels.stop)
        await self.channels.start()

    def _sends_files(self, channel: str) -> bool:
        adapter = self.adapters.made.get(channel)
        return adapter is not None and "attachments" in adapter.capabilities

    async def _deliver(self, request: Request, text: str) -> None:
        self.channels.wake(request.event.channel or "")

    async def _before_worker(self, request: Request, context: AssembledContext) -> None:
        await self.pipeline.before_worker(request, context)

    async def _after_run(self, request: Request, context: AssembledContext, result: Result) -> None:
        await self.pipeline.after_run(request, context, result)

    async def _after_failure(self, request: Request, context: AssembledContext, error: str) -> None:
        await self.pipeline.after_failure(request, context, error)

    async def _asked(self, request: Request, approval: Approval) -> None:
        await self.pipeline.ask_owner(request, approval)

    @asynccontextmanager
    async def _opened(self, home: str) -> AsyncGenerator[Ledgers]:
        """The ledgers of the one home that this process serves."""
        assert home == ""  # noqa: S101 - an invariant, for the reader and the type checker
        yield self.ledgers
