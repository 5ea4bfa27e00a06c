"""The way out: a home as a folder of Markdown that people read and Obsidian opens.

    Home.md                       what there is
    people/Sarah Chen.md          who somebody is, and what is known about them, with dates and sources
    topics/Acme.md                the same for everything else; mental models too
    timeline/2026/2026-02-13.md   everything that was said on a day, by conversation

The same home always gives the same bytes. Nothing in it is an id: links are names.
"""

import asyncio
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from nexus import ids
from nexus.errors import CareError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.sql import rows
from nexus.memory import merging
from nexus.memory.views import facts as fact_views
from nexus.memory.views.facts import Fact
from nexus.text import join_lines

_PAGE: Final = 2_000
_MOST_FACTS: Final = 100_000
_FORBIDDEN: Final = re.compile(r'[\\/:*?"<>|#^\[\]\x00-\x1f]+')

Progress = Callable[[int], None]


@dataclass(kw_only=True, slots=True)
class Written:
    """How much was written."""

    people: int = 0
    topics: int = 0
    days: int = 0
    messages: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entity:
    id: str
    type: str
    name: str
    summary: str | None
    link: str

    @property
    def is_person(self) -> bool:
        return self.link.startswith("people/")


@dataclass(slots=True)
class _Names:
    """Names of files that differ also where case does not count."""

    taken: Counter[str] = field(default_factory=Counter[str])

    def of(self, folder: str, name: str) -> str:
        plain = " ".join(_FORBIDDEN.sub(" ", name).split()).strip(". ")[:100] or "unnamed"
        key = f"{folder}/{plain.casefold()}"
        self.taken[key] += 1
        return f"{folder}/{plain}" if self.taken[key] == 1 else f"{folder}/{plain} ({self.taken[key]})"


async def write(ledgers: Ledgers, folder: Path, progress: Progress = lambda messages: None) -> Written:
    """Write the home to a new folder, which appears when it is complete."""
    folder = await asyncio.to_thread(folder.expanduser)
    if await asyncio.to_thread(folder.exists):
        raise CareError(f"{folder} already exists", hint="Name another folder, or remove that one first.")
    building = folder.with_name(f".{folder.name}.unfinished-{ids.new('exp')}")
    try:
        written = await _Export(ledgers, building, progress).run()
        await asyncio.to_thread(building.rename, folder)
    except BaseException as error:
        await asyncio.to_thread(shutil.rmtree, building, ignore_errors=True)
        if isinstance(error, OSError):
            raise CareError(
                f"{folder} could not be written: {error.strerror}", hint="Choose a place with enough space."
            ) from error
        raise
    return written


