"""Changing calendars on a real server: what the owner is shown, conflicts, and what tasks are told."""

from collections.abc import AsyncIterator, Generator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from nexus.app import App
from nexus.automations.context import Context
from nexus.automations.services import BrokerServices
from nexus.broker.tools import Call, Sandbox, Tool
from nexus.broker.tools import Context as ToolContext
from nexus.config import AutomationsConfig, CalendarConfig, Config
from nexus.errors import ToolError
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.request import Access, Event, Request
from nexus.roles.calendar import agenda
from nexus.roles.calendar.calendars import Calendars
from nexus.roles.calendar.server import Server
from nexus.roles.calendar.tool import make_calendar_tool
from radicale_server import PASSWORD, USER, Radicale, calendar, event

NOW = datetime(2026, 11, 19, 9, tzinfo=UTC)
OWNER = Request(event=Event(content=""), access=Access(level="owner", memory="all"))
DENTIST = event(
    "dentist",
    "Dentist",
    "20261119T133000Z",
    "20261119T140000Z",
    "LOCATION:Praxis Weber",
    "ATTENDEE;CN=Jonas Weber:mailto:jonas@example.com",
)
TEAM = event(
    "team",
    "Team meeting",
    ";TZID=Europe/Berlin:20261103T100000",
    ";TZID=Europe/Berlin:20261103T110000",
    "RRULE:FREQ=WEEKLY;BYDAY=TU",
)


@pytest.fixture(scope="module")
def radicale() -> Generator[Radicale]:
    server = Radicale()
    server.start()
    yield server
    server.close()


@pytest.fixture
async def app(home: Home, radicale: Radicale, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setenv("CALENDAR_PASSWORD", PASSWORD)
    work = CalendarConfig(url=radicale.url, user=USER, password="env:CALENDAR_PASSWORD", contacts=False)
    config = Config(automations=AutomationsConfig(zone="Europe/Berlin"), calendar={"work": work})
    async with App(home, config, serve=False) as app:
        yield app


@pytest.fixture
async def own(app: App, radicale: Radicale) -> Calendars:
    radicale.make("work", entries=calendar(DENTIST, TEAM))
    own = Calendars(app.home, app.config, app.ledgers, app.memory, lambda: NOW)
    [report] = await own.sync()
    assert report.events == 2
    return own


def context(key: str, request: Request = OWNER) -> ToolContext:
    call = Call(request=request, execution_id="exe", session_label="main", key=key)
    return ToolContext(sandbox=Sandbox(), directory=Path("/"), call=call)


async def carry_out(tool: Tool, key: str, **arguments: Any) -> str:
    """Make a call as it is made once the owner has allowed it; what they were shown."""
    assert tool.preview is not None
    shown = await tool.preview(tool.prepare(arguments), context(key))
    await tool.call(arguments, replace(context(key), expected=shown.state))
    return shown.text


async def find_fact(own: Calendars, day: date) -> str:
    return (await own.find_agenda(day, date.fromordinal(day.toordinal() + 1)))[0].fact_id


async def test_events_are_made_changed_and_removed_as_they_were_shown(own: Calendars) -> None:
    tool = make_calendar_tool(own)
    assert tool.asks
    shown = await carry_out(tool, "a", op="create", title="Lunch", start="2026-12-05 12:00", place="Café")
    assert shown == "New in the calendar work: Lunch on Saturday 2026-12-05 from 12:00 to 13:00, at Café"
    fact = await find_fact(own, date(2026, 12, 5))
    shown = await carry_out(tool, "b", op="change", event=fact, start="2026-12-06 13:00")
    assert shown.splitlines() == [
        "Now: Lunch on Saturday 2026-12-05 from 12:00 to 13:00, at Café",
        "Then: Lunch on Sunday 2026-12-06 from 13:00 to 14:00, at Café",
    ]
    shown = await carry_out(tool, "c", op="cancel", event=fact)  # the fact that was replaced means it, too
    assert shown == "Removed from the calendar work: Lunch on Sunday 2026-12-06 from 13:00 to 14:00, at Café"
    assert await own.find_agenda(date(2026, 12, 5), date(2026, 12, 7)) == []
    shown = await carry_out(tool, "d", op="create", title="Trip", start="2026-12-24", end="2026-12-27")
    assert shown == "New in the calendar work: Trip from Thursday 2026-12-24 to Saturday 2026-12-26"


async def test_single_instances_are_moved_and_called_off(own: Calendars) -> None:
    tool = make_calendar_tool(own)
    fact = await find_fact(own, date(2026, 12, 1))
    await carry_out(tool, "a", op="change", event=fact, instance="2026-12-01", start="2026-12-02 15:00")
    await carry_out(tool, "b", op="cancel", event=fact, instance="2026-12-08")
    slots = await own.find_agenda(date(2026, 11, 30), date(2026, 12, 16))
    assert [str(slot) for slot in slots] == [
        "Wednesday 2026-12-02 from 15:00 to 16:00",
        "Tuesday 2026-12-15 from 10:00 to 11:00",
    ]
    with pytest.raises(ToolError, match="can't be changed so"):
        await carry_out(tool, "c", op="cancel", event=fact, instance="2026-12-09")


async def test_nothing_is_written_over_a_change_that_nobody_was_shown(
    own: Calendars, radicale: Radicale
) -> None:
    tool = make_calendar_tool(own)
    fact = await find_fact(own, date(2026, 11, 19))
    [entry] = [
        each
        for each in radicale.list_entries(f"{radicale.url}{USER}/work/")
        if "Dentist" in radicale.get(each)
    ]
    assert tool.preview is not None
    change = {"op": "change", "event": fact, "start": "2026-11-19 16:00"}
    shown = await tool.preview(change, context("a"))
    radicale.put(entry, radicale.get(entry).replace("Praxis Weber", "Praxis Neu"))
    with pytest.raises(ToolError, match="changed on the server meanwhile"):
        await tool.call(change, replace(context("a"), expected=shown.state))
    # What is there now was read meanwhile; without a new question, it is still not changed.
    with pytest.raises(ToolError, match="changed after the user was asked"):
        await tool.call(change, replace(context("a"), expected=shown.state))
    assert "T133000Z" in radicale.get(entry)
    assert "Praxis Neu" in radicale.get(entry)


@pytest.mark.parametrize("op", ["change", "cancel", "create"])
async def test_a_change_between_reading_and_writing_is_not_written_over(
    own: Calendars, radicale: Radicale, monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    """The server itself refuses, with 412: the event was as the owner saw it when it was read last."""
    tool = make_calendar_tool(own)
    url = f"{radicale.url}{USER}/work/"
    [entry] = [each for each in radicale.list_entries(url) if "Dentist" in radicale.get(each)]
    call = {"op": op, "start": "2026-11-19 16:00"}
    call |= {"title": "Lunch"} if op == "create" else {"event": await find_fact(own, date(2026, 11, 19))}
    assert tool.preview is not None
    shown = await tool.preview(call, context("a"))
    answers: list[int] = []
    request = Server._request  # pyright: ignore[reportPrivateUsage] - where the program and the server take turns

    async def intrude(server: Server, method: str, url: str, data: bytes, headers: Any) -> Any:
        if method in {"PUT", "DELETE"}:
            other = data.decode() if op == "create" else radicale.get(entry)
            radicale.put(url, other.replace("Praxis Weber", "Praxis Neu"))
        answer = await request(server, method, url, data, headers)
        answers.append(answer[0])
        return answer

    monkeypatch.setattr(Server, "_request", intrude)
    with pytest.raises(ToolError, match="changed on the server meanwhile; nothing was written"):
        await tool.call(call, replace(context("a"), expected=shown.state))
    assert 412 in answers
    if op != "create":
        assert "T133000Z" in radicale.get(entry)
        assert "Praxis Neu" in radicale.get(entry)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"op": "create", "title": "x"}, "needs `title` and `start`"),
        ({"op": "create", "title": "x", "start": "2026-12-05 12:00", "end": "11:00"}, "end before it begins"),
        ({"op": "create", "title": "x", "start": "2026-12-05", "calendar": "nope"}, "nope can't be written"),
        ({"op": "change", "event": "fact_nope"}, "no event of a calendar"),
        ({"op": "cancel"}, "`event` is missing"),
        ({"op": "change", "event": "", "start": "soon"}, "`event` is missing"),
    ],
)
async def test_what_cannot_be_done_says_why(own: Calendars, arguments: dict[str, str], error: str) -> None:
    with pytest.raises(ToolError, match=error):
        await make_calendar_tool(own).call(arguments, context("a"))


