"""The daily brief: follow-ups, birthdays and what the memory learned, at a time. It ships switched off."""

from datetime import time
from typing import TYPE_CHECKING, Any, Final

from nexus.automations import reminders
from nexus.automations.hook_points import SCHEDULE
from nexus.automations.loading import Plugin
from nexus.errors import ConfigError

if TYPE_CHECKING:
    from nexus.automations.context import Context
    from nexus.config import Config
    from nexus.roles.services import Services

NAME: Final = "daily-brief"
_TIMEOUT_MS: Final = 60_000


def plugin(services: "Services | None", config: "Config | None") -> Plugin:
    """Return the automation. Without the services of an open home it can be listed, not run."""

    async def run(ctx: "Context") -> dict[str, Any] | None:
        # Imported when it first runs: listing automations needs neither dates nor recall.
        from nexus.roles.daily_brief import brief

        assert services is not None, "automations run in an open home"  # noqa: S101 - an invariant, for the reader and the type checker
        return await brief.run(ctx, services)

    at, zone, place = time(8), "UTC", dict[str, Any]()
    if config is not None:
        at, zone = parse_time(config.brief.at), reminders.find_zone(config.automations)
        thread, channel = config.brief.thread, config.channels.get(config.brief.channel)
        if channel is not None and channel.kind == "email" and channel.owner and " " not in thread:
            # A conversation by mail begins with its recipient; all briefs are one.
            thread = f"{thread or channel.owner[0]} {NAME}@nexus.invalid"
        given = {"channel": config.brief.channel, "thread": thread}
        place = {key: value for key, value in given.items() if value}
    return Plugin(
        name=NAME,
        hook_point=SCHEDULE,
        run=run,
        description="Sends follow-ups, birthdays and what was learned, every morning.",
        blocking=False,
        timeout_ms=_TIMEOUT_MS,
        retries=3,
        triggers={"cron": f"{at.minute} {at.hour} * * *", "zone": zone},
        config=place,
        enabled=False,
    )


def parse_time(text: str) -> time:
    """The time of day of a setting."""
    try:
        return time.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(
            f"`at` in [brief] is `{text:.20}`, which is no time of day", hint="Such as `08:00`."
        ) from None
