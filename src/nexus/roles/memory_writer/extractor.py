"""Structured mode: one call per chunk of a turn, in a session of its own, without tools."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import apsw

from nexus.automations.workspace import Workspace
from nexus.context import AssembledContext
from nexus.errors import UnusableAnswerError, UsageError
from nexus.ledgers.memory import newest_about
from nexus.ledgers.runtime.models import Capabilities
from nexus.memory.operations import BATCH
from nexus.memory.recall.item import Item, Query
from nexus.memory.recall.question import find_referents
from nexus.memory.recall.reading import Deadline, LateError
from nexus.memory.writing import Provenance
from nexus.request import EVERYTHING, Access, Request
from nexus.roles import services
from nexus.roles.memory_writer import extraction
from nexus.roles.memory_writer.drafting import Drafting
from nexus.roles.memory_writer.evidence import Heard
from nexus.roles.memory_writer.extraction import Chunk, Extraction, structured_text
from nexus.roles.memory_writer.gate import Gate
from nexus.roles.memory_writer.names import describe_entities, load_names
from nexus.roles.services import Services

ROLE: Final = "writer"
_NAME: Final = "memory-writer"
_TURNS: Final = 2
_REFERENTS_MS: Final = 500
# How many facts the model sees on the same matters, and how long looking for them may take.
_MOST_NOTES: Final = 8
_NOTES_A_MESSAGE: Final = 5
_NEWEST_NOTES: Final = 4
_ASKED_CHARACTERS: Final = 400
_NOTES_MS: Final = 1_000
# What it has learned about its work must not crowd out the work.
_LEARNED: Final = 1_500
_NOTHING: Final = "Nothing to remember"
_AGAIN: Final = "That was not the JSON object ({reason}). Answer again with the object alone."
# What a call is taken to be: instructions and a few messages, and as many facts as they can hold.
_PROMPT_TOKENS: Final = 3_000
_OUTPUT_TOKENS: Final = 1_000
# A shared machine gets slower than it was, and a person's messages go first.
_SLOWER_TIMES: Final = 4
_LEAST_MS: Final = 60_000
# It calls nothing, whatever its messages ask for.
ACCESS: Final = Access(level="known", tools=frozenset(), directories=(), memory="own")


Ask = Callable[[AssembledContext, int], Awaitable[str]]
"""What the model answers to a prompt. The number tells the attempts of one session apart."""
Operations = list[dict[str, Any]]


@dataclass(kw_only=True)
class Extractor:
    """One run of the writer in structured mode."""

    services: Services
    request: Request
    """On whose account it runs."""
    workspace: Workspace
    label: str
    """The name that its sessions share."""
    ask: Ask
    gate: Gate
    provenance: Provenance
    time_limit_ms: Callable[[int], int | None] = lambda calls: None
    """The time that so many calls may take."""
    most_calls: int = extraction.MOST_CHUNKS
    write: Callable[[Operations], Awaitable[object]] | None = None
    """Takes what was found; None: it is written to the memory."""
    shows_notes: bool = True
    """Whether the model sees what is known on the same matters, to say what is no longer true."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a draft becomes memory: two drafts that name somebody new would make them twice."""
    _said: list[str] = field(default_factory=list[str])
    _timeout_ms: int | None = None

    async def run(self, names: Sequence[str]) -> str:
        """Write what the turns teach; returns the outcome in a line."""
        chunks, left, due = await self.cut_chunks()
        if not chunks:
            return _NOTHING
        self._timeout_ms = self.time_limit_ms(len(chunks))
        meant = await self._find_referents(due)
        self.gate.meant = frozenset(meant.values())
        shown = await self.describe_known(names, meant)
        for number, chunk in enumerate(chunks, start=1):
            notes = await self._load_notes(chunk, [*meant.values()]) if self.shows_notes else []
            await self._learn_from(chunk, number, shown, meant, notes)
        if left:
            self._said.append(f"{left} further characters were not read")
        return "; ".join(self._said) or _NOTHING

    async def cut_chunks(self) -> tuple[list[Chunk], int, list[Heard]]:
        """Cut what is new into chunks; returns also how many characters are left, and the messages."""

        def cut() -> tuple[list[Chunk], int, list[Heard]]:
            due = [each for each in self.gate.evidence.due if self._is_news(each)]
            if not due:
                return [], 0, []
            heard = self.gate.evidence.heard
            first = next((n for n, each in enumerate(heard) if each is due[0]), 0)
            before = [each for each in heard[:first] if each.message is not None]
            return *extraction.cut_chunks(due, before, self.most_calls), due

        return await asyncio.to_thread(cut)

    def _is_news(self, heard: Heard) -> bool:
        """Whether to learn from a message: delegated ones belong to another turn, questions teach nothing."""
        if self.gate.is_delegated and heard.tool is None:
            return False
        return extraction.says_something(heard)

    async def _learn_from(
        self,
        chunk: Chunk,
        number: int,
        shown: Sequence[str],
        meant: dict[str, str],
        notes: Sequence[Item],
    ) -> None:
        found = await self._ask_model(chunk, number, shown, notes)
        if found is None or (not found.facts and not found.people):
            return

        def draft(connection: apsw.Connection) -> Operations:
            return Drafting(
                connection=connection,
                sources=chunk.sources,
                meant=meant,
                notes=[note.id for note in notes],
                phone_region=self.gate.phone_region,
            ).draft_operations(found)

        async with self.writing:
            operations = await self.services.ledgers.identity.read(draft)
            if not operations:
                return
            try:
                if self.write is not None:
                    await self.write(operations)
                else:
                    await self.services.memory.run(
                        BATCH, {"operations": operations}, self.provenance, rules=self.gate
                    )
            except UsageError as error:
                self._said.append(f"nothing could be written: {error.message}")
                return
        self._said.append(f"{len(found.facts)} facts found")

    async def _ask_model(
        self, chunk: Chunk, number: int, shown: Sequence[str], notes: Sequence[Item] = ()
    ) -> Extraction | None:
        """Ask the model what it finds; an answer that can't be read is asked for once more."""
        label = f"meeseeks:{_NAME}:{self.label}:{number}"
        lines = [f"N{place} ({note.at[:10]}) {note.text}" for place, note in enumerate(notes, start=1)]
        task = extraction.write_task(chunk, shown, lines)
        for attempt in range(_TURNS):
            answer = await self.ask(await self.assemble(label, task, with_notes=bool(notes)), attempt)
            try:
                return extraction.read_answer(answer)
            except UnusableAnswerError as error:
                task = _AGAIN.format(reason=error.message)
                if attempt + 1 == _TURNS:
                    self._said.append(f"the answer could not be read: {error.message}")
                    self.gate.note_refusal("answer", error.message)
        return None

    async def assemble(self, label: str, task: str, *, with_notes: bool = False) -> AssembledContext:
        """Assemble the prompt of one call."""
        assembled = await self.services.broker.assemble_context(
            replace(self.request, access=ACCESS), session_label=label, task=task, role=ROLE
        )
        # Its instructions are the same for every turn, so they are what a provider keeps in its cache.
        assembled.system_prompt = f"{self.workspace.role.strip()}\n\n{structured_text()}"
        assembled.knows_owner = False
        assembled.tools = ()
        assembled.situation = ""
        if self.gate.is_owners:
            lessons = await asyncio.to_thread(services.load_lessons, self.workspace, _NAME)
            assembled.role_context = lessons[:_LEARNED]
        assembled.output_schema = extraction.make_schema(with_notes=with_notes)
        assembled.max_turns = _TURNS
        assembled.timeout_ms = self._timeout_ms
        return assembled

    async def _find_referents(self, due: Iterable[Heard]) -> dict[str, str]:
        """Find whom the messages mean without a name, by how they say it: "my sister"."""
        found: dict[str, str] = {}
        if not self.gate.is_owners:
            return found
        for heard in due:
            if heard.message is not None:
                try:
                    named = await self.services.ledgers.read(
                        find_referents, heard.text, Deadline(_REFERENTS_MS)
                    )
                except LateError:
                    continue
                found |= {each.said: id_ for id_, each in named.items() if each.via != "owner" and each.said}
        return found

    async def _load_notes(self, chunk: Chunk, meant: Sequence[str]) -> list[Item]:
        """Load facts on the same matters that still hold: nearest first, then the newest of whom is meant."""
        if not self.gate.is_owners:
            return []
        recall = await self.services.open_recall(EVERYTHING)
        found: dict[str, Item] = {}
        for source in chunk.sources:
            query = Query(
                text=source.text[:_ASKED_CHARACTERS],
                kinds=frozenset({"fact"}),
                max_results=_NOTES_A_MESSAGE,
                deadline_ms=_NOTES_MS,
            )
            found |= {match.item.id: match.item for match in (await recall.find(query)).results}
        ids = await self.services.ledgers.memory.read(newest_about, entity_ids=meant, limit=_NEWEST_NOTES)
        found |= {item.id: item for item in await recall.load_items([id_ for id_ in ids if id_ not in found])}
        notes = [item for item in found.values() if item.stale_since is None][:_MOST_NOTES]
        # What it is shown it may repeat: that is an echo, and no news.
        self.gate.evidence.remember([note.text for note in notes], standing=True)
        return notes

    async def describe_known(self, names: Sequence[str], meant: dict[str, str]) -> list[str]:
        """Describe to the model whom the messages name."""
        if not self.gate.is_owners:
            return []
        lines = await self.services.ledgers.identity.read(describe_entities, names=names)
        called = await self.services.ledgers.identity.read(load_names, ids=list(meant.values()))
        return lines + [f"{said} = {called[id_]}" for said, id_ in meant.items() if id_ in called]


def estimate_limit_ms(known: Capabilities, calls: int) -> int | None:
    """Estimate the time for so many calls of a model; None if its speed is unknown."""
    if not known.prompt_tokens_per_s or not known.output_tokens_per_s:
        return None
    call_s = _PROMPT_TOKENS / known.prompt_tokens_per_s + _OUTPUT_TOKENS / known.output_tokens_per_s
    return max(_LEAST_MS, math.ceil(_SLOWER_TIMES * max(1, calls) * call_s * 1000))
