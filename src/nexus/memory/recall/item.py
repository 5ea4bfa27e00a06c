"""What recall finds and says: items of the ledgers, who saw them, and the answer."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from nexus.errors import UsageError

# As in nexus.ledgers.memory, whose import would load SQLite in commands that ask a served home.
How = Literal["corrected", "changed", "cancelled"]
Basis = Literal["stated", "judged"]
"""How a replacement is known. stated: recorded with confidence 1; judged: by memory/succession."""
Kind = Literal["event", "fact", "observation", "mental_model", "episode", "entity"]
Budget = Literal["low", "mid", "high"]
Strength = Literal["strong", "weak"]

# A message this near to one that an arm saw may itself be the answer.
CANDIDATE_REACH = 2
# Messages this far away still show what a turn is about (the widest window of the features).
CONTEXT_REACH = 5

KIND_NAMES: Final[dict[str, Kind]] = {
    "events": "event",
    "facts": "fact",
    "relationships": "fact",
    "observations": "observation",
    "mental_models": "mental_model",
    "episodes": "episode",
    "entities": "entity",
}
"""The kinds as people and agents name them."""
PATIENT_MS: Final = 5_000
"""For a question that somebody asked: better late, on a slow or busy machine, than without what is known."""


def kinds(scope: str | None) -> frozenset[Kind]:
    """The kinds of a list such as `facts,episodes`; all of them where none is given."""
    names = [name.strip() for name in (scope or "").split(",") if name.strip()]
    for name in names:
        if name not in KIND_NAMES:
            raise UsageError(f"`{name}` is not a kind of memory", hint=f"Known: {', '.join(KIND_NAMES)}.")
    return frozenset(KIND_NAMES[name] for name in names or KIND_NAMES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """A question to the memory, and what may be answered."""

    text: str
    kinds: frozenset[Kind] = frozenset({"event", "fact", "observation", "mental_model", "episode", "entity"})
    # Narrower than what the asker may see; nothing outside is ranked at all. None means no limit.
    thread_ids: frozenset[str] | None = None
    channel: str | None = None
    entity_id: str | None = None  # its id, or a name that it goes by: only what is about it
    time_after: datetime | None = None
    time_before: datetime | None = None
    max_results: int = 10
    max_tokens: int = 4000
    budget: Budget = "mid"
    deadline_ms: int | None = None  # None: the budget's; PATIENT_MS if somebody waits for the answer
    # Whether messages that facts were taken from may be answers: the facts say it, too.
    retained: bool = True


@dataclass(frozen=True, slots=True)
class Link:
    """A fact linked to this one: caused, enabled, prevented."""

    id: str
    text: str
    relation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Replacement:
    """The fact that now holds instead, and when the old one stopped holding."""

    id: str  # of the end of the chain, as is the text
    text: str
    at: str
    how: How = "changed"
    basis: Basis = "stated"
    signals: tuple[str, ...] = ()  # what the judge went by, the strongest first
    next_id: str | None = None  # the fact that replaced it directly, where that was replaced as well

    @property
    def note(self) -> str:
        """What holds instead, in the words that every surface uses."""
        # A command that asks a served home loads no SQLite before it is needed.
        from nexus.ledgers.memory import replacement_note

        return replacement_note(self.how, self.at, self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """Something in a ledger that can be an answer."""

    kind: Kind
    id: str
    text: str
    at: str
    seq: int = 0
    speaker: str | None = None
    outbound: bool = False
    thread_id: str | None = None
    source_event_id: str | None = None
    confidence: float = 1.0
    source_type: str | None = None  # how a fact was learned
    stale_since: str | None = None
    entity_ids: tuple[str, ...] = ()
    subject_id: str | None = None  # the entity that it is about
    replaced_by: Replacement | None = None
    caused_by: tuple[Link, ...] = ()  # facts that led to it, as far as the asker may see them
    leads_to: tuple[Link, ...] = ()
    outdated_by: Link | None = None  # of a stale conclusion or episode: the fact that it doesn't know of

    @property
    def note(self) -> str:
        """What holds instead of it, in the words that every surface uses; empty while it holds."""
        if self.replaced_by is not None:
            return self.replaced_by.note
        if self.stale_since is None:
            return ""
        if self.kind == "fact":
            return f"no longer true since {self.stale_since[:10]}"
        now = f"; now: {' '.join(self.outdated_by.text.split())}" if self.outdated_by else ""
        return f"out of date since {self.stale_since[:10]}{now}"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events that follow each other directly in one thread, and which of them may be answers."""

    items: list[Item]
    candidate: list[bool]

    def keep(self, may_answer: Callable[[Item], bool]) -> "Stretch":
        """Return it with those candidates only that may answer; the others lend their words."""
        flags = zip(self.items, self.candidate, strict=True)
        return Stretch(self.items, [flag and may_answer(item) for item, flag in flags])


@dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    """One arm's report of an item: its rank and score there."""

    arm: str
    kind: Kind
    id: str
    rank: int
    score: float


NEIGHBOUR_ARM: Final = "neighbour"
"""Stands for the arms where none saw an item: it was said near one that an arm saw."""
PIN: Final = "pin"
"""The arm that finds the pinned facts about the people and things that a task names."""
LABELS: Final = {
    "keyword_events": "words in messages",
    "keyword_facts": "words in facts",
    "summaries": "words in summaries",
    "semantic": "meaning",
    "gist": "gist",
    "temporal_events": "time of messages",
    "temporal_memory": "time of facts and episodes",
    "graph": "people and things",
    "causal": "cause or effect",
    "succession": "replacement",
    NEIGHBOUR_ARM: "nearby message",
    PIN: "pin",
    "embed": "embedding the question",
    "nearest": "comparing vectors",
    "fetch": "loading the matches",
    "count": "counting words",
    "order": "ranking",
    "rerank": "reranking",
}
"""What people read for each arm, and for the other steps that take time."""
RANKED_ARMS: Final = frozenset({"keyword_events", "keyword_facts", "summaries", "semantic", "gist"})
"""The arms that rank what they find by how well it fits. To the others, all of it is alike."""


def label(name: str) -> str:
    """Return what people read for an arm or a step; an added arm goes by its name."""
    return LABELS.get(name, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reasons:
    """Why a result is there."""

    arms: dict[str, tuple[int, float]]  # rank and score by arm, the best rank first
    matched_words: tuple[str, ...] = ()
    matched_names: tuple[str, ...] = ()
    about: str | None = None  # the entity that it is about, where the question names that
    neighbour_of: str | None = None
    age_days: float = 0.0
    stale_since: str | None = None
    confidence: float = 1.0
    source_type: str | None = None
    source_event_id: str | None = None
    replaces: str | None = None  # the item that it replaced and whose place it took
    precedes: str | None = None  # asked about the past: the item that came later and whose place it took
    factors: dict[str, float] = field(default_factory=dict[str, float])  # what each added to the score


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """One answer, with its reasons."""

    item: Item
    score: float
    probability: float
    tokens: int
    reasons: Reasons
    also: tuple[str, ...] = ()  # ids of items that say the same and were left out for it
    strength: Strength = "weak"  # strong: it probably answers the question
    need: float = 0.0  # how likely it is that whoever does what was asked needs it

    @property
    def is_strong(self) -> bool:
        return self.strength == "strong"


@dataclass(frozen=True, slots=True)
class Named:
    """An entity that a question names."""

    name: str
    words: frozenset[str] = frozenset()  # the stemmed words of the question that name it
    via: str = "name"  # how: name, slip, owner (I, my), role: husband, or filter
    said: str = ""  # as the question says it: my husband

    @property
    def by_name(self) -> bool:
        """Whether the question calls it by a name, be it misspelled, or was narrowed to it."""
        return self.via in ("name", "slip", "filter")

    @property
    def by_role(self) -> bool:
        return self.via.startswith("role")

    @property
    def is_owner(self) -> bool:
        """Whether it is the owner, meant by "I" or "my"."""
        return self.via == "owner"


@dataclass(frozen=True, kw_only=True, slots=True)
class Matches:
    """What recall returns: results best first, threads best first, and how it went."""

    results: tuple[Match, ...]
    threads: tuple[tuple[str, float], ...] = ()
    late_arms: tuple[str, ...] = ()
    window: tuple[datetime, datetime] | None = None
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])
    considered: int = 0
    named: dict[str, Named] = field(default_factory=dict[str, Named])  # whom the question means, by id
    answerable: float = 0.0  # the probability of the likeliest answer among the results

    @property
    def meant(self) -> dict[str, tuple[str, ...]]:
        """Whom the question means without their names, in its words: my husband → Jens Falk."""
        said: dict[str, tuple[str, ...]] = {}
        for named in self.named.values():
            if named.name and not named.by_name and named.name not in said.get(named.said, ()):
                said[named.said] = (*said.get(named.said, ()), named.name)
        return said


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """One budget's numbers."""

    arms: frozenset[str]
    candidates: int  # what each arm may bring
    matched_rows: int  # what a full-text query may match before common words are left out
    temporal_candidates: int
    reranked: int  # how many of the best a reranker reads, where there is one
    deadline_ms: int


@cache
def preset(budget: Budget) -> Preset:
    """The preset of a budget."""
    text = Path(__file__).with_name("presets.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)[budget]
    arms = frozenset(data.pop("arms"))
    return Preset(arms=arms, **data)
