"""Calendars on a real server: what is read, what replaces what, what fails, and what is forgotten."""

from collections.abc import AsyncIterator, Generator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from nexus.app import App
from nexus.config import AutomationsConfig, CalendarConfig, Config
from nexus.errors import UsageError
from nexus.home import Home
from nexus.ledgers import forgetting
from nexus.ledgers.sql import load_statements
from nexus.memory.succession import pairs
from nexus.roles.calendar.calendars import Calendars, Report
from radicale_server import PASSWORD, USER, Radicale, calendar, card, event

NOW = datetime(2026, 11, 19, 9, tzinfo=UTC)
TUESDAY = ";TZID=Europe/Berlin:20261103T100000", ";TZID=Europe/Berlin:20261103T110000"


@pytest.fixture(scope="module")
def radicale() -> Generator[Radicale]:
    server = Radicale()
    server.start()
    yield server
    server.close()


@pytest.fixture
def config(radicale: Radicale, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("CALENDAR_PASSWORD", PASSWORD)
    work = CalendarConfig(url=radicale.url, user=USER, password="env:CALENDAR_PASSWORD")
    return Config(automations=AutomationsConfig(zone="Europe/Berlin"), calendar={"work": work})


@pytest.fixture
async def app(home: Home, config: Config) -> AsyncIterator[App]:
    async with App(home, config, serve=False) as app:
        yield app


def calendars_of(app: App, config: Config | None = None) -> Calendars:
    return Calendars(app.home, config or app.config, app.ledgers, app.memory, lambda: NOW)


async def sync(app: App, config: Config | None = None) -> Report:
    [report] = await calendars_of(app, config).sync()
    return report


async def find(app: App, question: str) -> list[str]:
    found = (await app.recall(question)).results
    items = [each.item for each in found if each.item.kind == "fact"]
    # What is over isn't told from what is to come: that would depend on the day of the test.
    return [f"{item.text} [{item.replaced_by.note if item.replaced_by else ''}]" for item in items]


async def test_an_event_is_recalled_moved_and_cancelled(app: App, radicale: Radicale) -> None:
    dentist = event("dentist", "Dentist", "20261203T133000Z", "20261203T140000Z", "LOCATION:Hauptstr. 5")
    url = radicale.make("work", entries=calendar(dentist))
    report = await sync(app)
    assert (report.error, report.new, report.events) == ("", 1, 1)
    text = "Calendar: Dentist on Thursday 2026-12-03 from 14:30 to 15:00, at Hauptstr. 5"
    assert await find(app, "When is the dentist?") == [f"{text} []"]
    [entry] = radicale.list_entries(url)

    radicale.put(entry, calendar(dentist.replace("20261203T", "20261204T")))
    assert (await sync(app)).changed == 1
    moved = "Calendar: Dentist on Friday 2026-12-04 from 14:30 to 15:00, at Hauptstr. 5"
    assert await find(app, "When is the dentist?") == [
        f"{moved} []",
        f"{text} [until 2026-11-19; now: {moved}]",
    ]

    radicale.put(entry, calendar(dentist))  # back to what it was
    assert (await sync(app)).changed == 1
    assert (await find(app, "When is the dentist?"))[0] == f"{text} []"

    radicale.delete(entry)
    report = await sync(app)
    assert (report.cancelled, report.events) == (1, 0)
    assert (await find(app, "When is the dentist?"))[0].startswith(
        "Cancelled: Dentist on Thursday 2026-12-03"
    )
    radicale.delete(url)


async def test_instances_of_a_series_are_moved_and_called_off(app: App, radicale: Radicale) -> None:
    team = event("team", "Team meeting", *TUESDAY, "RRULE:FREQ=WEEKLY;BYDAY=TU")
    url = radicale.make("work", entries=calendar(team))
    await sync(app)
    weekly = "Calendar: Team meeting every week on Tuesday from 10:00 to 11:00, since 2026-11-03"
    assert await find(app, "When is the team meeting?") == [f"{weekly} []"]

    off = team.replace("SUMMARY", "EXDATE;TZID=Europe/Berlin:20261208T100000\r\nSUMMARY")
    instance = event(
        "team",
        "Team meeting",
        ";TZID=Europe/Berlin:20261202T150000",
        ";TZID=Europe/Berlin:20261202T160000",
        "RECURRENCE-ID;TZID=Europe/Berlin:20261201T100000",
    )
    [entry] = radicale.list_entries(url)
    radicale.put(entry, calendar(off, instance))
    assert (await sync(app)).changed == 1
    [now, before] = await find(app, "When is the team meeting?")
    moved = "Tuesday 2026-12-01 is moved to Wednesday 2026-12-02 from 15:00 to 16:00"
    assert now == f"{weekly}; {moved}; not on Tuesday 2026-12-08 []"
    assert before.startswith(f"{weekly} [until 2026-11-19")
    agenda = await calendars_of(app).find_agenda(date(2026, 11, 30), date(2026, 12, 16))
    assert [str(slot) for slot in agenda] == [
        "Wednesday 2026-12-02 from 15:00 to 16:00",
        "Tuesday 2026-12-15 from 10:00 to 11:00",
    ]
    radicale.delete(url)


async def test_contacts_feed_people_and_meet_attendees(app: App, radicale: Radicale) -> None:
    lunch = event(
        "lunch", "Lunch", "20261125T110000Z", "20261125T120000Z", "ATTENDEE:mailto:jonas@example.com"
    )
    work = radicale.make("work", entries=calendar(lunch))
    jonas = card("jonas", "Jonas Weber", "EMAIL:jonas@example.com", "TEL:+41791234567", "BDAY:1990-04-01")
    people = radicale.make("people", cards=True, entries=jonas)
    report = await sync(app)
    assert (report.error, report.events, report.contacts) == ("", 1, 1)
    text = "Contact: Jonas Weber, jonas@example.com, +41791234567, birthday: 1990-04-01"
    question = "What is Jonas Weber's phone number?"
    assert (await find(app, question))[0] == f"{text} []"
    assert not (await sync(app)).new

    # A new number replaces the old one, also where the person is described.
    [entry] = radicale.list_entries(people)
    radicale.put(entry, jonas.replace("1234567", "7654321"))
    assert (await sync(app)).changed == 1
    new = text.replace("1234567", "7654321")
    assert (await find(app, question))[:2] == [f"{new} []", f"{text} [until 2026-11-19; now: {new}]"]
    assert await list_details(app) == ["+41797654321", "1990-04-01", "jonas@example.com"]

    # Who is deleted there is a former contact, and what only the contact said is no longer said of them.
    radicale.delete(entry)
    assert (await sync(app)).cancelled == 1
    assert (await find(app, question))[0] == f"{new.replace('Contact:', 'Former contact:')} []"
    assert await list_details(app) == []
    radicale.delete(work)
    radicale.delete(people)


async def test_contacts_that_share_an_address_are_one_person_and_stay_forgotten(
    app: App, radicale: Radicale
) -> None:
    cards = [
        card("a", "Mia Sand", "EMAIL:mia@example.com"),
        card("b", "Mia S.", "EMAIL:mia@example.com", "TEL:+41791234567"),
    ]
    work, people = radicale.make("work"), radicale.make("people", cards=True, entries="".join(cards))
    assert (await sync(app)).contacts == 2
    query = "SELECT count(DISTINCT entity_id) FROM entity_aliases WHERE type IN ('email', 'phone')"
    count = await app.ledgers.identity.read(lambda connection: connection.execute(query).get)
    assert count == 1
    for each in (await app.recall("Contact Mia Sand")).results:
        if each.item.kind == "fact":
            await app.forget_fact(each.item.id)
    assert await calendars_of(app).list_remaining() == [
        "2 contacts remain on the server of the calendar work. Nexus doesn't read them again."
    ]
    for entry in radicale.list_entries(people):
        radicale.put(entry, radicale.get(entry).replace("FN:M", "FN:Dr. M"))
    assert not (await sync(app)).changed
    radicale.delete(work)
    radicale.delete(people)


async def list_details(app: App) -> list[str]:
    """List what is known of how people are reached, and hard facts about them."""
    query = """
        SELECT normalized FROM entity_aliases WHERE type <> 'name'
        UNION SELECT value FROM person_facts ORDER BY 1
    """
    return await app.ledgers.identity.read(
        lambda connection: [str(each) for (each,) in connection.execute(query)]
    )


async def test_what_was_forgotten_stays_forgotten_and_remains_on_the_server(
    app: App, radicale: Radicale
) -> None:
    one = event("one", "Dentist", "20261203T133000Z", "20261203T140000Z")
    two = event("two", "Choir", "20261204T183000Z", "20261204T200000Z")
    url = radicale.make("work", entries=calendar(one, two))
    await sync(app)
    own = calendars_of(app)
    [slot] = await own.find_agenda(date(2026, 12, 3), date(2026, 12, 4))
    await app.forget_fact(slot.fact_id)
    assert await own.list_remaining() == [
        "1 event remains on the server of the calendar work. Nexus doesn't read them again."
    ]
    assert await own.list_remaining() == []
    for entry in radicale.list_entries(url):
        radicale.put(entry, radicale.get(entry).replace("Dentist", "Dentist again"))
    await sync(app)
    assert await find(app, "When is the dentist?") == []
    assert await own.find_agenda(date(2026, 12, 3), date(2026, 12, 4)) == []
    notes = await app.ledgers.events.read(
        lambda connection: connection.execute("SELECT content FROM events").fetchall()
    )
    assert not any("Dentist" in str(row[0]) for row in notes)

    thread = await app.ledgers.events.read(
        lambda connection: connection.execute("SELECT id FROM threads WHERE channel = 'calendar'").get
    )
    target = await forgetting.find(app.ledgers, forgetting.thread, wanted=str(thread))
    await forgetting.forget(app.ledgers, target, actor="tests")
    assert await find(app, "When is choir?") == []
    assert len(radicale.list_entries(url)) == 2
    radicale.delete(url)


async def test_a_deleted_calendar_a_wrong_password_and_a_server_that_is_away(
    app: App, radicale: Radicale, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = radicale.make("work", entries=calendar(event("one", "Choir", "20261204T183000Z")))
    radicale.make("home", entries=calendar(event("two", "Dinner", "20261204T183000Z")))
    await sync(app)
    radicale.delete(url)
    report = await sync(app)
    assert report.events == 1
    assert report.notes[0].startswith("A calendar was deleted on the server. Its 1 entry stay")
    assert (await find(app, "When is choir?"))[0].startswith("Calendar: Choir")

    settings = replace(config.calendar["work"], url=f"{radicale.url}{USER}/home/")
    only = replace(config, calendar={"home": settings})
    assert (await sync(app, only)).events == 1
    radicale.delete(settings.url)
    gone = await sync(app, only)
    assert (gone.error, gone.events) == ("", 0)

    monkeypatch.setenv("CALENDAR_PASSWORD", "wrong horse")
    assert "refuses the user or the password (401)" in (await sync(app)).error
    monkeypatch.setenv("CALENDAR_PASSWORD", PASSWORD)
    radicale.stop()
    assert "doesn't answer: ConnectError" in (await sync(app)).error
    state = await calendars_of(app).load_state("work")
    assert "doesn't answer" in state.error
    radicale.start()
    assert not (await sync(app)).error


async def test_an_ics_file_is_read_again_when_it_changes(app: App, config: Config, tmp_path: Path) -> None:
    file = tmp_path / "club.ics"
    file.write_text(calendar(event("a", "Training", "20261120T170000Z"), "BEGIN:VEVENT", "END:VEVENT"))
    club = replace(config, calendar={"club": CalendarConfig(url=str(file), kind="ics")})
    report = await sync(app, club)
    assert (report.error, report.new, report.unread) == ("", 1, 1)
    assert (await sync(app, club)).new == 0
    file.write_text(calendar(event("a", "Training", "20261121T170000Z")))
    assert (await sync(app, club)).changed == 1
    [now, _] = await find(app, "When is the training?")
    assert now == "Calendar: Training on Saturday 2026-11-21 at 18:00 []"
    file.write_text("no calendar")
    assert "sent no calendar" in (await sync(app, club)).error
    file.unlink()
    assert "No such file" in (await sync(app, club)).error


async def test_what_cannot_be_kept_loses_its_notes_and_hostile_rules_are_left_out(
    app: App, config: Config, tmp_path: Path
) -> None:
    file = tmp_path / "hostile.ics"
    secret = event("a", "Review", "20261120T170000Z", "", "DESCRIPTION:The password is: hunter2hunter2")
    endless = event("b", "Endless", "20261120T170000Z", "", "RRULE:FREQ=SECONDLY")
    # Times that some zones don't have.
    far = event("c", "Far", "99991231T235959Z"), event("d", "Early", ";VALUE=DATE:00010101")
    file.write_text(calendar(secret, endless, *far))
    report = await sync(app, replace(config, calendar={"x": CalendarConfig(url=str(file), kind="ics")}))
    assert (report.error, report.new, report.unread) == ("", 1, 3)
    assert await find(app, "When is the review?") == ["Calendar: Review on Friday 2026-11-20 at 18:00 []"]


async def test_a_crash_between_the_ledgers_writes_nothing_twice(
    app: App, config: Config, tmp_path: Path
) -> None:
    file = tmp_path / "club.ics"
    file.write_text(calendar(event("a", "Training", "20261120T170000Z")))
    club = replace(config, calendar={"club": CalendarConfig(url=str(file), kind="ics")})
    own = calendars_of(app, club)
    before = await own.load_state("club")
    await own.sync()
    await own.save_state("club", before)  # as if it had been killed before it noted what it read
    await own.sync()
    assert len(await find(app, "When is the training?")) == 1


async def test_appointments_of_one_name_are_not_taken_for_each_other(
    app: App, config: Config, tmp_path: Path
) -> None:
    file = tmp_path / "club.ics"
    days = [f"2036{month:02d}{month:02d}T170000Z" for month in range(1, 13)]
    file.write_text(calendar(*(event(f"e{day}", "Dentist", day) for day in days)))
    club = replace(config, calendar={"club": CalendarConfig(url=str(file), kind="ics")})
    await sync(app, club)
    texts = await app.ledgers.memory.read(
        lambda connection: connection.execute(
            load_statements(Path(pairs.__file__).with_name("queries.sql"))["statements"],
            (connection.execute("SELECT json_group_array(id) FROM facts").get,),
        ).fetchall()
    )
    assert texts == []  # what the search for replacements weighs
    with pytest.raises(UsageError, match="Unknown calendar nope"):
        await calendars_of(app, club).sync(["nope"])
