"""How long a calendar takes: a first sync of 2,000 events and 500 contacts, later ones, and a question.

It runs a real server, Radicale, and a home beside it: `python bench/calendars.py`. Give other numbers as
arguments: events, then contacts.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from new_homes import new_home
from nexus.app import App
from nexus.config import AutomationsConfig, CalendarConfig, Config
from nexus.history import parser_program
from nexus.roles.calendar.calendars import Calendars, Slot
from radicale_server import PASSWORD, USER, Radicale, calendar, card, event

TITLES = ("Dentist", "Choir", "Yoga", "Lunch", "Review", "Interview", "Haircut", "Concert", "Dinner", "Call")
SERIES = 50


def make_event(number: int, today: date) -> str:
    """One event: every fortieth is a series, and the others are spread over two years around today."""
    title = f"{TITLES[number % len(TITLES)]} with Person{number % 97} about topic{number}"
    day = today + timedelta(days=(number * 37) % 730 - 365)
    hour = 6 + number % 12
    start, end = f"{day:%Y%m%d}T{hour:02d}0000Z", f"{day:%Y%m%d}T{hour:02d}4500Z"
    return event(f"e{number}", title, start, end, *(["RRULE:FREQ=WEEKLY"] if number % 40 == 0 else []))


def read_processor_times(server: Radicale) -> dict[str, float]:
    """Read how much of the processor the home, its parser and the server have used, in seconds."""
    used = {"home": sum(os.times()[:2]), "parser": 0.0, "server": 0.0}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            command = (stat.parent / "cmdline").read_bytes()
            fields = stat.read_text().rpartition(")")[2].split()
            for name, argument in (("parser", parser_program.__file__), ("server", str(server.folder))):
                # A sandbox waits for the program in it, and names it too.
                if argument.encode() in command and b"bwrap" not in command.partition(b"\0")[0]:
                    used[name] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


async def measure(server: Radicale, events: int, contacts: int) -> None:
    """Measure one home, from empty."""
    today = date.today()  # noqa: DTZ011 - only whole days matter
    texts = [make_event(number, today) for number in range(events)]
    url = server.make("work", entries=calendar(*texts))
    cards = [
        card(f"c{n}", f"Person{n} Example", f"EMAIL:p{n}@example.com", f"TEL:+4179{n:07d}", "BDAY:1990-04-01")
        for n in range(contacts)
    ]
    server.make("people", cards=True, entries="".join(cards))
    os.environ["CALENDAR_PASSWORD"] = PASSWORD
    settings = CalendarConfig(url=server.url, user=USER, password="env:CALENDAR_PASSWORD")  # noqa: S106 - where it is
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder) / "home")
        config = Config(automations=AutomationsConfig(zone="Europe/Berlin"), calendar={"work": settings})
        async with App(home, config, serve=False) as app:
            own = Calendars(home, config, app.ledgers, app.memory)
            for name in ("first sync, events", "first sync, contacts", "nothing changed", "ten changed"):
                if name == "first sync, events":
                    only = replace(config, calendar={"work": replace(settings, contacts=False)})
                    syncing = Calendars(home, only, app.ledgers, app.memory)
                else:
                    syncing = own
                if name == "ten changed":
                    for number, entry in enumerate(server.list_entries(url)[:10]):
                        server.put(entry, server.get(entry).replace("about", f"now {number} about"))
                begun, before = time.perf_counter(), read_processor_times(server)
                [report] = await syncing.sync()
                took, after = time.perf_counter() - begun, read_processor_times(server)
                used = ", ".join(f"{who} {after[who] - before.get(who, 0):.2f} s" for who in after)
                print(f"{name}: {took:.2f} s; processor: {used}; {report}", flush=True)
            begun, slots = time.perf_counter(), list[Slot]()
            for _ in range(20):
                slots = await own.find_agenda(today, today + timedelta(days=1))
            print(f"agenda of a day: {(time.perf_counter() - begun) * 50:.1f} ms; {len(slots)} events")
            wanted = [number for number in range(1, events, max(1, events // 20)) if number % 40][:20]
            first = 0
            for number in wanted:
                title = f"{TITLES[number % len(TITLES)]} with Person{number % 97}"
                found = (await app.recall(f"When is the {title} about topic{number}?")).results
                first += bool(found) and f"about topic{number} " in found[0].item.text
            print(f"found first, by words: {first} of {len(wanted)}")


def main() -> None:
    """Start a server, and measure."""
    events, contacts = (*map(int, sys.argv[1:]), 2_000, 500)[:2] if len(sys.argv) > 2 else (2_000, 500)
    server = Radicale()
    server.start()
    try:
        asyncio.run(measure(server, events, contacts))
    finally:
        server.close()


if __name__ == "__main__":
    main()
