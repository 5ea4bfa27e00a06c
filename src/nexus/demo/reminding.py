"""What the agent was reminded of before it answered: the text that it saw, and the record of why."""

import hashlib
from collections.abc import Sequence

from nexus import ids
from nexus.demo.telling import Telling
from nexus.demo.tracing import Tracing
from nexus.ledgers.runtime import injections
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.injections import Injection
from nexus.request import Request


async def remind(
    telling: Telling, tracing: Tracing, automation: Automation, request: Request, keys: Sequence[str]
) -> None:
    """Put memories before the message, and record each with one that was looked at and left out."""
    text = "\n".join(f"- {telling.said[key]}" for key in keys)
    request.enrichment["memories"] = text
    took_ms = telling.draw.uniform(40, 160)
    invocation_id = await tracing.invoke(automation, took_ms, result={"enrich": {"memories": text}})
    left_out = [key for key in telling.facts if key not in keys][:1]
    offered = [
        _offered(telling, request, invocation_id, key, rank, injected=key in keys)
        for rank, key in enumerate((*keys, *left_out), start=1)
    ]
    await telling.ledgers.runtime.write(injections.add, injections=offered)
    await tracing.span("hook", automation.hook_point, telling.draw.uniform(1, 5))


async def used(telling: Telling, request: Request, keys: Sequence[str]) -> None:
    """Record which of them the answer used: all but the last of several."""
    told: dict[str, injections.Sign | None] = {
        telling.facts[key]: "words" if number == 0 or number < len(keys) - 1 else None
        for number, key in enumerate(keys)
    }
    await telling.ledgers.runtime.write(injections.mark_used, request_id=request.request_id, used=told)


def _offered(
    telling: Telling, request: Request, invocation_id: str, key: str, rank: int, *, injected: bool
) -> Injection:
    likely = telling.draw.uniform(0.62, 0.97) if injected else telling.draw.uniform(0.05, 0.3)
    return Injection(
        id=ids.new("inj"),
        invocation_id=invocation_id,
        request_id=request.request_id,
        root_request_id=request.root_request_id,
        execution_id=None,
        rank=rank,
        item_kind="fact",
        item_id=telling.facts[key],
        text_sha256=hashlib.sha256(telling.said[key].encode()).hexdigest(),
        score=round(likely * 4 - 1, 4),
        probability=round(likely, 4),
        why="it fits (found by keyword, semantic)" if injected else "far behind the best (found by graph)",
        decided_by="triage",
        injected=injected,
    )
