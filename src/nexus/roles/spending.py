"""What the roles that work by the clock may spend, and whether they can work at all."""

from typing import TYPE_CHECKING, Final

from nexus import clock
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import usage
from nexus.runs import MICRO

if TYPE_CHECKING:
    from nexus.config import MemoryConfig
    from nexus.runs import Totals

ROLES: Final = ("consolidation", "reflection")


async def spent_today(ledgers: Ledgers, now: clock.Clock = clock.now) -> "Totals":
    """What consolidation and reflection used since midnight (UTC)."""
    return await ledgers.runtime.read(usage.of_roles, roles=ROLES, day=clock.day(now()))


async def reached(ledgers: Ledgers, limits: "MemoryConfig", now: clock.Clock = clock.now) -> str:
    """Which limit of the day is reached, in words; empty where none is."""
    spent = await spent_today(ledgers, now)
    tokens, usd = limits.conclusions_tokens_a_day, limits.conclusions_usd_a_day
    if tokens and spent.tokens >= tokens:
        return f"today's {tokens:,} tokens are used (conclusions_tokens_a_day in [memory])"
    if usd and spent.cost_microusd >= usd * MICRO:
        return f"today's ${usd:.2f} are used (conclusions_usd_a_day in [memory])"
    return ""
