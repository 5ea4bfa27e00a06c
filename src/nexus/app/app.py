"""The composition root of one home, as programs use it."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, Unpack

from nexus import clock, commands
from nexus.app.building import BY_OWNER, BuiltHome, Shared
from nexus.attachments import File
from nexus.automations import registration, reminders
from nexus.automations.context import Occasion
from nexus.automations.registry import Entry
from nexus.automations.reminders import Place
from nexus.automations.scheduling import Scheduling, schedule_tool
from nexus.broker import broker
from nexus.broker.agent.mcp import Servers
from nexus.broker.tools import Context as ToolContext
from nexus.broker.tools import web
from nexus.broker.tools.files import send_file_tool
from nexus.broker.tools.functions import Finder
from nexus.broker.tools.recall import recall_tool, visible_to
from nexus.broker.tools.sandbox import Grant as SandboxGrant
from nexus.broker.tools.sandbox import Limits as SandboxLimits
from nexus.broker.tools.sandbox import Sandbox
from nexus.broker.tools.skill import skill_tool
from nexus.channels.kinds import build_adapters
from nexus.channels.supervisor import Channels
from nexus.config import Config, ToolsConfig, load
from nexus.engine import Settings
from nexus.engine.errors import EngineBusyError, EngineFullError, EngineUnreachableError
from nexus.engine.forgetting import Forgetting
from nexus.errors import LedgerError, NexusError, UsageError
from nexus.home import Home, locate
from nexus.ledgers import events, forgetting, rebuild_if_damaged, reconcile, sql, staging
from nexus.ledgers.agents import tool_calls
from nexus.ledgers.identity import senders
from nexus.ledgers.runtime import automations, executions, requests, usage
from nexus.ledgers.runtime.executions import Mode
from nexus.ledgers.runtime.invocations import Invocation
from nexus.memory.recall.item import PATIENT_MS, How, Matches, Options, Query, make_query
from nexus.memory.recall.recall import Recall
from nexus.memory.writing import Provenance
from nexus.pipeline import Incoming, incoming
from nexus.request import Agent, Event, Request, check_label
from nexus.results import Erasure, Reflection, StoredFact
from nexus.roles import reflection
from nexus.roles.bundled import bundled_plugins
from nexus.roles.memory_injection import experiment
from nexus.roles.memory_injection.experiment import Variation
from nexus.roles.services import seed_roles
from nexus.runs import Receipt, Run, Totals
from nexus.skills.memory_socket import OWNER

# Of one process of a server, which may live for days; then it is started again.
_SERVER_CPU_S: Final = 3600
_log = logging.getLogger(__name__)


class Lifecycle(BuiltHome):
    """A home that can be opened and closed: `async with`."""

    def __init__(
        self,
        home: Home,
        config: Config,
        *,
        serve: bool = True,
        memory_socket: bool = False,
        now: clock.Clock = clock.now,
        shared: Shared | None = None,
    ) -> None:
        super().__init__(home, config, now, shared)
        self._serve = serve
        self._has_socket = memory_socket
        self._stack = AsyncExitStack()
        self._reconciled: reconcile.Reconciled | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            if self._serve and reconcile.is_due(self.home):
                self._reconciled = await asyncio.to_thread(reconcile.reconcile, self.home)
            if self._serve:
                await asyncio.to_thread(rebuild_if_damaged, self.home)
                await asyncio.to_thread(staging.remove_left_trial, self.home)
            await opening.enter_async_context(self.ledgers)
            if self._has_socket:
                await self._touch_ledgers()
                # The socket comes before the engine: a second process is refused before it takes any work.
                await opening.enter_async_context(self.memory_socket(OWNER, BY_OWNER))
            await opening.enter_async_context(self.models)
            await self._open_tools(opening)
            opening.push_async_callback(self.automations.close)
            await asyncio.to_thread(seed_roles, self.home)
            await self.automations.load(bundled_plugins(self.services()))
            opening.push_async_callback(self.engine.close)
            # What was under way when its process died goes on from here (`engine.store.take_over`).
            await self.engine.open(serve=self._serve)
            if self._reconciled is not None:
                # It ended after the moment that the ledgers were restored to.
                await self.engine.forget_ended()
            opening.push_async_callback(self.automations.settle)
            owner = incoming.owner(self.config.tools, self.home)
            await self.automations.start(serve=self._serve, access=owner)
            opening.push_async_callback(self.embedding.stop)
            if self._serve:
                await self._start_work(opening)
            opening.push_async_callback(self.imports.close)
            # Whoever has the socket serves the channels, also while it stands by: messages are recorded, and
            # answered by the process that owns the engine.
            if self._serve and self._has_socket:
                await self.imports.recover()
                await self._start_channels(opening)
            self._stack = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def is_settled(self) -> bool:
        """Whether everything that was accepted is the engine's, so that the home can be closed."""
        return not (
            self._outbox.is_late or self.automations.queue.is_handing_over or self.imports.is_importing
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way that only an open home goes on with."""
        return self.is_settled and not self.embedding.is_busy

    async def _open_tools(self, opening: AsyncExitStack) -> None:
        servers = await opening.enter_async_context(
            Servers(self.config.mcp, self.home.state, sandbox=_server_sandbox(self.config, self.home))
        )
        own = [
            recall_tool(self._recall_for),
            schedule_tool(Scheduling(self.ledgers, self.reminders)),
            *web.web_tools(self.config.web, self._url_given),
        ]
        self.broker.add_tools([*own, *await servers.tools()])
        apart = [
            send_file_tool(self.home, self.config.attachments),
            skill_tool(self.broker.skills, self.ledgers),
        ]
        self.broker.add_tools(apart, for_everybody=False)
        if self._serve:
            await self._open_python_tools()

    async def _open_python_tools(self) -> None:
        def grant(directories: tuple[str, ...]) -> tuple[SandboxGrant, ...]:
            return _owner_grants(ToolsConfig(directories=directories), self.home)

        finder = Finder(
            settings=self.config.python_tools,
            sandbox=Sandbox(hidden=(self.home.root.resolve(),), cgroup=self.home.cgroup),
            grant=grant,
            taken=self.broker.tools,
        )
        tools, problems = await finder.find()
        self.broker.add_tools(tools)
        self.automations.problems += problems

    async def _start_work(self, opening: AsyncExitStack) -> None:
        """Begin what only a process that serves the home does."""
        last_rowid = await self.ledgers.runtime.read(requests.last_rowid)
        self.embedding.start()
        await self.upkeep.schedule()
        await self.conclusions.schedule()
        await self.missed_turns.schedule()
        await self.calendar_sync.schedule()
        await self.backfill.recover()
        opening.push_async_callback(self.timetable.stop)
        await self.timetable.start()
        await self.broker.hand_over_late()
        await self.broker.end_orphans(last_rowid)
        ending = asyncio.create_task(self._end_late_orphans(last_rowid), name="end-orphans")
        opening.callback(ending.cancel)
        opening.push_async_callback(self._outbox.stop)
        hand_over_invocations = partial(self.automations.queue.hand_over_missing, self.ledgers)
        self._outbox.start(self.broker.hand_over_late, hand_over_invocations)
        if self._reconciled is not None:
            await self.reception.hand_over_again(self._reconciled.unheard)
            await self.missed_turns.ask_about(self._reconciled.unwritten)
            await asyncio.to_thread(reconcile.unmark, self.home)
            _log.warning("the ledgers were restored and reconciled: %s", self._reconciled)

    async def _end_late_orphans(self, last_rowid: int) -> None:
        """End what other processes that had the home open left so: what they don't take in after so long.

        Where this process stands by, those of the owner follow once it has taken over.
        """
        if not self.engine.serving:
            await self.engine.taken_over.wait()
            last_rowid = await self.ledgers.runtime.read(requests.last_rowid)
        while True:
            await asyncio.sleep(broker.LONGEST_INTAKE.total_seconds())
            try:
                return await self.broker.end_orphans(last_rowid)
            except LedgerError as error:
                _log.warning("requests that the owner left open are ended later: %s", error)

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

    async def _touch_ledgers(self) -> None:
        """Readers on a read-only mount need the files beside a ledger that its first reader makes."""
        reads = (database.read(sql.value, "SELECT 1 FROM sqlite_schema") for database in self.ledgers)
        await asyncio.gather(*reads)

    async def _start_channels(self, opening: AsyncExitStack) -> None:
        self.adapters = await asyncio.to_thread(build_adapters, self.config.channels, self.home)
        self.channels = Channels(
            self.ledgers,
            self.adapters.by_name,
            self.reception.from_channel,
            knows=self.reception.knows,
            retryable=(EngineUnreachableError, EngineBusyError, EngineFullError),
            settings=self.config.channels,
            zone=self.config.automations.zone,
            redact=self.adapters.redact,
            let_pass=self.broker.pace.let_pass,
        )
        opening.push_async_callback(self.channels.stop)
        await self.channels.start()


def _server_sandbox(config: Config, home: Home) -> Sandbox | None:
    """The sandbox of MCP servers: with the owner's directories, without a network."""
    if not any(each.command and each.sandbox for each in config.mcp.values()):
        return None
    limits = SandboxLimits(cpu_seconds=_SERVER_CPU_S)
    return Sandbox(
        grants=_owner_grants(config.tools, home),
        hidden=(home.root.resolve(),),
        limits=limits,
        cgroup=home.cgroup,
    )


def _owner_grants(tools: ToolsConfig, home: Home) -> tuple[SandboxGrant, ...]:
    directories = incoming.owner(tools, home).directories
    return tuple(SandboxGrant(path=Path(each.path), writable=each.writable) for each in directories)


class App(Lifecycle):
    """One home, open: `async with App.open() as app: run = await app.send("Hello")`.

    With `serve=False` this process asks and watches, and leaves the work to one that serves. With
    `memory_socket` it also lets the memory's scripts in; one process of a home can.
    """

    @classmethod
    def open(cls, home: Home | Path | str | None = None, *, serve: bool = True) -> Self:
        """A home with its settings, by default the one that NEXUS_HOME names; enter it to open it."""
        place = home if isinstance(home, Home) else locate(Path(home) if home else None)
        return cls(place, load(place.require().config_file), serve=serve)

    async def send(
        self,
        text: str,
        *,
        session_label: str = "main",
        channel: str = "cli",
        model: str = "",
        mode: Mode = "followup",
        external_id: str | None = None,
        files: Sequence[File] = (),
    ) -> Run:
        """Send a message as the owner and return its run without waiting for the answer.

        Messages sent again under the same `external_id` are processed once.
        """
        receipt = await self.receive(
            text,
            session_label=session_label,
            channel=channel,
            model=model,
            mode=mode,
            external_id=external_id,
            files=files,
        )
        return receipt.run

    async def receive(
        self,
        text: str,
        *,
        session_label: str = "main",
        channel: str = "cli",
        model: str = "",
        role: Literal["manager", "worker"] = "manager",
        has_tools: bool = True,
        mode: Mode = "followup",
        external_id: str | None = None,
        files: Sequence[File] = (),
        replaces: str | None = None,
        fork_of: tuple[str, str] | None = None,
    ) -> Receipt:
        """Take a message from the owner; one with the same `external_id` as before is not taken twice.

        A message with images doesn't steer a run under way: it gets its own. With `replaces`, a run's id, it
        takes the place of that run's message; that turn and those after it leave the history. With `fork_of`,
        a session and one of its runs, a new session begins with what was said there up to that run. `role`
        says whose models answer if none is named.
        """
        check_label(session_label)
        if files or commands.parse(text) is None:
            try:
                await self.broker.check_models(role, model)
            except NexusError:
                # A message that comes again has its run, whatever the settings say by now.
                if external_id is None or not await self.ledgers.events.read(
                    events.find_by_external_id, channel=channel, external_id=external_id
                ):
                    raise
        text, kept = await self.reception.attach(text, files, model, role=role)
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
            role=role,
            has_tools=has_tools,
            mode=mode,
            external_id=external_id,
            replaces=replaces,
            fork_of=fork_of,
        )
        return await self.reception.accept(incoming)

    def run(self, execution_id: str) -> Run:
        """A run that was started before, here or elsewhere."""
        return self.broker.run(execution_id)

    async def regenerate(self, execution_id: str, model: str = "") -> Run:
        """Answer the message of a finished run again; the new answer replaces the old one."""
        await self.broker.check_models("manager", model)
        return await self.broker.regenerate(execution_id, model)

    async def experiment(
        self,
        execution_id: str,
        *,
        without: Sequence[str] = (),
        memories: str | None = None,
        profile: str | None = None,
    ) -> Run:
        """Ask for a finished answer once more without some memories, or with others in their place.

        The new answer is not part of the conversation, and nothing is remembered from it. Its cost is the
        message's.
        """
        changed = Variation(without=frozenset(without), memories=memories, profile=profile)
        return await experiment.start(self.broker, execution_id, changed)

    async def accept(self, incoming: Incoming) -> Receipt:
        """Take a message from anyone, over a channel or directly; a repeated delivery is not taken twice."""
        return await self.reception.accept(incoming)

    async def recall(self, query: str | Query, **options: Unpack[Options]) -> Matches:
        """Memories that match a question, best first, with the reasons. No model is called."""
        asked = Query(text=query, deadline_ms=PATIENT_MS) if isinstance(query, str) else query
        return await (await self.open_recall()).find(make_query(asked, options))

    async def remember(
        self,
        fact: str,
        *,
        about: str | None = None,
        entities: Sequence[str] = (),
        as_of: datetime | str | None = None,
        confidence: float = 1.0,
        replaces: Sequence[str] = (),
        how: How | None = None,
    ) -> StoredFact:
        """Store a fact as the owner. It is durable when this returns."""
        given: dict[str, Any] = {
            "fact": fact,
            "about": about,
            "entities": list(entities),
            "as_of": as_of.isoformat() if isinstance(as_of, datetime) else as_of,
            "confidence": confidence,
            "replaces": list(replaces),
            "how": how,
        }
        known = {name: value for name, value in given.items() if value is not None}
        stored = await self.memory.run("fact", known, BY_OWNER)
        return StoredFact(id=stored["id"], replaces=tuple(replaces))

    async def correct(
        self, fact_id: str, fact: str, *, how: How | None = None, by: str = "", channel: str = "cli"
    ) -> StoredFact:
        """Replace a fact by what is true now. Both stay in the log. `by` names the person who typed it."""
        person = Provenance(actor=f"person:{by}", kind="owner", channel=channel)
        stored = await self.memory.correct(fact_id, fact, person if by else BY_OWNER, how=how)
        return StoredFact(id=stored["id"], replaces=(stored["replaces"],))

    async def forget(self, entity: str, *, mentions: bool = True) -> Erasure:
        """Erase an entity from every ledger. This can't be undone.

        With `mentions=False`, texts of others that only name it are kept.
        """
        target = await forgetting.find(self.ledgers, forgetting.entity, wanted=entity, mentions=mentions)
        return await self._erase(target)

    async def forget_fact(self, fact_id: str) -> Erasure:
        """Erase a fact and what was concluded from it. The message that it came from stays."""
        target = await forgetting.find(self.ledgers, forgetting.fact, wanted=fact_id)
        return await self._erase(target)

    async def forget_preview(
        self, *, entity: str = "", fact: str = "", mentions: bool = True
    ) -> forgetting.Plan:
        """What forgetting an entity or a fact would erase. Nothing is changed."""
        if fact:
            target = await forgetting.find(self.ledgers, forgetting.fact, wanted=fact)
        else:
            target = await forgetting.find(self.ledgers, forgetting.entity, wanted=entity, mentions=mentions)
        return await forgetting.preview(self.ledgers, target)

    async def forget_import(self, import_id: str) -> Erasure:
        """Undo an import: what it recorded, and what was learned from it. This can't be undone."""
        if self.imports.is_importing:
            raise UsageError("An import is under way", hint="Undo it when that is done.")
        target = await forgetting.find(self.ledgers, forgetting.import_, wanted=import_id)
        return await self._erase(target)

    async def forget_session_preview(self, thread_ids: Sequence[str]) -> list[forgetting.Plan]:
        """What would go with the conversations of a session."""
        found = [await forgetting.find(self.ledgers, forgetting.thread, wanted=id_) for id_ in thread_ids]
        return [await forgetting.preview(self.ledgers, target) for target in found]

    async def forget_session(self, session_label: str, thread_ids: Sequence[str]) -> None:
        """Erase the conversations of a session, and what was learned from them. This can't be undone."""
        if await self.active_runs(session_label):
            raise UsageError("A message is being answered in this session", hint="Stop it, then delete.")
        if not thread_ids:
            raise UsageError(
                "This session has no messages of people", hint="Archive it, or delete what it worked for."
            )
        for id_ in thread_ids:
            try:
                target = await forgetting.find(self.ledgers, forgetting.thread, wanted=id_)
            except UsageError:  # it went together with the one before
                continue
            await self._erase(target)

    def find_receipt(self, forget_id: str) -> forgetting.Receipt:
        """The receipt of a deletion; blocking."""
        return forgetting.Folder.of(self.home).find(forget_id)

    def verify_receipt(self, forget_id: str) -> forgetting.Checks:
        """What the home and its backups still have of what a receipt names; blocking."""
        folder = forgetting.Folder.of(self.home)
        return forgetting.verify(self.home, folder.file(folder.find(forget_id).id))

    async def resume_forgetting(self) -> None:
        """Finish what a crash interrupted in erasing."""
        if await forgetting.list_unfinished(self.ledgers):
            await forgetting.resume(self.ledgers, beside=self._copies)

    async def _erase(self, target: forgetting.Target) -> Erasure:
        report = await forgetting.forget(self.ledgers, target, actor=OWNER, beside=self._copies)
        if report is None:
            return Erasure()
        return Erasure(
            forget_id=report.forget_id,
            removed=report.counts.removed,
            emptied=report.counts.emptied,
            kept=report.kept,
            files=report.counts.files,
            named_in=tuple(str(path) for path in report.named_in),
            seconds=report.seconds,
        )

    @property
    def _copies(self) -> Forgetting:
        """What there is of the home beside its ledgers."""
        elsewhere = self.shared.forgetting if self.shared else nullcontext
        return Forgetting(Settings.of_home(self.home, self.config.engine), elsewhere=elsewhere)

    async def draft_reminder(self, words: str) -> reminders.Draft:
        """What a reminder in words would be, such as `in two hours call Anna`. Nothing is saved."""
        return await self.reminders.draft(words)

    async def list_reminders(self) -> list[reminders.Reminder]:
        """Every reminder, in the order in which they were made."""
        return await self.reminders.load_all()

    async def remind(
        self, new: reminders.Draft, *, session_label: str = "main", channel: str = "cli"
    ) -> reminders.Reminder:
        """Save a reminder, as `draft_reminder` gave it: it arrives in that session, on that channel."""
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
        return reminders.describe_row(await self.reminders.save(new, place), self.reminders.now())

    async def run_automation(self, name: str, content: str = "") -> Invocation:
        """Run an automation now with a message of the owner's, whatever its triggers and circuit say."""
        found = await self.ledgers.runtime.read(automations.get, name=name)
        if found is None:
            raise registration.unknown_automation(name)
        registration.check_approved(found)
        runner = self.automations.runner
        entry = Entry(found, runner.registry.handlers.get(found.script_path or ""))
        request = Request(
            event=Event(content=content, channel="cli"),
            agent=Agent(session_label="main"),
            access=incoming.owner(self.config.tools, self.home),
        )
        await self.ledgers.runtime.write(requests.create, request=request)
        invocation = await runner.run_now(entry, Occasion(request=request))
        status = "done" if invocation.status == "done" else "failed"
        await self.ledgers.runtime.write(
            requests.end, request_id=request.request_id, status=status, error=invocation.error
        )
        return invocation

    async def reflect(
        self,
        question: str,
        *,
        save_as: str | None = None,
        model: str = "",
        asking: reflection.Asking | None = None,
    ) -> Reflection:
        """Answer a question from the memory, with sources; with `save_as`, keep it as a mental model."""
        asking = asking or reflection.Asking(model=model)
        return await reflection.reflect(self.services(), question, save_as=save_as, asking=asking)

    async def refresh(self, mental_model: str, *, model: str = "") -> Reflection:
        """Make the next version of a mental model, given by its id or its name."""
        return await reflection.refresh(self.services(), mental_model, asking=reflection.Asking(model=model))

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
            access=incoming.owner(self.config.tools, self.home),
        )
        await self.automations.runner.fire("command:new", Occasion(request=request))

    async def cost(self, session_label: str) -> Totals:
        """Token usage and cost of a session so far."""
        return await self.ledgers.runtime.read(usage.of_session, session_label=session_label)

    async def runs_after(self, session_label: str, execution_id: str = "") -> list[Run]:
        """The runs of a session that were started after another one, by anyone."""
        found = await self.ledgers.runtime.read(
            executions.list_begun_in, session_label=session_label, after=execution_id
        )
        return [self.broker.run(id_) for id_ in found]

    async def active_runs(self, session_label: str) -> list[Run]:
        """The unfinished runs of a session, including those that a crash interrupted."""
        unfinished = await self.ledgers.runtime.read(
            executions.list_unfinished_in, session_label=session_label
        )
        return [self.broker.run(id_) for id_ in unfinished]
