"""The home page: what waits for the owner, what happened today, what is wrong; and what was spent."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

import apsw
from starlette.requests import Request
from starlette.responses import Response

from nexus import clock
from nexus.app import App
from nexus.automations import changes, improvement, reminders
from nexus.broker.questions import summarize
from nexus.gateway.dashboard import plots
from nexus.gateway.dashboard.render import get, page, read_number, redirect
from nexus.gateway.dependencies import served_by
from nexus.gateway.views import address, automations, requests, sessions, usage
from nexus.gateway.views.automations import AutomationLine
from nexus.gateway.views.requests import RequestLine
from nexus.gateway.views.usage import Budget, Spent
from nexus.ledgers import sql
from nexus.ledgers.identity import access
from nexus.ledgers.runtime import channels
from nexus.memory.views import entities, facts
from nexus.memory.views.facts import Fact

_SHOWN: Final = 6
_DAYS: Final = 14
_MOST_WAITING: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Something that only the owner can decide."""

    kind: str
    text: str
    href: str
    detail: str = ""
    at: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Upcoming:
    """A run that is due."""

    name: str
    href: str
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Something about the home that is not as it should be."""

    level: Literal["warning", "error"]
    text: str
    href: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """The home on a day. Days are UTC days, as budgets count them."""

    day: str
    """The last day on which anything was asked, if that is more than two weeks ago."""
    is_today: bool
    waiting: tuple[Waiting, ...]
    requests: int
    requests_of_week: int
    """Of the seven days that end with this one."""
    running: int
    failed: int
    recent: tuple[RequestLine, ...]
    days: tuple[Spent, ...]
    """What each of the last days cost, this one last."""
    budgets: tuple[Budget, ...]
    learned: int
    """How many facts were recorded on this day."""
    learned_in_week: int
    facts: tuple[Fact, ...]
    """The newest facts, of whatever day."""
    failing: tuple[AutomationLine, ...]
    upcoming: tuple[Upcoming, ...]
    health: tuple[Health, ...]

    @property
    def today(self) -> Spent:
        return self.days[-1]

    @property
    def budget(self) -> Budget | None:
        """What may be spent in a day, else in a month."""
        own = [each for each in self.budgets if each.budget in {"day", "month"}]
        return min(own, key=lambda each: (each.budget != "day", each.unit != "usd"), default=None)


async def load_overview(app: App, now: clock.Clock = clock.now) -> Overview:
    """Load everything that the home page shows."""
    ledgers = app.ledgers
    end = await usage.find_end(app.ledgers, days=_DAYS, now=now)
    day, week = clock.day(end()), clock.day(end() - timedelta(days=6))
    counts = dict(await ledgers.runtime.read(sql.rows, sql.queries("runtime")["count_requests"], (day,)))
    lines = [line for place in await automations.list_by_hook_point(ledgers) for line in place.automations]
    spent = await usage.load_usage(ledgers, days=_DAYS, now=end)
    of_week = dict(await ledgers.runtime.read(sql.rows, sql.queries("runtime")["count_requests"], (week,)))
    return Overview(
        day=day,
        is_today=day == clock.day(now()),
        waiting=await _load_waiting(app, lines),
        requests=sum(counts.values()),
        requests_of_week=sum(of_week.values()),
        running=counts.get("running", 0),
        failed=counts.get("failed", 0),
        recent=(await requests.load_page(ledgers, limit=_SHOWN)).items,
        days=spent.days,
        budgets=await usage.load_budgets(ledgers, app.config.budgets, now=now),
        learned=await facts.count_since(ledgers, day),
        learned_in_week=await facts.count_since(ledgers, week),
        facts=(await facts.load_page(ledgers, limit=_SHOWN)).items,
        failing=tuple(line for line in lines if line.condition.needs_attention),
        upcoming=_find_upcoming(lines),
        health=(*_check_settings(app), *await _check_channels(app)),
    )


async def _load_waiting(app: App, lines: Sequence[AutomationLine]) -> tuple[Waiting, ...]:
    ledgers = app.ledgers
    calls = (await app.broker.approvals.waiting())[:_MOST_WAITING]
    titles = await sessions.load_titles(ledgers, [each.session_label for each in calls])
    found = [
        Waiting(
            kind="Approval",
            text=f"Allow {each.tool}?",
            detail=f"{summarize(each.arguments)} · {titles.get(each.session_label, each.session_label)}",
            href=address("approvals", each.id),
            at=each.created_at,
        )
        for each in calls
    ]
    for each in (await ledgers.identity.read(access.list_pairings))[:_MOST_WAITING]:
        name = each.display_name or each.identifier
        text = f"{name} asks for access on {each.channel}"
        found.append(Waiting(kind="Access", text=text, href="/people", at=each.created_at))
    found += [
        Waiting(
            kind="Automation",
            text=f"The agent proposes {line.automation.name}",
            detail=line.automation.description or "",
            href=address("automations", line.automation.name),
            at=line.automation.created_at,
        )
        for line in lines
        if changes.is_proposal(line.automation)
    ]
    for name, count in (await asyncio.to_thread(improvement.count_waiting, app.home)).items():
        text = f"{count} lesson{'s' * (count != 1)} of {name} wait{'s' * (count == 1)} for approval"
        found.append(Waiting(kind="Lesson", text=text, href=address("automations", name)))
    pairs = await entities.load_candidates(ledgers, limit=_MOST_WAITING)
    if pairs:
        more = "at least " * (len(pairs) == _MOST_WAITING)
        text = f"{more}{len(pairs)} pair{'s' * (len(pairs) != 1)} may be the same person or thing"
        found.append(Waiting(kind="Merge", text=text[:1].upper() + text[1:], href="/memory/merges"))
    return tuple(found)


def _find_upcoming(lines: Sequence[AutomationLine]) -> tuple[Upcoming, ...]:
    found = [
        Upcoming(
            name=(each.description or each.name) if each.script_path == reminders.SCRIPT else each.name,
            href="/reminders" if each.script_path == reminders.SCRIPT else address("automations", each.name),
            at=line.condition.next_at,
        )
        for line in lines
        for each in (line.automation,)
        if line.condition.next_at
    ]
    return tuple(sorted(found, key=lambda each: each.at)[:_SHOWN])


def _check_settings(app: App) -> Iterator[Health]:
    models = app.config.models
    if not models.manager:
        yield Health(
            level="error", text="No model is set up, so messages get no answer.", href="/settings#models"
        )
    elif not models.writers:
        yield Health(
            level="warning",
            text="Nothing is learned: the memory writer is off.",
            href="/settings#models",
        )
    for problem in app.automations.problems:
        yield Health(level="error", text=f"Not loaded: {problem}", href="/automations")


async def _check_channels(app: App) -> list[Health]:
    def look(connection: apsw.Connection) -> list[Health]:
        found: list[Health] = []
        for name in app.config.channels:
            state, counts = channels.state(connection, name), channels.counts(connection, name)
            if state.reason and not state.paused and state.status != "connected":
                found.append(Health(level="error", text=f"{name}: {state.reason}", href="/channels"))
            if counts.failed:
                text = f"{name}: {counts.failed:,} message{'s' * (counts.failed != 1)} couldn't be sent."
                found.append(Health(level="error", text=text, href=address("channels", name)))
        if aside := len(channels.list_set_aside(connection)):
            text = f"{aside:,} received message{'s' * (aside != 1)} couldn't be processed."
            found.append(Health(level="warning", text=text, href="/channels"))
        return found

    return await app.ledgers.runtime.read(look)


async def show_home(request: Request, app: App) -> Response:
    """Show the home today; a new one is set up first."""
    found = await load_overview(app)
    is_new = not app.config.models.manager and not found.recent
    if is_new and served_by(request).restart is not None and "later" not in request.query_params:
        return redirect("/setup")
    return await page(request, "home.html", active="", it=found, spark=plots.make_spark(found.days))


async def show_usage(request: Request, app: App) -> Response:
    """Show the last days, by day, model and automation."""
    days = read_number(request, "days", 30, among=usage.RANGES_DAYS)
    report = await usage.load_report(app.ledgers, app.config, days=days)
    return await page(
        request,
        "usage.html",
        active="usage",
        report=report,
        days=days,
        ranges=usage.RANGES_DAYS,
        plot=plots.stack_bars(report),
        models=plots.make_bars(report.models),
        automations=plots.make_bars(report.automations),
    )


ROUTES = (
    get("/", show_home),
    get("/usage", show_usage),
)
