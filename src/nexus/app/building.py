"""The parts of a home, built and wired; nothing is opened yet."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from nexus import clock
from nexus.app.commands import Commands as ChatCommands
from nexus.app.reception import Reception
from nexus.attachments import Attachment
from nexus.automations import reminders
from nexus.automations.automations import Automations
from nexus.automations.reminders import Reminders
from nexus.automations.services import BrokerServices
from nexus.broker.agent.knowledge import Knowledge
from nexus.broker.agent.models import Models
from nexus.broker.agent.records import AGENT_WORK
from nexus.broker.agent_run import AgentRuns
from nexus.broker.broker import Broker
from nexus.broker.queue import Outbox, SessionQueue
from nexus.broker.streams import Streams
from nexus.channels.kinds import Adapters
from nexus.channels.supervisor import Channels
from nexus.config import Config
from nexus.engine import Engine, Settings
from nexus.errors import ModelFileError
from nexus.history import ImportJobs
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.fencing import Fence
from nexus.ledgers.threads import Workers
from nexus.memory.embedding import Vectors, choose_model_id, make_opener
from nexus.memory.embedding.background import Background, Open, Turns
from nexus.memory.gate import Rules
from nexus.memory.operations import Memory
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.reranker import ready_reranker
from nexus.memory.upkeep import Upkeep
from nexus.memory.writing import Provenance
from nexus.pipeline import Pipeline
from nexus.pipeline.delivery import Delivery
from nexus.pipeline.timetable import Reminding, Timetable
from nexus.request import EVERYTHING, Visibility
from nexus.roles.backfill import Backfilling
from nexus.roles.calendar import CalendarSync
from nexus.roles.conclusions import Conclusions
from nexus.roles.memory_writer.turns import Sweep
from nexus.roles.services import Services
from nexus.skills.commands import Commands
from nexus.skills.memory_socket import OWNER, MemorySocket

BY_OWNER: Final = Provenance(actor=OWNER, kind="owner")
"""Where what the owner writes comes from."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What the homes of one process have in common."""

    engine: Engine
    """The home's part of the engine."""
    threads: Workers
    open_model: Open
    """Opens embedding models, each once in the process."""
    embedding: asyncio.Semaphore
    """Places for portions of texts that are embedded at a time."""
    forgetting: Callable[[], AbstractAsyncContextManager[None]]
    """Entered while something is erased from the home: copies elsewhere are to lose it too."""
    fence: Fence | None = None
    """Where several hosts may serve the home: whether this one still may write."""


