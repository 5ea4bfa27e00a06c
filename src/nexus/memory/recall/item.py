"""What recall finds and says: items of the ledgers, who saw them, and the answer."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypedDict, get_args

from nexus import clock
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


def list_kinds(wanted: Collection[Kind]) -> list[str]:
    """List kinds as people and agents name them: what `kinds` reads."""
    return [next(name for name, kind in KIND_NAMES.items() if kind == each) for each in wanted]


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
    # A task, not a question: `need` is estimated, and messages that facts were taken from are no answers.
    for_task: bool = False
    rank_threads: bool = False  # whether `Matches.threads` is wanted


class Options(TypedDict, total=False):
    """What narrows a question, under the same names wherever one is asked: `App`, `Client`, `Context`."""

    limit: int
    """How many results at most."""
    about: str | None
    """Only what is about this entity: its id, or a name that it goes by."""
    kinds: Collection[Kind]
    channel: str | None
    after: datetime | str | None
    before: datetime | str | None
    budget: Budget
    max_tokens: int
    deadline_ms: int | None


_FIELDS: Final = {
    "limit": "max_results",
    "about": "entity_id",
    "kinds": "kinds",
    "channel": "channel",
    "after": "time_after",
    "before": "time_before",
    "budget": "budget",
    "max_tokens": "max_tokens",
    "deadline_ms": "deadline_ms",
}
"""The options, and the fields of a query that they set."""


def make_query(query: str | Query, options: Mapping[str, Any]) -> Query:
    """Make a query of a question and its options; an error where an option isn't one."""
    if unknown := ", ".join(sorted(options.keys() - _FIELDS.keys())):
        raise UsageError(f"recall has no option {unknown}", hint=f"Known: {', '.join(_FIELDS)}.")
    given = {_FIELDS[name]: _read_option(name, value) for name, value in options.items()}
    return replace(Query(text=query) if isinstance(query, str) else query, **given)


