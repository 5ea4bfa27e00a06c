"""Meeting prep, installed as its README says."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from installed import Clock, install, messages, opened, remember, tick
from nexus.home import Home
from nexus.testing import ModelServer

NAME = "meeting-prep"
NOON = datetime(2031, 5, 2, 12, 0, tzinfo=UTC)  # two in Berlin
CALENDAR = """BEGIN:VCALENDAR
BEGIN:VEVENT
UID:1
SUMMARY:Tidal Room\\, opening
DTSTART;TZID=Europe/Berlin:20310502T142500
ATTENDEE;CN="Ewa Nowak";PARTSTAT=ACCEPTED;X-NOTE=a very long line that
  is folded:mailto:ewa@example.org
END:VEVENT
BEGIN:VEVENT
UID:2
SUMMARY:Lunch alone
DTSTART:20310502T122000Z
END:VEVENT
BEGIN:VEVENT
UID:3
SUMMARY:Called off
STATUS:CANCELLED
DTSTART:20310502T122000Z
ATTENDEE:mailto:ewa@example.org
END:VEVENT
BEGIN:VEVENT
UID:4
SUMMARY:Spoilt
DTSTART;TZID=../../etc/passwd:20310502T142500
ATTENDEE:mailto:ewa@example.org
END:VEVENT
BEGIN:VEVENT
UID:5
SUMMARY:Dentist
DTSTART:20310502T122900Z
ATTENDEE:mailto:praxis@example.org
END:VEVENT
BEGIN:VEVENT
UID:6
SUMMARY:Later
DTSTART:20310502T150000Z
ATTENDEE:mailto:ewa@example.org
END:VEVENT
BEGIN:VEVENT
SUMMARY:All day
DTSTART;VALUE=DATE:20310502
ATTENDEE:mailto:ewa@example.org
END:VEVENT
BEGIN:VEVENT
"""


@pytest.fixture
def calendar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calendar where the README looks for it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "calendar.ics"
    file.write_bytes(CALENDAR.replace("\n", "\r\n").encode() + b"\xff\xfe")
    return file


async def test_each_meeting_is_prepared_once_before_it_begins(
    home: Home, server: ModelServer, calendar: Path
) -> None:
    install(NAME)
    server.script("Ewa waits for the date of the opening.")
    clock = Clock(NOON.replace(hour=11, minute=1))
    async with opened(home, server, clock) as app:
        await remember(app, NOON.replace(month=4), "Ewa Nowak waits for the opening date of the Tidal Room")
        for _ in range(9):
            clock.forward(minutes=10)
            assert (await tick(app, NAME, clock)).status == "done"
        told = await messages(app)
    assert told == [
        "14:25 CEST Tidal Room, opening\n\nEwa waits for the date of the opening.\n\n"
        "14:29 CEST Dentist\n\nThe memory holds nothing about it."
    ]
    [request] = server.requests
    assert request.tool_names == ()
    assert "<meeting>\n14:25 CEST Tidal Room, opening\nwith Ewa Nowak\n</meeting>" in request.last_user
    assert "- 2031-04-02 Ewa Nowak waits for the opening date" in request.last_user


async def test_without_its_calendar_it_fails_and_says_what_is_missing(
    home: Home, server: ModelServer, calendar: Path
) -> None:
    install(NAME)
    calendar.unlink()
    clock = Clock(NOON)
    async with opened(home, server, clock) as app:
        clock.forward(minutes=10)
        ended = await tick(app, NAME, clock)
        assert ended.status == "failed"
        assert f"No such file or directory: '{calendar}'" in str(ended.error)
        assert await messages(app) == []
