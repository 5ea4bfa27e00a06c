"""One search under way: the question, its scope and deadline, and the arms that look for it.

An arm is a named way to find candidates, nothing more: it answers with sightings, best first, and what they
are worth together is decided by the features and the ranker. `ARMS` names every arm. A program may give
`Recall` others beside them; a preset says which of them a budget uses, and those that it does not know are
always used.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice, zip_longest
from typing import Any, Final, Literal, cast, get_args

import apsw

from nexus import clock
from nexus.ledgers import keywords, sql
from nexus.ledgers.text import match_any
from nexus.memory.embedding.index import Hits
from nexus.memory.embedding.vectors import Floats, Vectors
from nexus.memory.recall.item import Kind, Named, Preset, Query, Sighting
from nexus.memory.recall.question import (
    Question,
    Referents,
    entities_misspelt,
    entities_named,
    gist,
    load_aliases,
    narrowed_to,
    spans,
)
from nexus.memory.recall.reading import SQL, Deadline, timed
from nexus.memory.recall.words import ROLE_WORDS, Index, spellings, unspaced
from nexus.memory.writing import SCOPED_CHANNELS
from nexus.request import Visibility

# What was said in a place, and what is known to come from there. Conclusions may rest on other places.
_HAS_A_PLACE: Final[frozenset[Kind]] = frozenset({"event", "fact", "episode"})
# In a thread several may speak, and what was learned from the owner's turn may rest on more than was said.
_IS_SAID: Final[frozenset[Kind]] = frozenset({"event"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What one question may be answered with: what its asker may see, narrowed by what was asked."""

    places: Visibility
    kinds: frozenset[Kind]
    after: datetime | None
    before: datetime | None
    without: frozenset[str] = frozenset()
    """Ids of what is never an answer."""

    @classmethod
    def of(cls, query: Query, visible: Visibility, without: frozenset[str] = frozenset()) -> "Scope":
        """The query's own limits can only narrow what the principal may see."""
        channel = None if query.channel is None else frozenset({query.channel})
        places = Visibility(
            channels=_both(visible.channels, channel),
            thread_ids=_both(visible.thread_ids, query.thread_ids),
        )
        return cls(
            places=places,
            kinds=query.kinds & _kinds(places),
            after=query.time_after,
            before=query.time_before,
            without=without,
        )

    @property
    def open(self) -> bool:
        """Whether every place and every time is inside."""
        return self.places.everything and self.after is None and self.before is None

    @property
    def is_library(self) -> bool:
        """Whether only what users of one application wrote is inside."""
        channels = self.places.channels
        own = channels is not None and all(each.startswith(SCOPED_CHANNELS) for each in channels)
        return own and bool(channels) and self.places.thread_ids is None

    @property
    def parameters(self) -> dict[str, str | None]:
        """As the statements take it."""
        return {
            "threads": _list(self.places.thread_ids),
            "channels": _list(self.places.channels),
            "after": clock.timestamp(self.after) if self.after else None,
            "before": clock.timestamp(self.before) if self.before else None,
        }

    def holds_time(self, at: str) -> bool:
        """Whether a moment is inside."""
        parameters = self.parameters
        return (parameters["after"] or "") <= at < (parameters["before"] or "~")


def keep_permitted(
    connection: apsw.Connection,
    scope: Scope,
    sightings: Sequence[Sighting],
    listed: Collection[str] | None = None,
) -> list[Sighting]:
    """Return the sightings that lie inside the scope, whose events and facts may be listed already."""
    seen = [
        sighting
        for sighting in sightings
        if sighting.kind in scope.kinds and sighting.id not in scope.without
    ]
    if scope.open or not seen:
        return seen
    if listed is None:
        allowed = _find_events(connection, scope, {each.id for each in seen if each.kind == "event"})
        others = {each.id for each in seen if each.kind not in ("event", "entity")}
    else:
        allowed = {each.id for each in seen if each.id in listed}
        others = {each.id for each in seen if each.kind not in ("event", "fact", "entity")}
    # Episodes by their own place; facts by that of the event they came from; the rest by their time.
    given = {"ids": json.dumps(sorted(others)), **scope.parameters}
    rows = sql.rows(connection, SQL["permitted_others"], given) if others else []
    if scope.places.everything:
        allowed |= {id_ for id_, _ in rows}
    else:
        untimed = replace(scope, after=None, before=None)
        sources = _find_events(connection, untimed, {source for _, source in rows if source})
        allowed |= {id_ for id_, source in rows if source in sources or id_.startswith("epi_")}
    # Entities have no time and no place: the kinds let them through only where no place is asked for.
    return [each for each in seen if each.id in allowed or each.kind == "entity"]