def list_options(query: str | Query, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Split a question from what narrows it, as JSON: for whoever makes the query elsewhere."""
    asked = make_query(query, options)
    if asked.thread_ids is not None or asked.for_task:
        raise UsageError("`thread_ids` and `for_task` can't be asked for here", hint="Use `App.recall`.")
    # What a string doesn't say is for the other side to choose.
    told = {name: getattr(asked, _FIELDS[name]) for name in (options if isinstance(query, str) else _FIELDS)}
    times = {name: value.isoformat() for name, value in told.items() if isinstance(value, datetime)}
    kinds = {"kinds": sorted(told["kinds"])} if "kinds" in told else {}
    return asked.text, {**told, **times, **kinds}


def _read_option(name: str, value: Any) -> Any:
    if name == "budget" and value not in get_args(Budget):
        raise UsageError(f"{value!r} is not a budget", hint="Use low, mid or high.")
    if name == "kinds":
        if unknown := set(value or ()) - set(get_args(Kind)):
            known = ", ".join(get_args(Kind))
            raise UsageError(f"{', '.join(sorted(unknown))} is no kind", hint=f"Known: {known}.")
        return frozenset(value or get_args(Kind))
    if name in ("after", "before") and value is not None:
        try:
            return clock.parse(value.isoformat() if isinstance(value, datetime) else value)
        except (TypeError, ValueError):
            raise UsageError(f"{value!r} is not a moment", hint="Such as 2026-05-01T08:00Z.") from None
    if name in ("limit", "max_tokens", "deadline_ms") and value is not None:
        try:
            return int(value)
        except (TypeError, ValueError):
            raise UsageError(f"{name} is not a number: {value!r}") from None
    return value


@dataclass(frozen=True, slots=True)
class Link:
    """A fact linked to this one: caused, enabled, prevented."""

    id: str
    text: str
    relation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Replacement:
    """The fact that now holds instead, and when the old one stopped holding."""

    # Links between facts lie in `fact_successions`: stated where a fact is written (the trigger
    # `replaced_facts_are_succeeded`), judged by memory/succession. The statement `facts` follows them, and
    # `order.place_successors` ranks by them.

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

        return replacement_note(self.how, self.at, self.text, is_next=self.next_id is None)


@dataclass(unsafe_hash=True, kw_only=True, slots=True)
class Item:
    """Something in a ledger that can be an answer."""

    # Never changed, but not frozen: a recall makes hundreds, and a frozen one takes seven times as long.

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
    def speaker_name(self) -> str:
        """What to call the speaker when the owner reads it."""
        return {"owner": "You", "nexus": "Nexus"}.get(self.speaker or "", self.speaker or "")

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


class Stretch(NamedTuple):
    """Events that follow each other directly in one thread, and which of them may be answers."""

    items: list[Item]
    candidate: list[bool]

    def keep(self, may_answer: Callable[[Item], bool]) -> "Stretch":
        """Return it with those candidates only that may answer; the others lend their words."""
        flags = zip(self.items, self.candidate, strict=True)
        return Stretch(self.items, [flag and may_answer(item) for item, flag in flags])


class Sighting(NamedTuple):
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
    "keyword_events": "same words",
    "keyword_facts": "same words",
    "summaries": "same words in a summary",
    "semantic": "same meaning",
    "gist": "same meaning",
    "temporal_events": "same time",
    "temporal_memory": "same time",
    "graph": "same people or things",
    "causal": "cause or effect",
    "succession": "replacement",
    NEIGHBOUR_ARM: "nearby message",
    PIN: "pinned",
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

    def name_ways(self) -> dict[str, int]:
        """Name what found it as people read that, with its best rank there; 0 where nothing is ranked."""
        ways: dict[str, int] = {}
        for arm, (rank, _) in self.arms.items():
            is_linked = arm == "graph" and self.matched_names
            name = f"linked to {' and '.join(self.matched_names)}" if is_linked else label(arm)
            ways.setdefault(name, rank if arm in RANKED_ARMS else 0)
        return ways


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """One answer, with its reasons."""

    # Results are ordered by `score`, but for causes and replacements, which stand beside theirs. Whoever asks
    # reads `strength`, which comes from `probability`. Memory injection doesn't: it chooses by the answer's
    # `answerable` and `score`, or by `need` (roles/memory_injection/triage.py).

    item: Item
    score: float
    probability: float
    tokens: int
    reasons: Reasons
    also: tuple[str, ...] = ()  # ids of items that say the same and were left out for it
    strength: Strength = "weak"  # strong: it probably answers the question
    need: float = 0.0  # how likely it is that whoever does a task needs it; 0 for a question

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
    window: tuple[datetime, datetime] | None = None  # the time that the question speaks of
    asks_past: bool = False  # whether it asks how things were before they changed
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])
    considered: int = 0
    named: dict[str, Named] = field(default_factory=dict[str, Named])  # whom the question means, by id
    answerable: float = 0.0  # the probability of the likeliest answer among the results

    @property
    def is_too_late(self) -> bool:
        """Whether it is empty because time ran out, which doesn't say that nothing is known."""
        return bool(self.late_arms) and not self.results

    def asks_for(self, item: Item) -> bool:
        """Whether the question is about the time when an item held that was replaced or has expired."""
        if self.asks_past or item.stale_since is None or self.window is None:
            return self.asks_past
        return item.at <= clock.timestamp(self.window[1]) < item.stale_since

    @property
    def meant(self) -> dict[str, tuple[str, ...]]:
        """Whom the question means without their names, in its words: my husband → Jens Falk."""
        said: dict[str, tuple[str, ...]] = {}
        for named in self.named.values():
            if named.name and not named.by_name and named.name not in said.get(named.said, ()):
                said[named.said] = (*said.get(named.said, ()), named.name)
        return said

    def sum_steps_ms(self) -> list[tuple[str, float]]:
        """What each step took, by the name that people read, the longest first."""
        sums: dict[str, float] = {}
        for name, ms in self.timings_ms.items():
            if name != "total":
                sums[label(name)] = sums.get(label(name), 0.0) + ms
        return sorted(sums.items(), key=lambda step: -step[1])


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


def describe_match(match: Match) -> dict[str, Any]:
    """Describe a match under the names of its item, for JSON; what is empty is left out."""
    item, reasons = match.item, match.reasons
    described = {
        "kind": item.kind,
        "id": item.id,
        "strength": match.strength,
        "probability": round(match.probability, 3),
        "text": item.text,
        "at": item.at,
        "speaker": item.speaker,
        "thread_id": item.thread_id,
        "source_event_id": item.source_event_id,
        "entity_ids": list(item.entity_ids),
        "confidence": item.confidence,
        "note": item.note,
        "stale_since": item.stale_since,
        "replaced_by": asdict(item.replaced_by) if item.replaced_by else None,
        "found_by": sorted(reasons.arms),
        "matched_words": list(reasons.matched_words),
        "matched_names": list(reasons.matched_names),
        "neighbour_of": reasons.neighbour_of,
        "caused_by": [asdict(link) for link in item.caused_by],
        "leads_to": [asdict(link) for link in item.leads_to],
    }
    return {name: value for name, value in described.items() if value not in (None, [], "")}
