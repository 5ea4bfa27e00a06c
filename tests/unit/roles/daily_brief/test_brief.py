"""The daily brief: what is in it, that it comes once, and that it ships switched off."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from nexus import clock
from nexus.app import App
from nexus.automations.context import Context
from nexus.automations.hook_points import SCHEDULE
from nexus.automations.services import BrokerServices
from nexus.channels.adapter import Delivery
from nexus.channels.email import compose_mail
from nexus.config import AutomationsConfig, BriefConfig, ChannelConfig, Config
from nexus.errors import ConfigError
from nexus.home import Home
from nexus.ledgers.memory import NewFact, append_facts, follow_ups
from nexus.ledgers.memory.follow_ups import NewFollowUp
from nexus.ledgers.runtime import automations
from nexus.request import Access, Event, Request
from nexus.roles import daily_brief
from nexus.roles.daily_brief.brief import find_birthday, run

MORNING = datetime(2026, 11, 19, 7, tzinfo=UTC)
CONFIG = Config(automations=AutomationsConfig(zone="Europe/Berlin"))


@pytest.fixture
async def app(home: Home) -> AsyncIterator[App]:
    async with App(home, CONFIG, serve=False) as app:
        yield app


async def write(app: App, invocation_id: str) -> str | None:
    row = await app.ledgers.runtime.read(automations.get, "daily-brief")
    assert row is not None
    ctx = Context(
        request=Request(event=Event(content=""), access=Access(level="owner", memory="all")),
        automation=row,
        hook_point=SCHEDULE,
        invocation_id=invocation_id,
        services=BrokerServices(app.ledgers, app.broker, app.open_recall),
        now=lambda: MORNING,
    )
    returned = await run(ctx, app.services())
    return None if returned is None else str(returned["response"])


async def promise(app: App, promise: str, due_at: str | None) -> None:
    new = NewFollowUp(
        id=f"fup_{clock.timestamp(MORNING)}{len(promise)}ABCDEF",
        event_id="evt_1",
        reply_thread_id=None,
        source_request_id=None,
        promiser="owner",
        promiser_entity_id=None,
        promiser_name=None,
        recipient_entity_id=None,
        recipient_name=None,
        promise=promise,
        due_at=due_at,
        raise_at=due_at,
        created_at="2026-11-18T10:00:00.000Z",
    )
    await app.ledgers.memory.write(follow_ups.add, [new])


async def test_it_ships_switched_off_and_stands_at_its_time(app: App) -> None:
    row = await app.ledgers.runtime.read(automations.get, "daily-brief")
    assert row is not None
    assert (row.status, row.disabled_reason) == ("disabled", automations.OPTIONAL)
    assert row.triggers == {"cron": "0 8 * * *", "zone": "Europe/Berlin"}


async def test_a_day_with_nothing_to_say_sends_nothing(app: App) -> None:
    assert await write(app, "inv_1") is None


async def test_it_says_what_is_open_whose_birthday_it_is_and_what_was_learned(app: App) -> None:
    await promise(app, "I'll send Jonas the slides today.", "2026-11-19T22:59:59.000Z")
    await promise(app, "I'll pay the rent next week.", "2026-11-27T22:59:59.000Z")
    old = [NewFact(fact="Ada's birthday is on 20 November"), NewFact(fact="Bo was born on 3 May 1990")]
    new = [
        NewFact(fact="Jonas moved to Porto"),
        NewFact(fact="Calendar: Choir on Friday", metadata={"calendar": "work"}),
    ]
    gone = [NewFact(fact="Jonas lives in Braga")]
    append = app.ledgers.memory.write
    await append(append_facts, facts=old, now=lambda: datetime(2026, 11, 1, tzinfo=UTC))
    (replaced,) = await append(append_facts, facts=gone, now=lambda: datetime(2026, 11, 18, 19, tzinfo=UTC))
    (moved, _) = await append(append_facts, facts=new, now=lambda: datetime(2026, 11, 18, 20, tzinfo=UTC))
    link = "INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis)"
    link += " VALUES (?, ?, 1.0, 'stated')"
    await append(lambda connection: connection.execute(link, (replaced, moved)))
    said = await write(app, "inv_1")
    assert said is not None
    assert said.splitlines() == [
        "Thursday 2026-11-19",
        "",
        "**Still open**",
        "- You said: “I'll send Jonas the slides today.” Due Thursday 2026-11-19. [ABCDEF]",
        "",
        "**Birthdays**",
        "- Tomorrow: Ada's birthday is on 20 November",
        "",
        "**Learned since yesterday**",
        "- Jonas moved to Porto",
    ]
    assert await write(app, "inv_1") == said  # as after a crash before it was sent
    assert "Still open" not in (await write(app, "inv_2") or "")


@pytest.mark.parametrize(
    ("fact", "on"),
    [
        ("Ada's birthday is 19 November", date(2026, 11, 19)),
        ("Ada was born on November 25, 1990", date(2026, 11, 25)),
        ("Adas Geburtstag ist am 19. November", date(2026, 11, 19)),
        ("El cumpleaños de Ada es el 19 de noviembre", date(2026, 11, 19)),
        ("L'anniversaire d'Ada est le 19 novembre", date(2026, 11, 19)),
        ("Il compleanno di Ada è il 19 novembre", date(2026, 11, 19)),
        ("O aniversário da Ada é no dia 19 de novembro", date(2026, 11, 19)),
        ("アダの誕生日は11月19日です", date(2026, 11, 19)),
        ("Ada's birthday is on 12 December", None),
        ("Ada flies to Porto on 19 November", None),
        ("Ada's birthday is in November", None),
    ],
)
def test_a_birthday_is_found_by_its_day(fact: str, on: date | None) -> None:
    assert find_birthday(fact, date(2026, 11, 19)) == on


def test_its_time_and_place_are_settings() -> None:
    config = replace(CONFIG, brief=BriefConfig(at="06:30", channel="telegram", thread="4471"))
    made = daily_brief.plugin(None, config)
    assert made.triggers["cron"] == "30 6 * * *"
    assert made.config == {"channel": "telegram", "thread": "4471"}
    with pytest.raises(ConfigError, match="no time of day"):
        daily_brief.plugin(None, replace(CONFIG, brief=BriefConfig(at="soon")))


@pytest.mark.parametrize("thread", ["", "me@home.example"])
def test_by_mail_it_goes_to_the_owner(thread: str) -> None:
    mail = ChannelConfig(kind="email", owner=("me@home.example",))
    config = replace(CONFIG, channels={"mail": mail}, brief=BriefConfig(channel="mail", thread=thread))
    place = daily_brief.plugin(None, config).config
    assert place == {"channel": "mail", "thread": "me@home.example daily-brief@nexus.invalid"}
    sent = Delivery(key="evt_1", thread=place["thread"], text="Thursday 2026-11-19\n\n**Today**\n- Choir")
    written = compose_mail(sent, "agent@home.example")
    assert (written["To"], written["Subject"]) == ("me@home.example", "Thursday 2026-11-19")
