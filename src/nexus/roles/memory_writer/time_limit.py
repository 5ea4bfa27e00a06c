"""How long the writer may take: as long as its model needs, at the speed that was measured."""

import math
from typing import Final

from nexus.automations.context import Context
from nexus.ledgers.runtime.models import Capabilities
from nexus.roles.memory_writer import TIMEOUT_MS

# What a call is taken to be: instructions and a few messages, and as many facts as they can hold.
_PROMPT_TOKENS: Final = 3_000
_OUTPUT_TOKENS: Final = 1_000
# A shared machine gets slower than it was, and a person's messages go first.
_SLOWER_TIMES: Final = 4
_LEAST_MS: Final = 60_000


def limit_ms(known: Capabilities, calls: int) -> int | None:
    """The time for so many calls of a model; None where its speed is not known."""
    if not known.prompt_tokens_per_s or not known.output_tokens_per_s:
        return None
    call_s = _PROMPT_TOKENS / known.prompt_tokens_per_s + _OUTPUT_TOKENS / known.output_tokens_per_s
    return max(_LEAST_MS, math.ceil(_SLOWER_TIMES * max(1, calls) * call_s * 1000))


def apply(ctx: Context, model: Capabilities, calls: int) -> None:
    """Give an invocation that time, unless the owner has set another."""
    limit = limit_ms(model, calls)
    if limit is not None and ctx.automation.timeout_ms == TIMEOUT_MS:
        ctx.take(limit)
