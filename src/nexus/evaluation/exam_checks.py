"""What is wrong with sampled facts, each with the commands that correct it."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

import apsw

from nexus.evaluation.exam_questions import Sampled
from nexus.ledgers import Ledgers
from nexus.ledgers.memory.exams import Answer, Finding, Fix, Problem
from nexus.memory import succession
from nexus.memory.embedding import Vectors
from nexus.memory.languages import cues, detect
from nexus.memory.normalisation import normalize
from nexus.memory.recall.question import aliases_of
from nexus.memory.recall.reading import SQL as RECALL
from nexus.memory.recall.words import function_words, tokens

PERSONS: Final = frozenset({"person", "pet", "animal"})
_WORD: Final = re.compile(r"[^\W\d_][\w'\u2019-]*")
_ALIAS_WORDS: Final = 3
# A name that nobody bears is one if so many facts about the same person begin with it.
_UNKNOWN_NAME_FACTS: Final = 2
_OWN_SHARE: Final = 0.8
# Letters at the beginning that a nickname shares with the name: Ruthie, Ruth.
_ALIKE: Final = 3
_CITED: Final = 120

Openings = Sequence[tuple[str | None, str]]
"""Of every fact that holds, whom it is about and how it begins."""


async def find_problems(
    ledgers: Ledgers,
    vectors: Vectors | None,
    facts: Sequence[Sampled],
    answers: Sequence[Answer],
    openings: Openings,
) -> list[Finding]:
    """Find what is wrong with facts of which is known how they were found."""
    asked = {each.fact_id: each for each in answers}
    found = [
        *(
            _hidden(fact, asked[fact.id])
            for fact in facts
            if fact.id in asked and not asked[fact.id].is_found
        ),
        *await _find_unembedded(vectors, facts),
        *await ledgers.identity.read(_find_misnamed, facts, openings),
        *await _find_contradictions(ledgers, vectors, facts),
        *(_unsourced(fact) for fact in facts if not fact.is_sourced),
    ]
    # The likeliest contradiction of each fact comes first.
    return list({(each.fact_id, each.problem): each for each in reversed(found)}.values())[::-1]


def _hidden(fact: Sampled, answer: Answer) -> Finding:
    fixes = [Fix(does="Always consider it when its subject comes up", command=_command("pin", fact.id))]
    if fact.subject and not is_named(fact.text, fact.names):
        text = f"{fact.subject}: {fact.text}"
        command = _command("correct", fact.id, "--how", "corrected", "--", text)
        fixes.insert(0, Fix(does="Word it with its subject's name", command=command))
    elif not fact.subject:
        fixes = []
    return _finding(
        "hidden",
        fact,
        f"{answer.found} of {answer.asked} questions find it among the first five results",
        [*fixes, *_drop(fact)],
    )


async def _find_unembedded(vectors: Vectors | None, facts: Sequence[Sampled]) -> list[Finding]:
    if vectors is None or not facts:
        return []
    known = await vectors.of("fact", [fact.id for fact in facts])
    fix = Fix(does="Embed what is missing", command=_command("embeddings", "--check"))
    return [
        _finding("vector", fact, "has no vector, so only its own words find it", [fix])
        for fact in facts
        if fact.id not in known and fact.text.strip()
    ]


def _unsourced(fact: Sampled) -> Finding:
    gone = (
        "the message or request that it came from is gone" if fact.had_source else "nothing says who said it"
    )
    vouch = Fix(does="Vouch for it", command=_command("review", "--accept", fact.id))
    return _finding("source", fact, gone, [vouch, *_drop(fact)])


async def _find_contradictions(
    ledgers: Ledgers, vectors: Vectors | None, facts: Sequence[Sampled]
) -> list[Finding]:
    if vectors is None or not facts:
        return []
    by_id = {fact.id: fact for fact in facts}
    times = {fact.id: fact.created_at for fact in facts}
    rivals = await succession.find_rivals(ledgers, vectors, times)
    texts = await _load_texts(ledgers, [rival.other_id for rival in rivals])
    found: list[Finding] = []
    seen: set[frozenset[str]] = set()
    for rival in sorted(rivals, key=lambda each: -each.probability):
        pair = frozenset((rival.fact_id, rival.other_id))
        if rival.other_id not in texts or pair in seen:
            continue
        seen.add(pair)
        fact, (other, other_at) = by_id[rival.fact_id], texts[rival.other_id]
        is_newer = fact.created_at > other_at
        old, new = (rival.other_id, fact.id) if is_newer else (fact.id, rival.other_id)
        replaced = ("--cause", old, "--effect", new, "--relation", "replaced")
        fixes = [
            Fix(does="The newer one holds", command=_command("write", "causal-link", *replaced)),
            Fix(does="Both are true", command=_command("keep-both", old, new)),
            Fix(does="The newer one is wrong", command=_command("review", "--reject", new)),
        ]
        detail = f"another fact says: {' '.join(other.split())[:_CITED]}"
        found.append(_finding("contradiction", fact, detail, fixes, other_id=rival.other_id, other=other))
    return found


async def _load_texts(ledgers: Ledgers, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    def work(connection: apsw.Connection) -> dict[str, tuple[str, str]]:
        rows = connection.execute(
            "SELECT id, fact, created_at FROM facts WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(ids)),),
        )
        return {row[0]: (row[1], row[2]) for row in cast("Iterable[tuple[str, str, str]]", rows)}

    return await ledgers.memory.read(work)


def _find_misnamed(
    connection: apsw.Connection, facts: Sequence[Sampled], openings: Openings
) -> list[Finding]:
    """Find facts that begin with a name that isn't their subject's, or nobody's."""
    suspects = [
        fact
        for fact in facts
        if fact.subject_id and not is_named(fact.text, fact.names) and not _speaks_of_speaker(fact)
    ]
    candidates = {fact.id: _opening_names(fact.text) for fact in suspects}
    wanted = {normalize(name) for some in candidates.values() for name in some}
    known = aliases_of(connection, wanted)
    meant = sorted({id_ for some in known.values() for id_ in some})
    families, types = _families(connection, meant), _types(connection, meant)
    owners = {str(row[0]) for row in connection.execute(RECALL["owner"])}
    filed = _count_openings(openings, wanted)
    found: list[Finding] = []
    told = set[tuple[str | None, str]]()
    for fact in suspects:
        name = next((each for each in candidates[fact.id] if normalize(each) in known), None)
        if name is not None:
            others = known[normalize(name)]
            if any(families.get(id_, frozenset({id_})) & fact.entity_ids for id_ in others):
                continue  # whom it names is tied to it
            counts = filed.get(normalize(name), Counter[str | None]())
            is_person = any(types.get(id_, "").lower() in PERSONS for id_ in others)
            is_owner = bool(others & owners)
            if _is_mostly(counts, fact.subject_id):
                if (fact.subject_id, name) not in told:
                    found.append(_unknown_alias(fact, name, sorted(others)))
                told.add((fact.subject_id, name))
            elif is_named(fact.message or "", fact.names):
                continue  # its message speaks of its subject
            elif (fact.is_person and is_person) or not (fact.names_somebody or is_owner):
                # What is about a project or a place may well begin with who works there.
                found.append(_misfiled(fact, name, sorted(others)))
            continue
        name = next((each for each in candidates[fact.id] if _is_likely_name(each, fact, filed)), None)
        if name is not None and (fact.subject_id, name) not in told:
            # Once for all facts that use it.
            told.add((fact.subject_id, name))
            found.append(_unknown_alias(fact, name, []))
    return found