def _find_events(connection: apsw.Connection, scope: Scope, ids: set[str]) -> set[str]:
    given = {"ids": json.dumps(sorted(ids)), **scope.parameters}
    return {id_ for (id_,) in sql.rows(connection, SQL["permitted_events"], given)} if ids else set()


def _kinds(places: Visibility) -> frozenset[Kind]:
    if places.everything:
        return frozenset(get_args(Kind))
    return _HAS_A_PLACE if places.thread_ids is None else _IS_SAID


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _list(values: frozenset[str] | None) -> str | None:
    return None if values is None else json.dumps(sorted(values))


Log = Literal["event", "fact", "summary"]
"""What has a full-text index. Summaries are observations, mental models and episodes."""
_INDEX: Final[dict[Log, Index]] = {"event": "events", "fact": "facts", "summary": "summaries"}
_KEYWORD_ARM: Final[dict[Log, str]] = {
    "event": "keyword_events",
    "fact": "keyword_facts",
    "summary": "summaries",
}
_KINDS: Final[dict[str, Kind]] = {
    "evt": "event",
    "fact": "fact",
    "obs": "observation",
    "mod": "mental_model",
    "epi": "episode",
}

_MOST_RELATED = 5
_FACTS_FOR_RELATED = 2_000
# What a fact about a related entity counts beside one of an entity that the question names.
_RELATED_SCORE = 0.5
# A scope of no more than this many items is searched by meaning exhaustively. In a wider one we look at
# _WIDER times the limit of the nearest of all, and drop those outside.
_SMALL_SCOPE = 5_000
_WIDER = 8
# A question that was asked in a conversation is itself one of the places where its words occur.
_HARDLY_USED = 2


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How frequent words are in a log, rarest first, and about how many rows it has."""

    words: list[keywords.Frequency]
    newest: int


@dataclass(kw_only=True)
class Search:
    """What the arms share. Whatever two of them need is looked up once."""

    connection: apsw.Connection
    """Reads all ledgers, as that of `Ledgers.read`."""
    vectors: Vectors | None
    question: Question
    query: Query
    scope: Scope
    limits: Preset
    deadline: Deadline
    now: datetime
    # Whether the owner asks: "my" is somebody else's word otherwise.
    by_owner: bool = True
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])
    embedded: Floats | None = None
    """Two unit vectors: of the question as it was asked, and of its gist."""
    is_embedding: bool = False
    """Whether a model is at work, which cannot be stopped."""
    entities: dict[str, Named] = field(default_factory=dict[str, Named])
    """The entities that the question names, means or was narrowed to; `Named.via` says how."""
    _frequencies: dict[Log, Frequencies] = field(default_factory=dict[Log, Frequencies])
    _listed: set[str] | None = None
    _is_listed: bool = False
    _narrowed: dict[str, Named] | None = None
    _nearest: list[Hits] = field(default_factory=list[Hits])

    def read(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a named statement."""
        return sql.rows(self.connection, SQL[statement], values)

    def count_words(self, log: Log) -> Frequencies:
        """Count how frequent each word of the question is in a log."""
        if log not in self._frequencies:
            self._frequencies[log] = count_words(self.connection, self.question, log)
        return self._frequencies[log]

    def narrow(self) -> dict[str, Named]:
        """Find the entities that the query was narrowed to: by id, by name, as `me` or as `my husband`."""
        given = self.query.entity_id
        if given is None:
            return {}
        if self._narrowed is None:
            self._narrowed = narrowed_to(self.connection, given)
            if self.by_owner and not any(named.name for named in self._narrowed.values()):
                meant = {
                    id_: replace(named, via="filter")
                    for id_, named in Referents(self.connection).find(given).items()
                    if named.said.lower() == given.lower()
                }
                self._narrowed = meant or self._narrowed
            self._narrowed = self._keep_scoped(self._narrowed)
        return self._narrowed

    def find_entities(self) -> dict[str, Named]:
        """Find whom and what the question names, also with a slip, means or was narrowed to."""
        language = self.question.language
        rows = Counter(dict.fromkeys(self.question.forms.values(), 0))
        for log in ("event", "fact"):
            for found in self.count_words(log).words:
                rows[found.word] += found.rows
        # A word that hardly anybody has used may be a name with a slip.
        unknown = {word for word, count in rows.items() if count <= _HARDLY_USED}
        text = self.question.text
        aliases = load_aliases(self.connection, spans(text))
        meant = Referents(self.connection).find(text, language, aliases) if self.by_owner else {}
        misspelt = entities_misspelt(self.connection, unknown, language)
        named = entities_named(self.connection, self.question, aliases)
        self.entities = self._keep_scoped(meant | misspelt | named | self.narrow())
        return self.entities

    def _keep_scoped(self, named: dict[str, Named]) -> dict[str, Named]:
        """Keep the entities whose names the asker may know: within some channels, those known there alone."""
        if self.by_owner or self.scope.places.channels is None or not named:
            return named
        given = {**self.scope.parameters, "entities": json.dumps(list(named))}
        own = {row[0] for row in self.read("entities_of_scopes", given)}
        return {id_: each for id_, each in named.items() if id_ in own}

    def embed(self) -> Floats:
        """Embed the question, and find what a small scope allows to be near it."""
        if self.embedded is None:
            assert self.vectors is not None  # noqa: S101 - an invariant, for the reader and the type checker
            self.vectors.mirror.take_news(self.connection)
            asked = {
                f"sender : {match_any([form])}": term
                for term, form in self.question.forms.items()
                if term not in ROLE_WORDS and not unspaced(term)
            }
            found = self.read("speakers", (json.dumps(list(asked)),)) if asked else []
            speakers = frozenset(asked[match] for (match,) in found)
            texts = [self.question.text, gist(self.question, speakers)]
            self.is_embedding = True
            with timed(self.timings_ms, "embed"):
                self.embedded = self.vectors.embedder.embed_queries(texts)
            self.is_embedding = False
        return self.embedded

    def find_nearest(self, arm: str, which: int) -> list[Sighting]:
        """Find what is nearest in meaning to the question, or to its gist."""
        if self.vectors is None or not self.question.text.strip():
            return []
        if not self._nearest:
            both, limit = self.embed(), self.limits.candidates
            allowed = self._list_scope()
            wide = limit if self.scope.open or allowed is not None else limit * _WIDER
            with timed(self.timings_ms, "nearest"):
                self._nearest = self.vectors.mirror.find_nearest(self.connection, both, wide, allowed)
        hits = self._nearest[which]
        return [
            Sighting(arm=arm, kind=kind_of(id_), id=id_, rank=rank, score=float(score))
            for rank, (id_, score) in enumerate(zip(hits.ids, hits.scores, strict=True), start=1)
        ]

    def keep_permitted(self, sightings: Sequence[Sighting]) -> list[Sighting]:
        """Return the sightings that lie inside the scope."""
        return keep_permitted(self.connection, self.scope, sightings, self.list_places())

    def list_places(self) -> set[str] | None:
        """List what lies in the scope's places, if it is a small one of an application, at any time."""
        timed_scope = self.scope.after is not None or self.scope.before is not None
        return self._list_scope() if self.scope.is_library and not timed_scope else None

    def _list_scope(self) -> set[str] | None:
        """List the ids inside a small scope; None for an open one and for one too wide to list."""
        if not self._is_listed:
            self._listed, self._is_listed = self._read_scope(), True
        return self._listed

    def _read_scope(self) -> set[str] | None:
        if self.scope.open:
            return None
        most = {"limit": _SMALL_SCOPE + 1, **self.scope.parameters}
        if self.scope.is_library:
            both = self.read("library_scope", {**most, "limit": 2 * _SMALL_SCOPE + 1})
            events = {str(event) for event, _ in both}
            facts = {str(fact) for _, fact in both if fact is not None}
        else:
            events = {str(row[0]) for row in self.read("events_in_scope", most)}
            placed = None if self.scope.places.everything else json.dumps(sorted(events))
            facts = {str(row[0]) for row in self.read("facts_in_scope", {**most, "events": placed})}
        return None if max(len(events), len(facts)) > _SMALL_SCOPE else events | facts