async def test_guests_change_nothing(own: Calendars) -> None:
    guest = replace(OWNER, access=Access(level="unknown"))
    with pytest.raises(ToolError, match="Only the owner's agents"):
        await make_calendar_tool(own).call(
            {"op": "create", "title": "x", "start": "2026-12-05"}, context("a", guest)
        )


async def test_tasks_get_what_takes_place(app: App, own: Calendars) -> None:
    row = await app.ledgers.runtime.read(automations.get, "agenda-chat")
    assert row is not None

    async def ask(text: str, access: Access = OWNER.access) -> str:
        ctx = Context(
            request=Request(event=Event(content=text), access=access),
            automation=row,
            hook_point="after:assembleContext",
            invocation_id="inv_1",
            services=BrokerServices(app.ledgers, app.broker, app.open_recall),
            now=lambda: NOW,
        )
        found = await agenda.run(ctx, own, app.services())
        return "" if found is None else str(found["enrich"]["memories"])

    dentist = "- Calendar: Dentist on Thursday 2026-11-19 from 14:30 to 15:00, at Praxis Weber, with Jonas"
    assert (await ask("What's on today?")).startswith(dentist)
    assert (await ask("Write Jonas that I'm late")).startswith(dentist)
    team = "- Tuesday 2026-11-24 from 10:00 to 11:00: Team meeting every week on Tuesday"
    assert (await ask("Prepare the meeting on Tuesday")).startswith(team)
    assert not await ask("Tell me a joke")
    assert not await ask("What happened on 3 May 2024?")
    assert not await ask("What's on today?", Access(level="unknown"))


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("What's on tomorrow?", (date(2026, 11, 20), date(2026, 11, 21))),
        ("Dinner on 3 March", (date(2027, 3, 3), date(2027, 3, 4))),
        ("Am I free on 2026-12-03?", (date(2026, 12, 3), date(2026, 12, 4))),
        ("next week", (date(2026, 11, 23), date(2026, 11, 30))),
        ("What's on my calendar?", (date(2026, 11, 19), date(2026, 11, 21))),
        ("yesterday was fine", None),
        ("on 2024-02-31 or 31 February", None),
    ],
)
def test_the_days_of_a_task_are_those_to_come(text: str, days: tuple[date, date] | None) -> None:
    assert agenda.find_days(text, date(2026, 11, 19)) == days
