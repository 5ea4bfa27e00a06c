"""What may be spent in a day, in tokens and in money."""

import pytest

from nexus.config import MemoryConfig
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import usage
from nexus.ledgers.runtime.usage import UsageRow
from nexus.roles import runs


async def spend(ledgers: Ledgers, role: str, tokens: int, cost_microusd: int | None) -> None:
    row = UsageRow(
        id=f"use_{role}{tokens}",
        request_id="req_1",
        root_request_id="req_1",
        role=role,
        provider="test",
        model="large",
        input_tokens=tokens,
        cost_microusd=cost_microusd,
    )
    await ledgers.runtime.write(usage.record, row=row)


@pytest.mark.parametrize(
    ("tokens_a_day", "usd_a_day", "reached"),
    [(0, 0.0, ""), (301, 0.51, ""), (300, 0.0, "300 tokens"), (0, 0.5, "$0.50"), (1, 0.01, "1 tokens")],
)
async def test_a_limit_is_reached_by_both_roles_together(
    opened: Ledgers, tokens_a_day: int, usd_a_day: float, reached: str
) -> None:
    await spend(opened, "consolidation", 100, 500_000)
    await spend(opened, "reflection", 200, None)
    await spend(opened, "manager", 10_000, 9_000_000)
    limits = MemoryConfig(conclusions_tokens_a_day=tokens_a_day, conclusions_usd_a_day=usd_a_day)
    told = await runs.find_limit(opened, limits)
    assert reached in told
    assert bool(told) == bool(reached)
