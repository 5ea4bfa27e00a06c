"""Follow-ups: promises made in conversations are recognized, and raised before they are due."""

from typing import TYPE_CHECKING, Any, Final

from nexus.automations.loading import Plugin

if TYPE_CHECKING:
    from nexus.automations.context import Context
    from nexus.config import Config
    from nexus.roles.services import Services

NAME: Final = "follow-ups"
ALARM: Final = "follow-ups-due"
"""The schedule that stands at the next moment to raise something."""
_TIMEOUT_MS: Final = 3_000


def plugin(services: "Services | None", config: "Config | None") -> Plugin:
    """Return the automation. Without the services of an open home it can be listed, not run."""

    async def run(ctx: "Context") -> dict[str, Any] | None:
        # Imported when it first runs: listing automations needs neither dates nor languages.
        from nexus.roles.follow_ups import follow_ups

        assert services is not None, "automations run in an open home"  # noqa: S101 - an invariant, for the reader and the type checker
        own = follow_ups.FollowUps(services.ledgers, services.config, ctx.now)
        return await follow_ups.run(ctx, own)

    is_off = config is not None and not config.followups.enabled
    return Plugin(
        name=NAME,
        hook_point="finalize",
        run=run,
        description="Recognizes promises in messages and answers, and raises them before they are due.",
        timeout_ms=_TIMEOUT_MS,
        off="`enabled = false` in [followups] in config.toml" if is_off else None,
    )