class _Export:
    def __init__(self, ledgers: Ledgers, root: Path, progress: Progress) -> None:
        self._ledgers = ledgers
        self._root = root
        self._progress = progress
        self._names = _Names()
        self._done = Written()

    async def run(self) -> Written:
        for folder in ("people", "topics", "timeline"):
            await asyncio.to_thread((self._root / folder).mkdir, parents=True)
        entities = await self._entities()
        links = {entity.id: entity.link for entity in entities}
        for entity in entities:
            await self._page(entity.link, await self._about(entity, links))
            if entity.is_person:
                self._done.people += 1
            else:
                self._done.topics += 1
        await self._models()
        await self._timeline()
        await self._page("Home", self._home())
        return self._done

    async def _entities(self) -> list[_Entity]:
        found = await self._ledgers.identity.read(rows, sql.queries("identity")["root_entities"])
        return [
            _Entity(
                id=id_,
                type=type_,
                name=name,
                summary=summary,
                link=self._names.of("people" if type_.casefold() == "person" else "topics", name),
            )
            for id_, type_, name, summary in found
        ]

    async def _about(self, entity: _Entity, links: dict[str, str]) -> str:
        same = await self._ledgers.identity.read(merging.family, entity.id)
        wanted = json.dumps(same)
        aliases, hard = await self._ledgers.identity.read(_identity, wanted)
        facts = await fact_views.load_log(self._ledgers, entity.id, limit=_MOST_FACTS)
        query = sql.queries("memory")["standing_observations"]
        observations = await self._ledgers.memory.read(rows, query, (wanted,))
        query = sql.queries("events")["presence_of"]
        [(messages, first, last)] = await self._ledgers.events.read(rows, query, (wanted,))
        front = {"type": entity.type, "aliases": sorted({alias for alias, _ in aliases} - {entity.name})}
        parts = [_front(front), f"# {entity.name}"]
        if entity.summary:
            parts.append(entity.summary)
        parts += _section("Details", [f"- {_words(kind)}: {value}" for kind, value in hard])
        parts += _section("Facts", [_fact(fact, entity.id, links) for fact in facts])
        parts += _section("Observations", [f"- {content}{_stale(stale)}" for content, stale in observations])
        if messages:
            span = f"from [[{_day(first)}|{first[:10]}]] to [[{_day(last)}|{last[:10]}]]"
            parts += _section("Messages", [f"{messages:,}, {span}."])
        return "\n\n".join(parts)

    async def _models(self) -> None:
        query = sql.queries("memory")["standing_mental_models"]
        for name, content, stale in await self._ledgers.memory.read(rows, query):
            page = f"{_front({'type': 'mental model'})}\n\n# {name}\n\n{content}{_stale(stale)}"
            await self._page(self._names.of("topics", name), page)
            self._done.topics += 1

    async def _timeline(self) -> None:
        day, held = "", list[tuple[Any, ...]]()
        at, seq = "", 0
        query = sql.queries("events")["messages_by_time"]
        while True:
            given = {"at": at, "seq": seq, "limit": _PAGE}
            page = await self._ledgers.events.read(rows, query, given)
            for row in page:
                if row[1][:10] != day and held:
                    await self._write_day(day, held)
                    held = []
                day = row[1][:10]
                held.append(row)
            if not page:
                break
            seq, at = page[-1][0], page[-1][1]
            self._progress(self._done.messages)
        if held:
            await self._write_day(day, held)

    async def _write_day(self, day: str, said: list[tuple[Any, ...]]) -> None:
        threads: dict[tuple[str, str], list[str]] = {}
        for _, at, channel, thread, kind, sender, content, files in said:
            note = "" if kind == "message" else f" ({_words(kind)})"
            lines = [f"**{at[11:16]} {sender or 'unknown'}**{note}", *_quote(content)]
            lines += [f"> *{files}*"] if files else []
            threads.setdefault((channel, thread), []).append("\n".join(lines))
        parts = [f"# {day}"]
        for (channel, thread), messages in threads.items():
            parts += [f"## {join_lines(thread) or 'Without a thread'} · {channel}", *messages]
        await self._page(_day(day), "\n\n".join(parts))
        self._done.days += 1
        self._done.messages += len(said)

    def _home(self) -> str:
        done = self._done
        return (
            f"# Home\n\n- {done.people:,} people in `people/`\n- {done.topics:,} topics in `topics/`\n"
            f"- {done.messages:,} messages on {done.days:,} days in `timeline/`"
        )

    async def _page(self, link: str, content: str) -> None:
        path = self._root / f"{link}.md"

        def put() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content + "\n", encoding="utf-8", errors="replace", newline="\n")

        await asyncio.to_thread(put)


def _identity(connection: Any, wanted: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    queries = sql.queries("identity")
    aliases = [(str(row[1]), str(row[2])) for row in rows(connection, queries["aliases_of"], (wanted,))]
    hard = [(str(row[2]), str(row[3])) for row in rows(connection, queries["person_facts_of"], (wanted,))]
    return aliases, hard


def _fact(fact: Fact, own: str, links: dict[str, str]) -> str:
    line = f"- {fact.at[:10]} {join_lines(fact.fact)}"
    others = {each for each in (fact.source_entity_id, fact.target_entity_id) if each and each != own}
    line += "".join(f" [[{links[other]}]]" for other in sorted(others) if other in links)
    if fact.said:
        line += _source(fact.said.occurred_at, fact.said.sender)
    elif fact.written:
        line += _source(fact.written.at, fact.written.by)
    if fact.replaced_by:
        line += f"\n    - {join_lines(fact.replaced_by.note)}"
    return line


def _source(at: str, sender: str | None) -> str:
    return f" ([[{_day(at)}|{sender or 'said'}, {at[:10]}]])"


def _front(values: dict[str, Any]) -> str:
    kept = {name: value for name, value in values.items() if value}
    return f"---\n{yaml.safe_dump(kept, allow_unicode=True, sort_keys=True)}---"


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "\n".join(lines)] if lines else []


def _quote(content: str) -> list[str]:
    return [f"> {line}".rstrip() for line in content.splitlines()] or [">"]


def _day(at: str) -> str:
    return f"timeline/{at[:4]}/{at[:10]}"


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _stale(stale: int) -> str:
    return " *(out of date)*" if stale else ""