def count_words(connection: apsw.Connection, question: Question, log: Log) -> Frequencies:
    """Count in how many events, facts or summaries each word of the question occurs.

    Exact for a word of few rows; for a frequent one its newest rows tell it near enough.
    """
    index = _INDEX[log]
    newest = cast("int", connection.execute(SQL[f"newest_{log}"]).get)
    if not newest:
        return Frequencies([], 0)
    spelled = {
        form: spellings(connection, index, term, form, question.language)
        for term, form in question.forms.items()
    }

    def probe(word: str, most: int) -> tuple[int, int]:
        statement = _choose_statement(f"{index}_matching", index, is_unspaced=unspaced(word))
        row = connection.execute(statement, (match_any(list(spelled[word])), most)).fetchone()
        return cast("tuple[int, int]", row)

    found = keywords.frequencies((word for word in spelled if spelled[word]), newest, probe)
    return Frequencies([replace(each, spellings=spelled[each.word]) for each in found], newest)


def find_by_words(
    connection: apsw.Connection,
    log: Log,
    found: list[keywords.Frequency],
    scope: Scope,
    limit: int,
    matched_rows: int,
    listed: Collection[str] | None = None,
) -> list[Sighting]:
    """Find rows of a log that share words with the question: the rare words choose, as BM25 ranks them."""
    # In a thread nothing but messages may be seen, so that facts are not looked for.
    places = scope.places.channels is not None
    is_narrow = log == "event" or places or scope.after is not None or scope.before is not None
    is_listed = listed is not None and log != "summary"
    narrowed = "_scoped" if log != "summary" and not scope.open and is_narrow and not is_listed else ""
    index = _INDEX[log]

    def find(*, is_unspaced: bool) -> list[tuple[str, float]]:
        hits: dict[str, float] = {}
        words = [each for each in found if unspaced(each.word) == is_unspaced]
        # No rows are scanned for frequent words: here they are left out, and weigh in the features alone.
        for plan in keywords.plans(words, ranked_rows=matched_rows, scanned_rows=0):
            if len(hits) >= limit:
                break
            name = f"{'keyword' if plan.ranked else 'newest'}_{index}{narrowed}"
            # What is listed is chosen here: sooner done than by looking up each row's place.
            given = {"match": plan.match, "limit": -1 if is_listed else limit, **scope.parameters}
            rows = connection.execute(_choose_statement(name, index, is_unspaced=is_unspaced), given)
            permitted = (row for row in rows if not is_listed or row[0] in (listed or ()))
            for row in islice(permitted, limit):
                hits.setdefault(str(row[0]), cast("float", row[1]))
        return list(hits.items())

    # Words with and without spaces have an index each, whose scores can't be compared: they take turns.
    turns = zip_longest(find(is_unspaced=False), find(is_unspaced=True))
    best: dict[str, float] = {}
    for id_, score in (hit for turn in turns for hit in turn if hit is not None):
        best.setdefault(id_, score)
    arm = _KEYWORD_ARM[log]
    return [
        Sighting(arm=arm, kind=log if log != "summary" else kind_of(id_), id=id_, rank=rank, score=score)
        for rank, (id_, score) in enumerate(list(best.items())[:limit], start=1)
    ]