def _misfiled(fact: Sampled, name: str, others: list[str]) -> Finding:
    about = ("--about", others[0], "--fact", fact.text, "--replaces", fact.id, "--how", "corrected")
    kind = ("--type", fact.relation_type) if fact.relation_type else ()
    fixes = [
        Fix(does=f"File it under {name}", command=_command("write", "fact", *about, *kind)),
        Fix(does=f"{name} is another name of {fact.subject}", command=_alias_command(fact, name)),
    ]
    detail = f"is about {name}, and filed under {fact.subject}"
    return _finding("entity", fact, detail, fixes, entity_id=others[0])


def _unknown_alias(fact: Sampled, name: str, others: list[str]) -> Finding:
    fixes = [Fix(does=f"Add {name} to the names of {fact.subject}", command=_alias_command(fact, name))]
    subject = fact.subject_id or ""
    fixes += [Fix(does="Both are one", command=_command("merge", other, subject)) for other in others[:1]]
    detail = f"{name} isn't among the names of {fact.subject}"
    return _finding("alias", fact, detail, fixes, entity_id=fact.subject_id)


def _alias_command(fact: Sampled, name: str) -> str:
    return _command("write", "alias", "--entity", fact.subject_id or "", "--alias", f"{name}:name")


def is_named(text: str, names: Iterable[str]) -> bool:
    """Whether a text names somebody by any of these, also in the genitive."""
    words = set(tokens(text, detect(text)))
    said = f" {' '.join(part.strip(_AROUND) for part in normalize(text).split())} "
    return any(
        f" {name} " in said or f" {name}'s " in said or f" {name}s " in said or f" {name}\u2019s " in said
        for name in names
    ) or any(set(tokens(name, detect(text))) <= words for name in names if tokens(name, detect(text)))


