"""Merge candidates: entities that may be one, found by their names and noted with reasons."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, cast

import apsw

from nexus import ids
from nexus.ledgers import sql
from nexus.ledgers.identity import senders
from nexus.ledgers.sql import rows
from nexus.memory import similarity
from nexus.memory.normalisation import IDENTIFYING, NAME, normalised
from nexus.memory.similarity import Reason

_WORD = re.compile(r"\w+")
_LETTERS: Final = 3
# How many names are compared: those of the rarest keys, and those that share two of the common ones.
_COMPARED: Final = 1_000
_COMMON_KEYS: Final = 4
_SCANNED: Final = 4_000
_NOTED: Final = 5

Signs = dict[str, dict[str, Reason]]


def blocking_keys(normalized: str) -> set[str]:
    """The keys of a normalised name: `^sar` and `rah$` of `sarah`; the whole of a short word."""
    found: set[str] = set()
    for word in _WORD.findall(normalized):
        if len(word) < _LETTERS:
            found.add(f"^{word}$")
        else:
            found |= {f"^{word[:_LETTERS]}", f"{word[-_LETTERS:]}$"}
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """An alias as it is recorded."""

    id: str
    type: str
    normalized: str
    is_new: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """Another entity that one may be."""

    id: str
    entity_id: str
    name: str
    score: float
    reasons: tuple[Reason, ...]


def note(
    connection: apsw.Connection,
    entity_id: str,
    aliases: Sequence[Added],
    alike: Mapping[str, float],
    now: str,
) -> list[Candidate]:
    """Compare an entity's aliases with all others', and record which entities it may be."""
    return record(connection, entity_id, signs(connection, entity_id, aliases, alike), now)


def note_sender(
    connection: apsw.Connection, entity_id: str, *, channel: str, name: str, now: str
) -> list[Candidate]:
    """Suggest that a new sender is somebody of the same name who is known from elsewhere.

    People choose the names that channels show, so that it stays a suggestion.
    """
    values = {
        "id": entity_id,
        "name": normalised(name),
        "sent": senders.normalize_name(name),
        "channel": channel,
        "limit": _NOTED,
    }
    found: Signs = {}
    for other, channels in rows(connection, sql.queries("identity")["called_alike"], values):
        where = f"{channel} and {channels.replace(',', ', ')}" if channels else f"{channel} and in the memory"
        reason = similarity.by_name(name, name)
        if reason is not None:
            found[other] = {reason.signal: replace(reason, detail=f"{name}, on {where}")}
    return record(connection, entity_id, found, now)


def signs(
    connection: apsw.Connection, entity_id: str, aliases: Sequence[Added], alike: Mapping[str, float]
) -> Signs:
    """What speaks for an entity being one of the others, by the other's id and the kind of sign."""
    scope = cast("str", connection.execute(sql.queries("identity")["scope_of"], (entity_id,)).get or "")
    found = _by_identifiers(connection, entity_id, aliases, scope)
    _add_names(found, _near_names(connection, entity_id, aliases, scope), aliases)
    names = [alias.normalized for alias in aliases if alias.type == NAME]
    add_meaning(connection, found, names, alike)
    return found


def record(connection: apsw.Connection, entity_id: str, found_signs: Signs, now: str) -> list[Candidate]:
    """Keep the pairs that reach the threshold, the best first; what was decided stays decided."""
    wanted = json.dumps([entity_id, *found_signs])
    known = {
        id_: (type_, name)
        for id_, type_, name in rows(connection, sql.queries("identity")["apart_from"], (wanted, entity_id))
    }
    found: list[Candidate] = []
    for other, by_signal in found_signs.items():
        if other not in known:
            continue  # the same entity by another id, since the two were merged
        reasons = tuple(sorted(by_signal.values(), key=lambda reason: -reason.weight))
        reached = similarity.score(reasons, known[entity_id][0], known[other][0])
        if reached >= similarity.THRESHOLD:
            name = known[other][1]
            found.append(
                Candidate(id=ids.new("mrg"), entity_id=other, name=name, score=reached, reasons=reasons)
            )
    found.sort(key=lambda candidate: -candidate.score)
    kept = [_put(connection, entity_id, candidate, now) for candidate in found[:_NOTED]]
    return [candidate for candidate in kept if candidate is not None]


