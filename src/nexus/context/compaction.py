"""How many tokens a context may have, and which messages are summarized when it has more."""

from collections.abc import Sequence
from dataclasses import dataclass

from nexus.ledgers.agents.history import History
from nexus.ledgers.agents.history import Turn as PastTurn
from nexus.ledgers.agents.messages import StoredMessage
from nexus.text import join_lines, shorten

# English text has about four bytes to a token; code and other scripts have fewer.
_BYTES_PER_TOKEN = 4
# The part of the budget that the newest turns keep, word for word, when the ones before are summarised.
_KEPT_SHARE = 0.4
SUMMARY_SHARE = 0.3
"""The part of it that their summary may take."""
TASK = """\
<situation>
This conversation is getting long. What you write now will stand for everything above it; what it leaves out
you will no longer see.
</situation>

Sum up the conversation so far for yourself. Keep what was asked and decided, names, numbers, paths and dates
exactly as they were given, what was done with which result, what is still open, and what the owner prefers.
Leave out greetings and what no longer matters. Write plain text, and call no tools."""

_SHOWN_CHARACTERS = 160


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


def sizes(past: History) -> list[TurnSize]:
    """About how many tokens each turn of a history takes."""
    return [turn.derive(_size) for turn in past.turns]


def summary_tokens(past: History) -> int:
    """About how many tokens the summary takes that a history begins with."""
    return sum(map(_tokens, past.summary))


def stand_in(past: History, position: int) -> str:
    """What is told of the older part where nobody could sum it up: that it is there, and what was asked."""
    turns = past.up_to(position).turns
    earlier = [message.content for message in past.summary if message.role == "assistant"]
    lines = [f"- {asked}" for turn in turns if (asked := _title_of(turn))]
    return "\n".join(
        [
            *earlier,
            f"(No summary could be made of {len(turns)} further turns. They are kept in the agents ledger "
            "and are not shown here. What was asked in them:",
            *lines,
            ")",
        ]
    )


def _size(turn: PastTurn) -> TurnSize:
    return TurnSize(position=turn.position, tokens=sum(map(_tokens, turn.messages)))


def _title_of(turn: PastTurn) -> str:
    first = next((message.content for message in turn.messages if message.role == "user"), "")
    return shorten(join_lines(first.rpartition("</situation>")[2]), _SHOWN_CHARACTERS)


def _tokens(message: StoredMessage) -> int:
    # An answer's calls are in its exact form alone, which also holds what no model is sent again.
    exact = message.parts_json if message.role == "assistant" else None
    return estimate(exact if exact and '"tool-call"' in exact else message.content)