def _choose_statement(name: str, index: Index, *, is_unspaced: bool) -> str:
    """Choose a statement over the index of words, or over that of the scripts that have no spaces."""
    return SQL[name].replace(f"{index}_fts", f"{index}_unspaced_fts") if is_unspaced else SQL[name]


def _find_by_words(search: Search, log: Log) -> list[Sighting]:
    words, limits = search.count_words(log).words, search.limits
    return find_by_words(
        search.connection,
        log,
        words,
        search.scope,
        limits.candidates,
        limits.matched_rows,
        search.list_places(),
    )


def _find_in_time(search: Search, arm: str, statements: Mapping[str, Kind]) -> list[Sighting]:
    """Find what is of the time that the question speaks of."""
    if search.question.window is None:
        return []
    start, end = (clock.timestamp(moment) for moment in search.question.window)
    given = {
        **search.scope.parameters,
        "start": start,
        "end": end,
        "limit": search.limits.temporal_candidates,
    }
    return [
        sighting
        for statement, kind in statements.items()
        for sighting in _sight(arm, kind, ((row[0], 1.0) for row in search.read(statement, given)))
    ]


def _find_by_entities(search: Search) -> list[Sighting]:
    """Find the entities that the question names, what is known of them, and facts about related ones."""
    # The owner is behind every question: what is new about them says nothing about this one.
    entities = [id_ for id_, named in search.find_entities().items() if not named.is_owner]
    if not entities:
        return []
    limit = search.limits.candidates
    wanted = {"entities": json.dumps(entities), "limit": limit}
    facts = search.read("facts_of_entities", wanted)
    of_related = {**wanted, "limit": _MOST_RELATED, "facts": _FACTS_FOR_RELATED}
    related = [str(row[0]) for row in search.read("related_entities", of_related)]
    given = {"entities": json.dumps(related), "limit": limit // 4}
    beyond = search.read("facts_of_entities", given)
    scored = {str(row[0]): _RELATED_SCORE for row in beyond} | {str(row[0]): 1.0 for row in facts}
    conclusions = search.read("conclusions_of_entities", wanted)
    return [
        *_sight("graph", "entity", ((id_, 1.0) for id_ in entities)),
        *(
            Sighting(arm="graph", kind=cast("Kind", kind), id=str(id_), rank=rank, score=1.0)
            for rank, (kind, id_) in enumerate(conclusions, start=1)
        ),
        *_sight("graph", "fact", sorted(scored.items(), key=lambda pair: -pair[1])),
    ]


def find_causes(search: Search, found: Iterable[Sighting]) -> list[Sighting]:
    """Find facts that led to those found, or that they led to."""
    facts = {sighting.id for sighting in found if sighting.kind == "fact"}
    if "causal" not in search.limits.arms or not facts:
        return []
    given = {"facts": json.dumps(sorted(facts)), "limit": search.limits.candidates}
    return _sight("causal", "fact", search.read("causal_neighbours", given))


def find_successions(search: Search, found: Iterable[Sighting]) -> list[Sighting]:
    """Find what replaced the facts, or what they replaced, each ranked like the one that led to it."""
    ranks: dict[str, int] = {}
    for sighting in sorted(found, key=lambda sighting: sighting.rank):
        if sighting.kind == "fact":
            ranks.setdefault(sighting.id, sighting.rank)
    if not ranks:
        return []
    # Every chain has one end at most; the limit is for what lies between.
    given = {"facts": json.dumps(list(ranks)), "limit": len(ranks) + search.limits.candidates}
    return [
        Sighting(arm="succession", kind="fact", id=str(id_), rank=ranks[str(start)], score=1.0)
        for start, id_ in search.read("succession_chains", given)
        if id_ not in ranks
    ]


def kind_of(id_: str) -> Kind:
    """Tell what an id stands for: its prefix says so."""
    return _KINDS.get(id_.partition("_")[0], "entity")


def _sight(arm: str, kind: Kind, rows: Iterable[Any]) -> list[Sighting]:
    return [
        Sighting(arm=arm, kind=kind, id=str(row[0]), rank=rank, score=float(row[1]))
        for rank, row in enumerate(rows, start=1)
    ]


Arm = Callable[[Search], list[Sighting]]
"""A way to find candidates: best first, for the scope check and the ranker to judge."""

BY_MEANING: Final = ("semantic", "gist")
"""The arms that ask a model. They come last: where it takes too long, only what they find is missing."""
# Two more follow from these, as steps of `Recall`: `causal`, if the budget has it, and `succession`.
ARMS: Final[Mapping[str, Arm]] = {
    "keyword_events": lambda search: _find_by_words(search, "event"),
    "keyword_facts": lambda search: _find_by_words(search, "fact"),
    "summaries": lambda search: _find_by_words(search, "summary"),
    "semantic": lambda search: search.find_nearest("semantic", 0),
    "gist": lambda search: search.find_nearest("gist", 1),
    "temporal_events": lambda search: _find_in_time(search, "temporal_events", {"events_in_window": "event"}),
    "temporal_memory": lambda search: _find_in_time(
        search, "temporal_memory", {"facts_in_window": "fact", "episodes_in_window": "episode"}
    ),
    "graph": _find_by_entities,
}
