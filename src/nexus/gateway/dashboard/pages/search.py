"""One search over everything, as a page and for the palette; and the list of commands."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.config import Config
from nexus.gateway.dashboard.render import get, is_part, page, read_period
from nexus.gateway.views import address, automations, sessions
from nexus.gateway.views.settings import list_sections
from nexus.ledgers import sql
from nexus.ledgers.events import search as events
from nexus.ledgers.events.search import Hit
from nexus.ledgers.text import words
from nexus.memory.views import entities, facts, names
from nexus.memory.views.page import ALWAYS, Period
from nexus.text import join_lines

_COMMANDS: Final = Path(__file__).parent.parent / "commands.json"
_CHARACTERS: Final = 240
_PERSON: Final = "Person"
# What an id leads to, by its prefix.
_ADDRESSES: Final = {
    "req": "/requests/",
    "exe": "/requests/",
    "evt": "/events/",
    "ent": "/memory/entities/",
    "fact": "/memory/facts/",
    "epi": "/memory/episodes/",
    "obs": "/memory/observations/",
    "mod": "/memory/models/",
    "msg": "/messages/",
}
_ID: Final = re.compile(r"([a-z]+)_[0-9A-Z]+")
PAGES: Final = (
    ("Home", "/", "overview today waiting health"),
    ("Chat", "/chat", "conversation talk message"),
    ("Requests", "/requests", "traces runs"),
    ("Recall", "/memory", "memory search question"),
    ("Profile", "/memory/profile", "memory about me"),
    ("Entities", "/memory/entities", "memory people things contacts"),
    ("Facts", "/memory/facts", "memory learned"),
    ("Review", "/memory/review", "memory learned accept reject inbox"),
    ("Episodes", "/memory/episodes", "memory conversations"),
    ("Observations", "/memory/observations", "memory conclusions"),
    ("Mental models", "/memory/models", "memory conclusions"),
    ("Merges", "/memory/merges", "memory duplicates same person"),
    ("Exam", "/memory/exam", "memory quality test contradictions missing"),
    ("Automations", "/automations", "hooks scripts schedules"),
    ("New automation", "/automations/new", "create write script"),
    ("Follow-ups", "/follow-ups", "promises todo commitments due"),
    ("Reminders", "/reminders", "schedule remind later"),
    ("Sessions", "/sessions", "transcripts history"),
    ("Import", "/import", "upload export history"),
    ("Learn from imports", "/backfill", "backfill"),
    ("Usage", "/usage", "cost spend tokens budgets money"),
    ("Settings", "/settings", "config models budgets providers"),
    ("MCP servers", "/mcp-servers", "tools sign in oauth"),
    ("Set up", "/setup", "choose model provider api key"),
    ("Channels", "/channels", "telegram email slack matrix discord"),
    ("Add a channel", "/channels/new", "connect telegram email slack matrix discord"),
    ("People", "/people", "access guests pairing codes"),
    ("Notifications", "/notifications", "push browser alerts"),
    ("Commands", "/help", "help documentation cli reference"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Something that was found, and where it is."""

    title: str
    href: str
    note: str = ""
    at: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Results of one kind."""

    name: str
    results: tuple[Result, ...]
    all: str = ""
    """Where the rest of them are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command of the program, with its one sentence."""

    name: str
    about: str


@cache
def load_commands() -> tuple[Command, ...]:
    """Load every command, as the reference lists them."""
    return tuple(Command(**each) for each in json.loads(_COMMANDS.read_text(encoding="utf-8")))


async def search(app: App, text: str, *, period: Period = ALWAYS, limit: int = 5) -> tuple[Group, ...]:
    """Search everything for a text, kind by kind; kinds without a result are left out."""
    text = text.strip()
    if not text:
        return ()
    if found := _match_id(text):
        return (Group(name="Go to", results=(found,)),)
    messages, requests = await _find_messages(app, text, period, limit)
    groups = (
        Group(name="Pages", results=_find_pages(text)[:limit]),
        *await _find_entities(app, text, period, limit),
        await _find_facts(app, text, period, limit),
        messages,
        requests,
        await _find_sessions(app, text, period, limit),
        await _find_automations(app, text, limit),
        Group(name="Settings", results=_find_settings(app.config, text)[:limit]),
        Group(name="Commands", results=_find_commands(text)[:limit], all="/help"),
    )
    return tuple(group for group in groups if group.results)


def _match_id(text: str) -> Result | None:
    found = _ID.fullmatch(text)
    address = _ADDRESSES.get(found[1]) if found else None
    return Result(title=text, href=f"{address}{text}") if address else None


def _find_pages(text: str) -> tuple[Result, ...]:
    wanted = words(text)
    return tuple(
        Result(title=name, href=href)
        for name, href, also in PAGES
        if wanted and all(_begins(word, f"{name} {also}") for word in wanted)
    )


def _begins(word: str, text: str) -> bool:
    return any(each.startswith(word) for each in words(text))


async def _find_entities(app: App, text: str, period: Period, limit: int) -> list[Group]:
    found = (await entities.load_page(app.ledgers, matching=text, period=period, limit=2 * limit)).items
    people = [each for each in found if each.type == _PERSON]
    return [
        Group(
            name=name,
            results=tuple(
                Result(
                    title=each.name,
                    href=address("memory/entities", each.id),
                    note=each.summary or each.type,
                    at=each.updated_at,
                )
                for each in those[:limit]
            ),
            all="/memory/entities",
        )
        for name, those in (("People", people), ("Things", [each for each in found if each not in people]))
    ]


async def _find_facts(app: App, text: str, period: Period, limit: int) -> Group:
    found = (await facts.load_page(app.ledgers, matching=text, period=period, limit=limit)).items
    return Group(
        name="Memory",
        results=tuple(
            Result(
                title=each.fact,
                href=address("memory/facts", each.id),
                note=each.replaced_by.note if each.replaced_by else each.source_name or "",
                at=each.at,
            )
            for each in found
        ),
        all="/memory/facts",
    )


async def _find_messages(app: App, text: str, period: Period, limit: int) -> tuple[Group, Group]:
    """Find messages that match best, and the requests that they asked for."""
    ledgers = app.ledgers
    # Dates are looked at afterwards: among the best matches.
    most = limit if period == ALWAYS else 20 * limit
    hits = [
        hit
        for hit in await ledgers.events.read(events.search, text=text, limit=most)
        if hit.occurred_at in period
    ][:limit]
    known = await names.load_sender_names(ledgers, [(hit.channel, hit.sender) for hit in hits])
    query, ids = sql.queries("runtime")["requests_of_events"], json.dumps([hit.id for hit in hits])
    asked = await ledgers.runtime.read(sql.rows, query, (ids,))
    said = {hit.id: hit for hit in hits}
    return (
        Group(
            name="Messages",
            results=tuple(
                Result(
                    title=_cut_excerpt(hit, text),
                    href=f"/events/{hit.id}",
                    note=" · ".join(
                        [known.get((hit.channel, hit.sender or ""), hit.sender or "agent"), hit.channel]
                    ),
                    at=hit.occurred_at,
                )
                for hit in hits
            ),
        ),
        Group(
            name="Requests",
            results=tuple(
                Result(title=_cut_excerpt(said[event], text), href=f"/requests/{id_}", note=status, at=at)
                for id_, event, status, at in asked[:limit]
            ),
            all="/requests",
        ),
    )


def _cut_excerpt(hit: Hit, text: str) -> str:
    """Cut the part of a message around the first word that was looked for."""
    content = join_lines(hit.content)
    folded = content.lower()
    places = [folded.find(word) for word in words(text)]
    start = max(0, min((place for place in places if place >= 0), default=0) - _CHARACTERS // 3)
    cut = content[start : start + _CHARACTERS]
    return f"{'…' * (start > 0)}{cut}{'…' * (start + _CHARACTERS < len(content))}"


async def _find_sessions(app: App, text: str, period: Period, limit: int) -> Group:
    found = await sessions.load_page(app.ledgers, matching=text, period=period, limit=limit, kind="people")
    results = tuple(
        Result(
            title=each.title,
            href=address("sessions", each.label),
            note=each.last_said or each.role,
            at=each.updated_at,
        )
        for each in found.items
    )
    return Group(name="Sessions", results=results, all="/sessions")


async def _find_automations(app: App, text: str, limit: int) -> Group:
    wanted = words(text)
    found = [
        line
        for place in await automations.list_by_hook_point(app.ledgers)
        for line in place.automations
        if all(
            _begins(word, f"{line.automation.name} {line.automation.description or ''}") for word in wanted
        )
    ]
    results = tuple(
        Result(
            title=line.automation.name,
            href=address("automations", line.automation.name),
            note=line.automation.description or line.condition.text,
        )
        for line in found[:limit]
        if wanted
    )
    return Group(name="Automations", results=results, all="/automations")


def _find_settings(config: Config, text: str) -> tuple[Result, ...]:
    wanted = words(text.replace("_", " "))
    return tuple(
        Result(title=f"{section.name}.{each.name}", href=f"/settings#{section.name}", note=each.about)
        for section in list_sections(config)
        for each in section.settings
        if wanted and all(_begins(word, f"{section.name} {each.name.replace('_', ' ')}") for word in wanted)
    )


def _find_commands(text: str) -> tuple[Result, ...]:
    wanted = words(text)
    named = [each for each in load_commands() if all(_begins(word, each.name) for word in wanted)]
    about = [
        each
        for each in load_commands()
        if each not in named and all(_begins(word, f"{each.name} {each.about}") for word in wanted)
    ]
    return tuple(
        Result(title=each.name, href=f"/help#{each.name.replace(' ', '-')}", note=each.about)
        for each in [*named, *about]
        if wanted
    )


_IN_PALETTE = 4
_ON_PAGE = 8


async def show_results(request: Request, app: App) -> Response:
    """Show what a text finds."""
    text = request.query_params.get("q", "").strip()[:400]
    limit = _IN_PALETTE if is_part(request) else _ON_PAGE
    groups = await search(app, text, period=read_period(request), limit=limit)
    template = "part_search.html" if is_part(request) else "search.html"
    return await page(request, template, active="search", groups=groups, asked=text)


async def show_commands(request: Request, app: App) -> Response:
    """Show every command."""
    return await page(request, "help.html", active=None, commands=load_commands())


ROUTES = (get("/search", show_results), get("/help", show_commands))
