"""How much of a model's window a conversation takes, and what compaction must leave out.

The provider's count of the last call is used where there is one; what has come since is estimated.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# English text has about four bytes to a token; code and other scripts have fewer.
_BYTES_PER_TOKEN = 4
# The part of the budget that the newest turns keep, word for word, when the ones before are summarised.
_KEPT_SHARE = 0.4
SUMMARY_SHARE = 0.3
"""The part of it that their summary may take."""


@dataclass(frozen=True, kw_only=True)
class TurnSize:
    """One turn of a session's history and what it takes."""

    position: int
    tokens: int


def estimate(text: str) -> int:
    """About how many tokens a text is."""
    return -(-len(text.encode()) // _BYTES_PER_TOKEN)


def fits(history_tokens: int, new_tokens: int, *, budget_tokens: int) -> bool:
    """Whether the next call stays within the budget."""
    return history_tokens + new_tokens <= budget_tokens


def through(turns: Sequence[TurnSize], *, budget_tokens: int) -> int | None:
    """The position of the last turn to summarise, so that the newest ones are kept; None: nothing to gain."""
    kept_tokens = 0
    last = len(turns)
    while last > 0 and kept_tokens + turns[last - 1].tokens <= budget_tokens * _KEPT_SHARE:
        last -= 1
        kept_tokens += turns[last].tokens
    return turns[last - 1].position if last > 0 else None