def _put(connection: apsw.Connection, entity_id: str, candidate: Candidate, now: str) -> Candidate | None:
    """Record a pair; None where somebody has decided about it."""
    queries = sql.queries("identity")
    reasons = json.dumps([asdict(reason) for reason in candidate.reasons], ensure_ascii=False)
    pair = sorted((entity_id, candidate.entity_id))
    connection.execute(queries["put_candidate"], (candidate.id, *pair, candidate.score, reasons, now))
    kept = rows(connection, queries["pending_candidate"], pair)
    if not kept:
        return None
    id_, reached, noted = kept[0]
    return replace(
        candidate, id=id_, score=reached, reasons=tuple(Reason(**reason) for reason in json.loads(noted))
    )


def _by_identifiers(
    connection: apsw.Connection, entity_id: str, aliases: Sequence[Added], scope: str
) -> Signs:
    found: Signs = defaultdict(dict)
    query = sql.queries("identity")["others_with_alias"]
    for alias in aliases:
        reason = similarity.by_identifier(alias.type, alias.normalized) if alias.type in IDENTIFYING else None
        if reason is not None:
            given = (alias.normalized, alias.type, entity_id, scope, _COMPARED)
            for (other,) in rows(connection, query, given):
                found[other][reason.signal] = reason
    return found


def _near_names(
    connection: apsw.Connection, entity_id: str, aliases: Sequence[Added], scope: str
) -> dict[str, set[str]]:
    """The names of other entities that share a rare key, or two common ones, with one of these."""
    queries = sql.queries("identity")
    names = [alias.normalized for alias in aliases if alias.type == NAME]
    near: dict[str, set[str]] = defaultdict(set)
    for name in names:
        given = (name, NAME, entity_id, scope, _COMPARED)
        for (other,) in rows(connection, queries["others_with_alias"], given):
            near[other].add(name)
    rare, common = _by_frequency(connection, set[str]().union(*map(blocking_keys, names)))
    for keys, shared in ((rare, 1), (common, 2)):
        bindings = (json.dumps(keys), entity_id, shared, _COMPARED, scope)
        for other, normalized in rows(connection, queries["others_with_keys"], bindings):
            near[other].add(normalized)
    return near


def _by_frequency(connection: apsw.Connection, keys: Iterable[str]) -> tuple[list[str], list[str]]:
    """The keys that together find few enough aliases to compare, and the next rarest ones."""
    query = sql.queries("identity")["key_count"]
    counts = {key: cast("int", connection.execute(query, (key, _SCANNED + 1)).get) for key in keys}
    ordered = sorted(keys, key=lambda key: (counts[key], key))
    left, rare = _COMPARED, 0
    while rare < len(ordered) and counts[ordered[rare]] <= left:
        left -= counts[ordered[rare]]
        rare += 1
    common = [key for key in ordered[rare:] if counts[key] <= _SCANNED]
    return ordered[:rare], common[:_COMMON_KEYS]


def _add_names(found: Signs, near: dict[str, set[str]], aliases: Sequence[Added]) -> None:
    """Weigh the names that are near enough; the comparison of all with all is left to the library."""
    owners: dict[str, list[str]] = defaultdict(list)
    for other, names in near.items():
        for name in names:
            owners[name].append(other)
    for alias in aliases:
        if alias.type != NAME:
            continue
        for name in similarity.near(alias.normalized, list(owners)):
            reason = similarity.by_name(alias.normalized, name)
            for other in owners[name] if reason else ():
                known = found.setdefault(other, {}).get("name")
                if reason and (known is None or known.weight < reason.weight):
                    found[other]["name"] = reason


def add_meaning(
    connection: apsw.Connection, found: Signs, names: list[str], alike: Mapping[str, float]
) -> None:
    """Let near vectors speak for pairs too, but not where a number tells them apart."""
    query = sql.queries("identity")["canonical_names"]
    for other, theirs in rows(connection, query, (json.dumps(list(alike)),)):
        reason = similarity.by_meaning(alike[other])
        # The vectors of `Room 101` and `Room 102` are nearly one.
        if reason is not None and not any(similarity.tells_apart(name, theirs) for name in names):
            found.setdefault(other, {})["meaning"] = reason
