"""What consolidation would do next, without doing it."""

from typing import TYPE_CHECKING, Any

from nexus import clock
from nexus.memory.conclusions import batches, observations
from nexus.roles import spending
from nexus.roles.consolidation import prompt
from nexus.roles.consolidation.consolidation import limits_of, why_off

if TYPE_CHECKING:
    from nexus.config import Config
    from nexus.ledgers import Ledgers

_BYTES_PER_TOKEN = 4


async def planned(ledgers: "Ledgers", config: "Config") -> dict[str, Any]:
    """The batches of the next run, what waits, what was set aside and why, and what keeps it from running."""
    counted = await observations.counts(ledgers)
    spent = await spending.spent_today(ledgers)
    return {
        "off": why_off(config) or await spending.reached(ledgers, config.memory),
        "batches": await _batches(ledgers, config),
        **counted,
        "facts_set_aside": await observations.those_set_aside(ledgers),
        "spent_today": {"tokens": spent.tokens, "cost_microusd": spent.cost_microusd},
    }


async def _batches(ledgers: "Ledgers", config: "Config") -> list[dict[str, Any]]:
    taken: frozenset[str] = frozenset()
    found: list[dict[str, Any]] = []
    until, after_seq = clock.timestamp(clock.now()), 0
    while len(found) < config.memory.consolidation_batches:
        batch, after_seq = await batches.choose(
            ledgers, limits_of(config), until=until, after_seq=after_seq, leave=taken
        )
        if batch is None:
            break
        taken |= frozenset(batch.fact_ids)
        text = await prompt.task(ledgers, batch)
        found.append({**batch.to_json(), "tokens": -(-len(text.encode()) // _BYTES_PER_TOKEN)})
    return found