_AROUND: Final = '.,;:!?"()[]¿¡«»„“”'


def _speaks_of_speaker(fact: Sampled) -> bool:
    return cues.first_person(fact.text, detect(fact.text))


def _opening_names(text: str) -> list[str]:
    """Return what a text may begin with as a name, the longest first: "Anna Berg", "Anna"."""
    words: list[str] = []
    for word in _WORD.findall(text)[:_ALIAS_WORDS]:
        if not word[0].isupper():
            break
        words.append(re.sub(r"['\u2019]s?$", "", word))
    if not words or words[0].lower() in function_words(detect(text)):
        return []
    names = [" ".join(words[:count]) for count in range(len(words), 0, -1)]
    # German: Annas Bruder.
    return [*names, words[0][:-1]] if len(words[0]) > 3 and words[0].endswith("s") else names


def _count_openings(openings: Openings, names: Iterable[str]) -> dict[str, Counter[str | None]]:
    """Count, by each of some names, whom the facts are about that begin with it."""
    wanted, counts = set(names), dict[str, Counter[str | None]]()
    for subject, opening in openings:
        for name in _opening_names(opening):
            if (key := normalize(name)) in wanted:
                counts.setdefault(key, Counter())[subject] += 1
    return counts


def _is_mostly(counts: Counter[str | None], subject: str | None) -> bool:
    own = counts[subject]
    return own >= _UNKNOWN_NAME_FACTS and own >= _OWN_SHARE * counts.total()


def _is_likely_name(name: str, fact: Sampled, filed: Mapping[str, Counter[str | None]]) -> bool:
    """Whether an unknown word at the beginning is what a person is called."""
    if not fact.is_person or " " in name or len(name) < 3:
        return False
    parts = {part for each in fact.names for part in each.split()}
    if normalize(name) in parts:
        return True
    if fact.is_owner:
        return False  # facts about the owner begin with all kinds of words
    is_nickname = any(normalize(name)[:_ALIKE] == part[:_ALIKE] for part in parts if len(part) >= _ALIKE)
    is_name = is_nickname or _stands_inside(name, fact.message or "")
    return is_name and _is_mostly(filed.get(normalize(name), Counter()), fact.subject_id)


def _stands_inside(word: str, message: str) -> bool:
    """Whether a message has the word with its capital in the middle of a sentence, as a name."""
    return re.search(rf"[\w,;:)] {re.escape(word)}\b", message) is not None


def _families(connection: apsw.Connection, entities: Sequence[str]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for start, id_ in connection.execute(RECALL["families"], (json.dumps(list(entities)),)):
        found.setdefault(cast("str", start), set()).add(cast("str", id_))
    return {start: frozenset(some) for start, some in found.items()}


def _types(connection: apsw.Connection, entities: Sequence[str]) -> dict[str, str]:
    rows = connection.execute(RECALL["types"], (json.dumps(list(entities)),)).fetchall()
    return dict(cast("list[tuple[str, str]]", rows))


def _drop(fact: Sampled) -> list[Fix]:
    return [
        Fix(does="Stop using it", command=_command("review", "--reject", fact.id)),
        Fix(does="Delete it", command=shlex.join(["nexus", "forget", "fact", fact.id])),
    ]


def _command(*arguments: str) -> str:
    return shlex.join(["nexus", "memory", *arguments])


def _finding(
    problem: Problem,
    fact: Sampled,
    detail: str,
    fixes: Sequence[Fix],
    *,
    other_id: str | None = None,
    other: str | None = None,
    entity_id: str | None = None,
) -> Finding:
    return Finding(
        problem=problem,
        fact_id=fact.id,
        fact=fact.text,
        detail=detail,
        fixes=tuple(fixes),
        other_fact_id=other_id,
        other_fact=other,
        entity_id=entity_id,
    )
