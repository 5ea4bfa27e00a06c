"""The memory writer: what conversations teach becomes memory, without anybody asking for it."""

from typing import TYPE_CHECKING, Any

from nexus.automations.loading import Plugin
from nexus.roles.services import role_text

if TYPE_CHECKING:
    from nexus.automations.context import Context
    from nexus.config import Config
    from nexus.roles.services import Services

NAME = "memory-writer"
PEER = "memory-reader"
TIMEOUT_MS = 300_000
"""Where the speed of the model is not known. Nobody waits for it."""
DEFAULTS: dict[str, Any] = {
    "frequency": "every_turn",
    "n": 5,
    "roles": ["manager", "worker"],
}
# The tokens of a short turn in structured mode, whose instructions are most of them.
_TURN_INPUT, _TURN_OUTPUT = 1_100, 100


def plugin(services: "Services | None", config: "Config | None") -> Plugin:
    """Return the automation. Without the services of an open home it can be listed, not run."""

    async def run(ctx: "Context") -> dict[str, Any] | None:
        # Imported when it first runs: listing automations needs neither the engine nor recall.
        from nexus.roles.memory_writer.writer import Writer

        assert services is not None, "automations run in an open home"  # noqa: S101 - an invariant, for the reader and the type checker
        return await Writer(services)(ctx)

    return Plugin(
        name=NAME,
        hook_point="after:runAgent",
        run=run,
        description="Learns facts from each turn.",
        blocking=False,
        timeout_ms=TIMEOUT_MS,
        config={**DEFAULTS, "models": "writer", "reflect_every": 20},
        workspace=True,
        peers=(PEER,),
        self_improvement=True,
        off=_explain_off(config),
        role=role_text(__package__ or ""),
    )


def describe_cost(config: "Config") -> str:
    """Say who writes the memory and what a turn costs; empty if nobody does."""
    name = next(iter(config.models.writers), "")
    if not name:
        return ""
    if config.memory.writer == "code":
        return f"{name} writes the memory after each turn, with several calls"
    # Imported here, because the list of prices is long.
    from nexus.broker.agent.prices import estimate_microusd

    microusd = estimate_microusd(config, name, input_tokens=_TURN_INPUT, output_tokens=_TURN_OUTPUT)
    price = {None: "", 0: ", free"}.get(microusd, f", ${(microusd or 0) / 1e6:.4f}")
    told = f"{name} writes the memory: about {_TURN_INPUT + _TURN_OUTPUT:,} tokens a turn{price}"
    most_usd = config.memory.conclusions_usd_a_day
    if microusd and config.memory.consolidation and most_usd:
        told += f", and at most ${most_usd:.2f} a day to consolidate it"
    return told


def _explain_off(config: "Config | None") -> str | None:
    if config is None or config.models.writers:
        return None
    if not config.models.manager:
        return "no model set: run `nexus init`"
    return '`writer = "none"` in [models] in config.toml'
