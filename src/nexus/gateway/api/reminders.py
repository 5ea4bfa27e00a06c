"""Reminders: what words mean, saving one, and pausing or deleting it."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Path
from pydantic import BaseModel, Field

from nexus import clock
from nexus.automations import when
from nexus.automations.reminders import Draft, Reminder, build_draft
from nexus.automations.when import When
from nexus.errors import UsageError
from nexus.gateway.api.messages import Channel
from nexus.gateway.dependencies import ServedApp, api_router

router = api_router("reminders", "/reminders")
Name = Annotated[str, Path(max_length=200, description="The reminder's name: `reminder-1`.")]


class Words(BaseModel):
    """A reminder to set: what and when."""

    words: str = Field(min_length=1, max_length=5_000, examples=["every Monday at 9 tell me what is open"])


class NewReminder(BaseModel):
    """A reminder to save: one moment (`at`), or a repetition (`cron`)."""

    text: str = Field(min_length=1, max_length=4_000, pattern=r"\S")
    asks: bool = Field(default=False, description="Have the agent answer the text instead of repeating it.")
    at: str | None = Field(default=None, max_length=40, examples=["2026-12-01T08:00:00.000Z"])
    cron: str | None = Field(default=None, max_length=100, examples=["0 9 * * 1"])
    zone: str = Field(default="UTC", max_length=60)
    session: str = Field(default="main", min_length=1, max_length=200, pattern=r"\S")
    channel: Channel = "api"


class Drafted(BaseModel):
    """What words mean. Nothing is saved yet."""

    text: str
    asks: bool
    at: str | None
    cron: str | None
    zone: str
    described: tuple[str, ...] = Field(description="What to show before it is saved: when, and what then.")


@router.get("")
async def list_reminders(app: ServedApp) -> list[Reminder]:
    """Every reminder, in the order in which they were made."""
    return await app.reminders.load_all()


@router.post("/draft")
async def draft_reminder(app: ServedApp, words: Words) -> Drafted:
    """What a reminder in words would be. Nothing is saved."""
    draft = await app.reminders.draft(words.words)
    at = draft.when.at and clock.timestamp(draft.when.at)
    return Drafted(
        text=draft.text,
        asks=draft.asks,
        at=at,
        cron=draft.when.cron,
        zone=draft.when.zone,
        described=draft.describe(app.reminders.now()),
    )


@router.post("", status_code=201)
async def add_reminder(app: ServedApp, new: NewReminder) -> Reminder:
    """Save a reminder of the owner's. It arrives in its session, on its channel."""
    return await app.remind(_draft(new, app.reminders.now()), session_label=new.session, channel=new.channel)


@router.post("/{name}/{to}")
async def change_reminder(app: ServedApp, name: Name, to: Literal["pause", "resume"]) -> list[Reminder]:
    """Pause or resume a reminder; returns all of them."""
    await app.reminders.change(name, to)
    return await app.reminders.load_all()


@router.delete("/{name}")
async def delete_reminder(app: ServedApp, name: Name) -> list[Reminder]:
    """Delete a reminder; returns those that are left. Its log stays."""
    await app.reminders.change(name, "delete")
    return await app.reminders.load_all()


def _draft(new: NewReminder, now: datetime) -> Draft:
    if (new.at is None) == (new.cron is None):
        raise UsageError("A reminder needs either `at` or `cron`")
    zone = when.check_zone(new.zone)
    if new.at is None:
        return build_draft(new.text, When(zone=zone, cron=new.cron), asks=new.asks)
    try:
        at = clock.parse(new.at)
    except ValueError:
        hint = "Such as `2026-12-01T08:00:00.000Z`."
        raise UsageError(f"`{new.at}` is not an ISO 8601 time", hint=hint) from None
    return build_draft(new.text, when.require_future(at, now, zone), asks=new.asks)