class BuiltHome:
    """Everything that makes up an open home, in the order in which the parts depend on each other."""

    def __init__(self, home: Home, config: Config, now: clock.Clock, shared: Shared | None = None) -> None:
        self.home = home.require()
        self.shared = shared
        self.config = config
        self.ledgers = Ledgers(home, config.ledgers, shared and shared.threads, fence=shared and shared.fence)
        self.engine = shared.engine if shared else Engine(Settings.of_home(home, config.engine))
        self.embedding = Background(
            self.ledgers,
            shared.open_model if shared else make_opener(config.memory),
            choose_model_id(config.memory),
            Turns(
                may_run=lambda: self.engine.may_run,
                let_pass=self._let_pass,
                places=shared and shared.embedding,
            ),
        )
        self.memory = Memory(
            self.ledgers,
            enqueue_embedding=self._embed,
            cosines=self._cosines,
            phone_region=config.memory.phone_region,
            keeps_codes=config.memory.keep_codes,
        )
        self.upkeep = Upkeep(self.ledgers, self.engine)
        self._outbox = Outbox()
        self._transcribing = asyncio.Lock()
        """One recording at a time: it takes a processor's whole time."""
        self.queue = SessionQueue(self.engine, self.ledgers, note_late=self._outbox.note_late)
        self.models = Models(config, knowledge=Knowledge(self.ledgers.runtime))
        self.streams = Streams(home.run, lambda: self.engine.serving)
        self.broker = Broker(
            home,
            config,
            self.ledgers,
            self.queue,
            self.models,
            self.streams,
        )
        services = BrokerServices(self.ledgers, self.broker, self.open_recall)
        self.delivery = Delivery(self.ledgers, self.memory, self._wake_channel)
        self.automations = Automations(
            self.ledgers,
            config.automations,
            self.engine,
            services,
            now,
            memory_socket=self.memory_socket,
            destinations=self.delivery,
            note_late=self._outbox.note_late,
        )
        runner = self.automations.runner
        self.reminders = Reminders(self.ledgers, config.automations, now)
        commands = ChatCommands(self.ledgers, config, self.broker, runner, self.reminders, self.open_recall)
        self.pipeline = Pipeline(
            self.ledgers,
            config,
            self.broker,
            runner,
            self.delivery,
            run_command=commands.answer,
            sends_files=self._sends_files,
            transcribe=self._transcribe,
        )
        agents = AgentRuns(self.broker, self.pipeline)
        self.queue.register(AGENT_WORK, agents.run, agents.after_loss)
        self.reception = Reception(home, config, self.ledgers, self.broker, self.pipeline)
        self.adapters = Adapters(home=home)
        self.testing_models = asyncio.Lock()
        """Held while a model is tested: nothing is reserved for a test, so only one may spend at a time."""
        self.channels = Channels(self.ledgers, {}, self.reception.from_channel)
        self.timetable = Timetable(self.ledgers, config, self.engine, runner, now)
        self.automations.add_handler(
            reminders.SCRIPT, Reminding(self.reception.accept, self.reception.is_owners)
        )
        self.conclusions = Conclusions(self.services())
        self.calendar_sync = CalendarSync(self.services(), now)
        self.missed_turns = Sweep(self.services(), runner)
        self.backfill = Backfilling(self.services(), now)
        self.imports = ImportJobs(self.ledgers, self.memory, config)

    def memory_socket(
        self,
        name: str,
        provenance: Provenance,
        *,
        writes: bool = True,
        rules: Rules | None = None,
        visible: Visibility = EVERYTHING,
    ) -> MemorySocket:
        """A socket of its own for one principal, whose directory can be granted to it alone."""
        recall = partial(self.open_recall, visible)
        commands = Commands(self.memory, recall, provenance, writes=writes, rules=rules, visible=visible)
        return MemorySocket(self.socket_folder(name), commands.answer)

    def socket_folder(self, name: str) -> Path:
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
        reranker = await ready_reranker()
        return Recall(self.ledgers, vectors, visible=visible, without=without, reranker=reranker)

    def services(self) -> Services:
        return Services(
            home=self.home,
            config=self.config,
            ledgers=self.ledgers,
            engine=self.engine,
            memory=self.memory,
            broker=self.broker,
            open_recall=self.open_recall,
            memory_socket=self.memory_socket,
        )

    @property
    def is_hosted(self) -> bool:
        """Whether it is one of many homes of a host, whose networks and keys are not its owner's."""
        return self.shared is not None

    def redact(self, text: str) -> str:
        """Take every key, token and password that was read for models and channels out of a text."""
        return self.adapters.redact(self.models.redact(text))

    async def _let_pass(self) -> None:
        await self.broker.pace.let_pass()

    async def _embed(self, kind: str, ids: list[str]) -> None:
        self.embedding.wake()

    async def _cosines(self, text: str, entity_ids: Sequence[str]) -> dict[str, float]:
        """One sign among several: a model that is not open yet is not waited for."""
        vectors = self.embedding.open_vectors
        return {} if vectors is None else await vectors.cosines("entity", text, entity_ids)

    def _sends_files(self, channel: str) -> bool:
        adapter = self.adapters.by_name.get(channel)
        return adapter is not None and "attachments" in adapter.capabilities

    async def _transcribe(self, recording: Attachment, tell: Callable[[str], None]) -> str:
        # Imported here, because most homes hear nothing.
        from nexus.voice import transcribe

        async with self._transcribing:
            return await transcribe(self.home, self.config, recording, tell)

    def _wake_channel(self, channel: str) -> None:
        self.channels.wake(channel)
